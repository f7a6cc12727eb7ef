"""How a member of the consumer protocol beats: when, what it makes of answers, and how it falls silent and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.client.background import SameLoop
from penstock.client.consumer import assigned_membership as module
from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

A = UUID(int=1)


class Paced(ConsumerSettings, kw_only=True):
    def backoff_ms(self, attempt: int) -> float:
        return 700.0 + attempt


def beat(*indexes: int, epoch: int = 3, code: int = 0) -> ConsumerGroupHeartbeatResponse:
    """An answer that assigns these; nothing without any."""
    rows = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=A, partitions=list(indexes))]
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        error_message="so" if code else None,
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(topic_partitions=rows) if indexes else None,
    )


class World:
    """A coordinator that gives these answers one by one, and none behind them; nobody waits in vain."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.answers: list[Any] = []
        self.more = asyncio.Event()
        self.asked: list[ConsumerGroupHeartbeatRequest] = []
        self.pauses: list[float] = []
        self.looks = self.news = self.closed = 0
        self.forgotten: list[str] = []
        self.now_s = 500.0
        loop = SimpleNamespace(time=lambda: self.now_s, call_soon_threadsafe=lambda told, *what: told(*what))
        seen = stand_in(asyncio, timeout=self.timeout, get_running_loop=lambda: loop)
        monkeypatch.setattr(module, "asyncio", seen)
        monkeypatch.setattr(module, "ClusterClient", self.another)
        chosen = Paced(**{"group_id": "g", "background": SameLoop, "max_poll_interval_ms": 60_000, **settings})
        self.group = AssignedMembership(self, "g", chosen, self.on_news)  # type: ignore[arg-type]
        self.group._machine.member_id = "m"

    def another(self, addresses: object, settings: object) -> World:
        assert addresses == "addresses of g"
        return self

    def addresses_for(self, group_id: str) -> str:
        return f"addresses of {group_id}"

    def on_news(self) -> None:
        self.news += 1

    @asynccontextmanager
    async def timeout(self, left_s: float) -> AsyncIterator[None]:
        self.pauses.append(left_s)
        try:
            async with asyncio.timeout(0):
                yield
        except TimeoutError:
            self.now_s += left_s
            raise

    async def to_coordinator(self, group_id: str, request: Any, answer: type[Any]) -> Any:
        assert (group_id, answer) == ("g", ConsumerGroupHeartbeatResponse)
        self.asked.append(request)
        while not self.answers:
            self.more.clear()
            await self.more.wait()
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def look_again(self) -> None:
        self.looks += 1

    def forget_coordinator(self, *about: str) -> None:
        self.forgotten += about

    async def close(self) -> None:
        self.closed += 1

    async def beats(self, *answers: Any) -> None:
        """Until all of them are given."""
        self.answers = list(answers)
        self.more.set()
        if self.group._background is None:
            self.group.take_part(["t"], None)
        for _ in range(60):
            await asyncio.sleep(0)
        assert self.answers == []

    def said(self) -> list[tuple[int, list[str] | None, list[int] | None]]:
        """Epoch, topics and what is owned, of each request."""
        return [
            (
                one.member_epoch,
                one.subscribed_topic_names,
                None
                if one.topic_partitions is None
                else [i for topic in one.topic_partitions for i in topic.partitions],
            )
            for one in self.asked
        ]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    if made.group._beating is not None:
        made.group._beating.cancel()


async def test_it_says_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, group_instance_id="i", client_rack="r", group_remote_assignor="range")
    assert world.group.must_join
    assert world.group.membership == Membership(-1, "m", "i")
    await world.beats(beat())
    first = world.asked[0]
    assert (first.group_id, first.member_id, first.instance_id, first.rack_id) == ("g", "m", "i", "r")
    assert (first.server_assignor, first.rebalance_timeout_ms) == ("range", 60_000)
    assert world.group.membership == Membership(3, "m", "i")
    assert (world.group.is_member, world.group.must_join, world.group.take_commit_asked()) == (True, False, False)
    await world.group.close()
    bare = World(monkeypatch)
    await bare.beats(beat())
    assert (bare.asked[0].rack_id, bare.asked[0].instance_id, bare.asked[0].server_assignor) == (None, None, None)
    await bare.group.close()


async def test_it_beats_when_the_coordinator_wants_and_at_once_with_news(world: World) -> None:
    await world.beats(beat(), beat(0, 1), beat())
    assert world.pauses == [5.0, 5.0, 5.0]
    assert world.group.has_target
    target = world.group.target()
    assert target == frozenset({(A, 0), (A, 1)})
    assert world.said() == [(0, ["t"], []), *[(3, None, None)] * 3]
    world.group.come_to(target)
    await world.beats(beat())
    assert not world.group.has_target
    assert world.news == 4


async def test_what_it_owns_it_says_at_once(world: World) -> None:
    """The pause before is cut short, and there is none behind an answer that finds more to say."""
    world.group.take_part(["t"], None)
    world.answers = [beat(0)]
    for _ in range(60):
        await asyncio.sleep(0)
    target = world.group.target()
    assert target is not None
    world.group.come_to(target)
    world.pauses.clear()
    await world.beats(beat(), beat())
    assert world.pauses == [0.0, 5.0], "it came to that while the second heartbeat was under way"
    assert world.said()[2] == (3, None, [0])


