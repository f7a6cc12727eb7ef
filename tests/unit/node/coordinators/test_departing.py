"""What a departure takes, sends on and over which connection: each step by itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.connection import Connection
from penstock.node.coordinators import departure as module
from penstock.node.coordinators.departure import HEARTBEATS, LONG, Departure
from penstock.node.serving.slices import Slices
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.envelope import EnvelopeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import ForwardToCoordinatorRequest, ForwardToCoordinatorResponse

NOTHING_LONG = ApiKey.OFFSET_COMMIT


class Link:
    """A connection; its answers come when they are told to."""

    def __init__(self) -> None:
        self.sent: list[ForwardToCoordinatorRequest] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.aborted: list[str] = []

    @property
    def closed(self) -> bool:
        return bool(self.aborted)

    @property
    def in_flight(self) -> int:
        return sum(not answer.done() for answer in self.answers)

    def submit(self, message: ForwardToCoordinatorRequest, answer: type[Any]) -> asyncio.Future[Any]:
        assert answer is ForwardToCoordinatorResponse
        self.sent.append(message)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    async def request(self, message: ForwardToCoordinatorRequest, answer: type[Any]) -> Any:
        return await self.submit(message, answer)

    def abort(self, why: str) -> None:
        self.aborted.append(why)


class Made:
    def __init__(self) -> None:
        self.did: list[Any] = []
        self.links: list[Link] = []
        hosted: Any = SimpleNamespace(
            partition=SimpleNamespace(index=4),
            machine=SimpleNamespace(seal="seal"),
            pause=lambda: self.did.append("pause"),
            report=lambda: self.did.append("report"),
            put=self.did.append,
            go_on=lambda: self.did.append("go on"),
        )
        self.departures: dict[int, Departure] = {}
        self.it = Departure(hosted, 1, self._connect, self.departures)
        self.departures[4] = self.it

    async def _connect(self) -> Connection:
        self.links.append(Link())
        return cast("Connection", self.links[-1])

    async def forwards(self, leader_epoch: int = 7) -> Link:
        """The successor serves."""
        self.it.hold()
        begins = asyncio.ensure_future(self.it.forward(leader_epoch))
        await turns()
        (link,) = self.links
        link.answers[0].set_result(ForwardToCoordinatorResponse())
        await begins
        return link

    def asked(self, api_key: int = NOTHING_LONG) -> asyncio.Future[Any]:
        context: Any = SimpleNamespace(api_key=int(api_key), api_version=3)
        return asyncio.ensure_future(self.it.answer(context, SimpleNamespace(), lambda: "here"))  # type: ignore[arg-type]


async def turns() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


def told(text: str) -> ForwardToCoordinatorResponse:
    """The successor's answer."""
    return ForwardToCoordinatorResponse(envelope=encode(EnvelopeResponse(response_data=text.encode()), 0))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    wrapped = EnvelopeResponse(response_data=b"wrapped")
    monkeypatch.setattr(module, "wrap", lambda *_: wrapped)
    monkeypatch.setattr(module, "unwrap", lambda envelope, *_: envelope.response_data)
    monkeypatch.setattr(module, "is_long", lambda _: False)
    monkeypatch.setattr(module, "is_large", lambda _: False)
    return Made()


async def test_steps_of_what_goes(made: Made) -> None:
    made.it.hold()
    made.it.seal()
    made.it.resume()
    assert made.did == ["pause", "report", "seal", "go on"]


