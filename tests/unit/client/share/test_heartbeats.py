"""How a member of a share group beats: when, what it makes of failures, and how it leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.client.background import SameLoop
from penstock.client.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    UnsupportedByBrokerError,
)
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import heartbeats as module
from penstock.client.share.heartbeats import ShareHeartbeats
from penstock.client.share.member import ShareMember
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class Paced(ShareConsumerSettings, kw_only=True):
    def backoff_ms(self, attempt: int) -> float:
        return 1_000.0 * (attempt + 1)


class World:
    """A coordinator that answers as a test says, and otherwise well; time goes on as heartbeats pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.answers: list[Any] = []
        self.asked: list[ShareGroupHeartbeatRequest] = []
        self.pauses: list[float] = []
        self.looks, self.news, self.now_s, self.closed = 0, 0, 500.0, 0
        self.forgotten: list[str] = []
        loop = SimpleNamespace(time=lambda: self.now_s, call_soon_threadsafe=lambda told: told())
        seen = stand_in(asyncio, sleep=self.sleep, get_running_loop=lambda: loop)
        monkeypatch.setattr(module, "asyncio", seen)
        monkeypatch.setattr(module, "ClusterClient", lambda addresses, settings: self)
        self.member = ShareMember("g", "m")
        self.member.subscribe(["t"])
        chosen = Paced(group_id="g", background=SameLoop, **settings)
        self.beats = ShareHeartbeats(self.member, chosen, self.on_news)
        self.beats.polled()

    def on_news(self) -> None:
        self.news += 1

    async def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        await asyncio.sleep(0)

    async def to_coordinator(self, group_id: str, request: Any, answer: object) -> ShareGroupHeartbeatResponse:
        assert group_id == "g"
        self.asked.append(request)
        found = self.answers.pop(0) if self.answers else beat()
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, ShareGroupHeartbeatResponse)
        return found

    async def look_again(self) -> None:
        self.looks += 1

    def forget_coordinator(self, *about: str) -> None:
        self.forgotten += about

    async def close(self) -> None:
        self.closed += 1

    async def beaten(self) -> None:
        """Until it ends by itself."""
        await self.beats.start([])
        assert self.beats._beating is not None
        await asyncio.gather(self.beats._beating, return_exceptions=True)
        await asyncio.sleep(0)

    def epochs(self) -> list[int]:
        return [request.member_epoch for request in self.asked]


def beat(epoch: int = 3, *, assigns: bool = False, code: int = 0, interval_ms: int = 5_000) -> Any:
    return ShareGroupHeartbeatResponse(
        error_code=code,
        error_message="so" if code else None,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=Assignment() if assigns else None,
    )


async def test_who_does_not_poll_leaves_and_a_poll_before_puts_that_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    world.answers = [beat(assigns=True)]
    await world.beaten()
    assert world.pauses == [5.0, 5.0, 5.0], "until 12 seconds are over"
    assert world.epochs() == [0, 3, 3, -1]
    assert (world.news, world.looks) == (2, 0), "of the assignment, and of the end"
    assert (world.member.is_member, world.member.assignment) == (False, {}), "the next poll joins again"
    assert not world.beats.are_going
    world.beats.polled()


@pytest.mark.parametrize(("limit_ms", "beats"), [(10_000, 2), (10_001, 3)])
async def test_the_limit_is_over_when_it_is_reached(monkeypatch: pytest.MonkeyPatch, limit_ms: int, beats: int) -> None:
    world = World(monkeypatch, max_poll_interval_ms=limit_ms)
    await world.beaten()
    assert len(world.pauses) == beats


async def test_failures_that_pass_are_tried_again_after_pauses_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, max_poll_interval_ms=20_000)
    gone, busy = ConnectionFailedError("gone"), beat(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.answers = [beat(), gone, busy, beat(4), beat(code=ErrorCode.NOT_COORDINATOR), beat()]
    await world.beaten()
    assert world.pauses == [5.0, 1.0, 2.0, 5.0, 1.0, 5.0, 5.0]
    names = [request.subscribed_topic_names for request in world.asked]
    assert names == [["t"], None, ["t"], ["t"], None, ["t"], None, None], "after a failure all is said again"
    assert (world.looks, world.forgotten) == (3, ["g"])
    assert world.news == 1, "the end; a failure of a member is no news"


async def test_the_first_pause_is_the_shortest_where_the_first_heartbeat_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, max_poll_interval_ms=8_000)
    world.answers = [ConnectionFailedError("gone"), ConnectionFailedError("gone")]
    await world.beaten()
    assert world.pauses == [1.0, 2.0, 5.0]
    assert world.news == 3, "each, as nobody is a member yet, and the end"


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
async def test_who_is_not_known_any_more_has_nothing_and_joins_again(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    world.answers = [beat(assigns=True), beat(code=code), beat(1)]
    await world.beaten()
    assert (world.epochs(), world.pauses) == ([0, 3, 0, 1, -1], [5.0, 1.0, 5.0, 5.0])
    assert world.news == 3, "of the assignment, the loss and the end"


UPGRADE = r"serves no share groups: .*penstock features upgrade --feature share\.version=1"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (beat(code=ErrorCode.UNSUPPORTED_VERSION), (UnsupportedByBrokerError, UPGRADE)),
        (UnsupportedByBrokerError("none"), (UnsupportedByBrokerError, UPGRADE)),
        (beat(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), (KafkaError, "GROUP_AUTHORIZATION_FAILED: so")),
        (AuthenticationFailedError("no"), (AuthenticationFailedError, "no")),
        (RuntimeError("a fault of ours"), (RuntimeError, "a fault of ours")),
    ],
)
async def test_what_does_not_pass_ends_it_and_is_told(
    monkeypatch: pytest.MonkeyPatch, error: Any, told: tuple[type[Exception], str]
) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    world.answers = [error]
    await world.beaten()
    assert (len(world.asked), world.pauses, world.news, world.looks) == (1, [], 1, 0)
    for _ in range(2):
        with pytest.raises(told[0], match=told[1]) as raised:
            world.beats.polled()
        assert type(raised.value) is told[0]


async def test_it_begins_anew_with_all_that_it_has_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert not world.beats.are_going
    await world.beats.start([])
    for _ in range(6):
        await asyncio.sleep(0)
    assert world.beats.are_going
    background = world.beats._background
    await world.beats.start([])
    count = len(world.asked)
    for _ in range(6):
        await asyncio.sleep(0)
    assert world.asked[count].subscribed_topic_names == ["t"]
    assert world.beats._background is background
    await world.beats.close()
    assert world.asked[-1] == ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
    assert (world.closed, world.member.is_member, world.beats.are_going) == (1, False, False)
    await world.beats.close()
    assert world.closed == 1, "it is closed once"


@pytest.mark.parametrize("is_member", [False, True])
@pytest.mark.parametrize("error", [None, ConnectionFailedError("gone"), KafkaError(ErrorCode.NOT_COORDINATOR)])
async def test_only_a_member_leaves_and_does_not_insist(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, *, is_member: bool
) -> None:
    world = World(monkeypatch)
    if is_member:
        world.member.answered(beat())
    world.answers = [] if error is None else [error]
    await world.beats._leave(world)  # type: ignore[arg-type]
    assert world.epochs() == ([-1] if is_member else [])
    assert (world.closed, world.member.is_member) == (1, False)