async def test_no_pause_outlasts_the_time_for_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    await world.beats(beat(), beat(), beat(), beat(epoch=-1))
    assert world.pauses == [5.0, 5.0, 2.0]
    assert world.said() == [(0, ["t"], []), (3, None, None), (3, None, None), (-1, None, None)]
    assert (world.group.is_member, world.group.lost) == (False, False), "it owned nothing"
    news = world.news
    world.group.polled()
    await world.beats(beat())
    assert world.said()[4:] == [(0, ["t"], []), (3, None, None)]
    assert world.news > news
    await world.group.close()


@pytest.mark.parametrize(("passed_s", "is_silent"), [(11.999, False), (12.0, True)])
async def test_who_polls_in_time_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, passed_s: float, *, is_silent: bool
) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    woken: list[int] = []
    world.group._wake = lambda: woken.append(1)
    world.group._polled_at = 500.0
    assert world.group._is_silent(500.0 + passed_s) == is_silent
    world.now_s += passed_s
    world.group.polled()
    assert (world.group._polled_at, len(woken)) == (world.now_s, int(is_silent))
    world.group.error = ValueError("the end")
    world.now_s += 100
    with pytest.raises(ValueError, match="the end"):
        world.group.polled()
    assert len(woken) == int(is_silent)


async def test_one_that_falls_silent_loses_what_it_owned_until_the_application_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, max_poll_interval_ms=12_000)
    await world.beats(beat(0))
    target = world.group.target()
    assert target is not None
    world.group.come_to(target)
    world.now_s = 512.0
    await world.beats(beat(), beat(epoch=-1))
    assert (world.said()[-1], world.group.lost, world.group.has_target) == ((-1, None, None), True, False)
    count = len(world.asked)
    world.group.polled()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(world.asked) == count, "it does not join again before"
    world.group.loss_is_known()
    await world.beats(beat())
    assert world.said()[count] == (0, ["t"], [])
    await world.group.close()


async def test_without_an_answer_all_is_said_again_soon(world: World) -> None:
    await world.beats(beat(), ConnectionFailedError("gone"), beat())
    assert world.pauses == [5.0, 0.7, 5.0]
    assert [names for _, names, _ in world.said()] == [["t"], None, ["t"], None]
    assert (world.looks, world.forgotten) == (1, [])


@pytest.mark.parametrize(
    ("code", "names", "epoch"),
    [
        (ErrorCode.NOT_COORDINATOR, ["t"], 3),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ["t"], 3),
        (ErrorCode.UNKNOWN_MEMBER_ID, ["t"], 0),
        (ErrorCode.FENCED_MEMBER_EPOCH, ["t"], 0),
    ],
)
async def test_a_refusal_that_passes_is_followed_by_another_heartbeat(
    world: World, code: ErrorCode, names: list[str], epoch: int
) -> None:
    await world.beats(beat(), beat(code=code))
    assert world.pauses == [5.0, 0.7]
    assert world.said()[2][:2] == (epoch, names)
    assert world.looks == 0
    assert world.forgotten == (["g"] if code is ErrorCode.NOT_COORDINATOR else [])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (beat(code=ErrorCode.UNSUPPORTED_VERSION), "the cluster does not serve group.protocol=consumer"),
        (beat(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), "GROUP_AUTHORIZATION_FAILED: so"),
        (AuthenticationFailedError("no"), "no"),
        (RuntimeError("a fault of ours"), "a fault of ours"),
    ],
)
async def test_what_does_not_pass_ends_it(world: World, error: Any, text: str) -> None:
    await world.beats(beat(), error)
    assert len(world.asked) == 2
    assert world.group._beating is not None
    assert world.group._beating.done()
    with pytest.raises(Exception, match=text):
        world.group.polled()


async def test_to_take_part_again_says_another_subscription_in_the_same_membership(world: World) -> None:
    await world.beats(beat())
    background = world.group._background
    world.group.must_join = True
    world.group.take_part(["u"], None)
    await world.beats(beat(), beat())
    assert (world.group._background, world.group.must_join) == (background, False)
    assert ["u"] in [names for _, names, _ in world.said()]


@pytest.mark.parametrize("is_member", [False, True])
@pytest.mark.parametrize("answer", [None, ConnectionFailedError("gone"), KafkaError(ErrorCode.NOT_COORDINATOR)])
@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
async def test_a_member_says_that_it_leaves_and_another_does_not(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | None, instance_id: str | None, epoch: int, *, is_member: bool
) -> None:
    world = World(monkeypatch, group_instance_id=instance_id)
    await world.beats(*([beat(0)] if is_member else []))
    count = len(world.asked)
    world.group._machine.is_lost = True
    world.answers = [answer or beat()] if is_member else []
    await world.group.leave("it is over")
    assert [one.member_epoch for one in world.asked[count:]] == ([epoch] if is_member else [])
    assert (world.closed, world.group._background, world.group._beating, world.group._wake) == (1, None, None, None)
    machine = world.group._machine
    assert (machine.epoch, machine.is_lost, world.group.must_join, world.group.has_target) == (0, False, True, False)
    await world.group.close()
    assert world.closed == 1