async def test_what_it_takes(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    kinds = (*HEARTBEATS, NOTHING_LONG)

    def takes() -> list[bool]:
        return [made.it.takes(kind) for kind in kinds]

    all_of_them, but_heartbeats = [True] * len(kinds), [False] * len(HEARTBEATS) + [True]
    assert takes() == [False] * len(kinds), "it has not begun"
    made.it.hold()
    assert takes() == all_of_them
    waits = [made.asked(), made.asked()]
    await turns()
    assert takes() == [False] * len(kinds)
    waits.pop().cancel()
    await turns()
    assert takes() == all_of_them, "one has gone"
    begins = asyncio.ensure_future(made.it.forward(7))
    await turns()
    assert takes() == all_of_them, "until the successor serves"
    made.links[0].answers[0].set_result(ForwardToCoordinatorResponse())
    await begins
    assert takes() == but_heartbeats
    made.it.refuse()
    assert takes() == [False] * len(kinds)
    made.links[0].answers[1].set_result(told("there"))
    assert await waits[0] == b"there"
    made.it.hold()
    assert made.it._waiting == 0


async def test_what_is_sent_names_the_partition_and_its_epoch(made: Made) -> None:
    link = await made.forwards(leader_epoch=9)
    answer = made.asked()
    await turns()
    envelope = encode(EnvelopeResponse(response_data=b"wrapped"), 0)
    assert link.sent == [
        ForwardToCoordinatorRequest(partition=4, leader_epoch=9, envelope=None, key_type=1),
        ForwardToCoordinatorRequest(partition=4, leader_epoch=9, envelope=envelope, key_type=1),
    ]
    link.answers[1].set_result(ForwardToCoordinatorResponse())
    assert await answer == "here", "it has not been told an answer"


async def test_a_successor_that_refuses_ends_it(made: Made) -> None:
    made.it.hold()
    begins = asyncio.ensure_future(made.it.forward(7))
    await turns()
    made.links[0].answers[0].set_result(ForwardToCoordinatorResponse(error_code=int(ErrorCode.NOT_COORDINATOR)))
    with pytest.raises(KafkaError) as refused:
        await begins
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert made.it.takes(ApiKey.HEARTBEAT)


@pytest.mark.parametrize("is_long", [True, False])
@pytest.mark.parametrize("is_large", [True, False])
async def test_what_is_long_is_worked_on_in_slices(
    made: Made, monkeypatch: pytest.MonkeyPatch, *, is_long: bool, is_large: bool
) -> None:
    sliced: list[Any] = []

    async def work(_: Slices, what: Any) -> Any:
        sliced.append(what())
        return sliced[-1]

    monkeypatch.setattr(Slices, "work", work)
    monkeypatch.setattr(module, "is_long", lambda _: is_long)
    monkeypatch.setattr(module, "is_large", lambda _: is_large)
    link = await made.forwards()
    answer = made.asked()
    await turns()
    link.answers[1].set_result(told("there"))
    assert await answer == b"there"
    assert sliced == [EnvelopeResponse(response_data=b"wrapped")] * is_long + [b"there"] * is_large


@pytest.mark.parametrize("kind", [*LONG, ApiKey.HEARTBEAT, NOTHING_LONG])
async def test_what_waits_for_other_members_has_a_connection_of_its_own(made: Made, kind: ApiKey) -> None:
    shared = await made.forwards()
    answer = made.asked(kind)
    await turns()
    assert len(made.links) == 1 + (kind in LONG)
    made.links[-1].answers[-1].set_result(told("there"))
    assert await answer == b"there"
    assert (shared.aborted, made.links[-1].aborted) == ([], ["answered"] if kind in LONG else [])
    assert made.it._apart == {}


async def test_so_many_have_connections_of_their_own_at_a_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    await made.forwards()
    for _ in range(3):
        first, second, third = (made.asked(ApiKey.JOIN_GROUP) for _ in range(3))
        await turns()
        assert (first.done(), second.done(), await third) == (False, False, "here")
        for link in made.links[-2:]:
            link.answers[0].set_result(told("there"))
        assert (await first, await second) == (b"there", b"there")
    assert len(made.links) == 7


async def test_the_shared_connection_ends_with_the_last_answer(made: Made) -> None:
    link = await made.forwards()
    answers = [made.asked(), made.asked()]
    await turns()
    made.it.end()
    assert made.departures == {}
    for at, aborted in ((1, []), (2, ["handed over"])):
        link.answers[at].set_result(told("there"))
        await turns()
        assert link.aborted == aborted
    assert [await answer for answer in answers] == [b"there", b"there"]


async def test_another_departure_of_the_partition_stays(made: Made) -> None:
    other = Made().it
    made.departures[4] = other
    made.it.end()
    assert made.departures == {4: other}


async def test_a_node_that_ends_lets_all_connections_go(made: Made) -> None:
    shared = await made.forwards()
    answers = [made.asked(ApiKey.JOIN_GROUP), made.asked()]
    await turns()
    made.it.stop()
    assert (made.departures, made.it.takes(NOTHING_LONG)) == ({}, False)
    assert [link.aborted for link in made.links] == [["this node ends"], ["this node ends"]]
    assert shared is made.links[0]
    for answer in answers:
        answer.cancel()
