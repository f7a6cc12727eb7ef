"""What a hand-over of a partition makes of what it sees, and does for its machine: each condition counts alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.leadership.transfer import Answer, Effect, State
from penstock.node.links.hand_over import HandOver
from penstock.node.partitions import hand_over
from penstock.node.partitions.hand_over import FAR, LINGER_S, PartitionHandOver, _reached
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.waits import NEVER, Waits


class Leading(SimpleNamespace):
    """The leader of epoch 4, which has 9, of which 7 are committed, and 8 given to all others."""

    def __init__(self, **changes: Any) -> None:
        fields: dict[str, Any] = {"node_id": 1, "leader_epoch": 4, "partition_epoch": 6, "is_stuck": False} | changes
        super().__init__(high_watermark=7, given_offset=8, log_end_offset=9, appended=Waits(), given=Waits(), **fields)
        self.kept = SimpleNamespace(is_stuck=fields["is_stuck"])

    def when_given(self, offset: int, go_on: Callable[[], None]) -> Any:
        return self.given, self.given.add(offset, go_on)


class Machine:
    def __init__(self, did: list[Any], state: State) -> None:
        self.did, self.state, self.leader_epoch = did, state, 4

    def on_leader(self, leader: int, epoch: int, *, is_self: bool) -> str:
        return f"leader {leader} of {epoch}, self {is_self}"

    def on_committed(self, reached: int, end: int, now_ms: int) -> str:
        return f"committed {reached} of {end} at {now_ms}"

    def on_answer(self, answer: Answer, now_ms: int) -> str:
        return f"answer {answer.name} at {now_ms}"


def giving(leader: Any, *, state: State = State.HELD, has_resident: bool = True, **fields: Any) -> Any:
    """A hand-over that notes what it does."""
    did: list[Any] = []
    one: Any = PartitionHandOver.__new__(PartitionHandOver)
    committed = SimpleNamespace(waits=Waits(), high_watermark=7)
    one.did, one.machine, one._now_ms = did, Machine(did, state), lambda: 50
    one._do = did.append
    one.partition = SimpleNamespace(leader=leader, follower=None, leader_epoch=5, committed=committed)
    one.partition.appender, one.partition.hand_over = leader, one
    one._asked_epoch, one._waits, one._name, one._held = None, [], "t-0", {}
    one._resident = Resident(did, one.partition) if has_resident else None
    one._tasks = SimpleNamespace(start=lambda work, name: did.append(work.close() or "asks"))
    one._ask = None
    vars(one).update(fields)
    return one


class Resident:
    def __init__(self, did: list[Any], partition: Any) -> None:
        self.did, self.partition = did, partition
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.did.append(f"{name}, appends: {self.partition.appender is not None}")

    async def forward(self, leader_epoch: int) -> None:
        self.did.append(f"forward {leader_epoch}")
        if self.error is not None:
            raise self.error


def waits(one: Any) -> dict[str, list[int]]:
    leader = one.partition.leader
    queues = {"committed": one.partition.committed.waits}
    queues |= {} if leader is None else {"appended": leader.appended, "given": leader.given}
    return {name: [offset for offset, *_ in queue._waits] for name, queue in queues.items() if len(queue)}


COMMITTED, AS_LEADER = "committed 7 of 9 at 50", "leader 1 of {}, self True"
ELSEWHERE = {"committed": [FAR]}
HERE = {"committed": [8], "appended": [FAR]}


@pytest.mark.parametrize(
    ("leader", "state", "asked_epoch", "did", "waited_for"),
    [
        (None, State.HELD, None, ["leader -1 of 5, self False"], {"committed": [8]}),
        (None, State.FORWARDING, None, ["leader -1 of 5, self False"], ELSEWHERE),
        (None, State.OVER, None, ["leader -1 of 5, self False"], {}),
        (Leading(), State.HELD, None, [COMMITTED], HERE),
        (Leading(), State.HELD, 6, [COMMITTED], HERE),
        (Leading(), State.HELD, 5, [AS_LEADER.format(4), COMMITTED], HERE),
        (Leading(leader_epoch=5), State.HELD, None, [AS_LEADER.format(5), COMMITTED], HERE),
        (Leading(), State.FORWARDING, None, [COMMITTED], {"committed": [FAR], "appended": [FAR]}),
        (Leading(), State.OVER, None, [COMMITTED], {}),
        (Leading(is_stuck=True), State.HELD, None, ["committed 8 of 9 at 50"], HERE | {"given": [9]}),
    ],
)
def test_what_is_seen_and_waited_for(
    leader: Any, state: State, asked_epoch: int | None, did: list[str], waited_for: dict[str, list[int]]
) -> None:
    """Also when it looks again: of each thing it waits for one."""
    one = giving(leader, state=state, _asked_epoch=asked_epoch)
    for _ in range(3):
        one._look()
        assert waits(one) == waited_for
    assert one.did == did * 3
    one._wait_no_longer()
    assert (waits(one), one._waits) == ({}, [])
    assert FAR == NEVER - 1


def test_who_follows_tells_whom() -> None:
    one = giving(None)
    one.partition.follower = SimpleNamespace(leader_id=3)
    one._look()
    assert one.did == ["leader 3 of 5, self False"]


@pytest.mark.parametrize("has_resident", [True, False])
def test_what_is_done_for_the_machine(has_resident: bool) -> None:
    leader = Leading()
    one = giving(leader, has_resident=has_resident)
    one._carry_out(Effect.HOLD)
    assert (one.partition.appender, one.did) == (None, ["hold, appends: False"] if has_resident else [])
    one.did.clear()
    if has_resident:
        one._carry_out(Effect.SEAL)
        assert (one.partition.appender, one.did) == (None, ["seal, appends: True", COMMITTED])
        one.did.clear()
    one._carry_out(Effect.ASK)
    assert one.did == ["asks"]


@pytest.mark.parametrize("has_resident", [True, False])
def test_how_it_ends(has_resident: bool) -> None:
    leader = Leading()

    class Held:
        size = 3

        def append(self) -> None:
            one.did.append(f"appended, kept: {one.partition.hand_over is not None}")

        def refused(self, error: KafkaError) -> None:
            one.did.append(error.code.name)

    def ended(end: str, *, is_kept: bool) -> list[str]:
        one.partition.appender, one.partition.hand_over, one._bytes, one._sent = None, one, 3, {}
        one._held = {cast("Any", Held()): None}
        one._look()
        one.did.clear()
        getattr(one, end)()
        assert (one.partition.hand_over is one) is is_kept
        return [it for it in one.did if has_resident or "appends" not in it]

    one = giving(leader, has_resident=has_resident)
    of_resident = ["resume, appends: True", "refuse, appends: False", "end, appends: False"]
    first = [[it] if has_resident else [] for it in of_resident]
    assert ended("_resume", is_kept=False) == [*first[0], "appended, kept: False"]
    assert one.partition.appender is leader
    assert ended("_refuse", is_kept=True) == [*first[1], "NOT_LEADER_OR_FOLLOWER"]
    assert ended("_release", is_kept=False) == first[2]
    assert waits(one) == {}
    one.partition.hand_over = other = object()
    one._release()
    assert one.partition.hand_over is other, "another one has begun"


async def test_the_controller_is_asked_with_the_same_partition_epoch_each_time() -> None:
    asked: list[int] = []

    async def ask(epoch: int) -> Answer:
        asked.append(epoch)
        return Answer.MADE

    one = giving(Leading(), _ask=ask)
    await one._tell_controller()
    one.partition.leader.partition_epoch = 7
    await one._tell_controller()
    one.partition.leader = None
    await one._tell_controller()
    assert (asked, one.did) == ([6, 6], ["answer MADE at 50"] * 2)


@pytest.mark.parametrize(
    ("has_resident", "error", "did"),
    [
        (False, None, ["sent on"]),
        (True, None, ["noted", "forward 4", "sent on"]),
        (True, KafkaError(ErrorCode.REQUEST_TIMED_OUT), ["noted", "forward 4", "broken"]),
    ],
)
async def test_the_resident_goes_first(
    monkeypatch: pytest.MonkeyPatch, has_resident: bool, error: Exception | None, did: list[str]
) -> None:
    one = giving(Leading(), has_resident=has_resident)

    async def forward(_: object) -> None:
        one.did.append("sent on")

    monkeypatch.setattr(HandOver, "_forward", forward)
    one._note_forwarding, one._broken = lambda: one.did.append("noted"), lambda error: one.did.append("broken")
    if has_resident:
        one._resident.error = error
    await one._forward()
    assert one.did == did


@pytest.mark.parametrize(
    ("is_used", "state", "did"),
    [
        (True, State.FORWARDING, [LINGER_S, "arrived", "settled"]),
        (False, State.FORWARDING, ["arrived", "settled"]),
        (True, State.HELD, []),
        (False, State.OVER, []),
    ],
)
async def test_a_node_that_stops_sends_on_what_still_arrives(
    monkeypatch: pytest.MonkeyPatch, is_used: bool, state: State, did: list[Any]
) -> None:
    one = giving(Leading(), state=state, _broker=SimpleNamespace(is_used=is_used), _settles=False)

    def noted(what: str) -> Any:
        async def note(*given: Any) -> None:
            one.did.append(what or given[0])

        return note

    one._arrived = SimpleNamespace(set=lambda: one.did.append("arrived"))
    monkeypatch.setattr(HandOver, "settle", noted("settled"))
    monkeypatch.setattr(HandOver, "stop", noted("stopped"))
    monkeypatch.setattr(hand_over, "asyncio", stand_in(asyncio, sleep=noted("")))
    await one.settle()
    assert (one.did, one._settles) == (did, bool(did))
    one.did.clear()
    await one.stop()
    one._resident = None
    await one.stop()
    assert one.did == ["stop, appends: True", "stopped", "stopped"]


@pytest.mark.parametrize(("is_stuck", "reached"), [(False, 7), (True, 8)])
def test_how_far_all_that_count_have_come(is_stuck: bool, reached: int) -> None:
    assert _reached(cast("Any", Leading(is_stuck=is_stuck))) == reached
