"""Timers of members: when they begin and end, and when one that fires has nothing to do any more."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from tests.unit.coordinator.group.consumer import bench as consumers
from tests.unit.coordinator.group.streams import bench as streams

from penstock.coordinator.group.assigned_group import some_targets
from penstock.coordinator.group.consumer import pace
from penstock.coordinator.group.consumer import records as consumer_records
from penstock.coordinator.group.consumer import timing as consumer_timing
from penstock.coordinator.group.consumer.records import ClassicMemberMetadata
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.group.streams import assigning
from penstock.coordinator.group.streams import records as streams_records
from penstock.coordinator.group.streams import timing as streams_timing
from penstock.coordinator.group.streams.assignors.spec import STANDBY_REPLICAS, Spec, Worker
from penstock.coordinator.group.streams.description import DESCRIPTION, DescriptionValue
from penstock.coordinator.group.streams.state import StreamsView
from penstock.coordinator.group.streams.values import Topology
from penstock.coordinator.timers import Timers
from penstock.protocol.requests.own_apis import What

KINDS = ("consumer", "streams")
REBALANCE_MS = 30_000
GIVES_UP = {"consumer": 1, "streams": 2}


class Made:
    """A group with a member, which has nothing to give up."""

    def __init__(self, kind: str) -> None:
        self.bench: Any
        self.timing: Any
        self.records: Any
        if kind == "consumer":
            self.bench, self.timing, self.records = (
                consumers.Bench(consumers.AT_ONCE, a=1),
                consumer_timing,
                consumer_records,
            )
            self.bench.join("m", "a")
            self.house, self.group = self.bench.shard.consumers._house, self.bench.group
        else:
            self.bench, self.timing, self.records = streams.Bench(), streams_timing, streams_records
            self.bench.join("m")
            self.house, self.group = self.bench.shard.streams._house, self.bench.streams
        self.now_ms = self.bench.now_ms

    def current(self, **changes: int) -> None:
        state = self.group.state
        state.put(self.records.CURRENT, "m", state.current("m").replace(**changes))

    def follow(self) -> tuple[int, int, int] | None:
        """The epoch of the wait, since when, and until when."""
        self.timing.follow(self.house, self.group, "m", self.now_ms)
        wait = self.group.rebalances.get("m")
        return None if wait is None else (wait.epoch, wait.since_ms - self.now_ms, wait.until_ms - self.now_ms)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_to_give_something_up_is_waited_for_once_for_each_epoch(kind: str) -> None:
    made = Made(kind)
    assert made.follow() is None
    made.current(state=GIVES_UP[kind], epoch=4)
    assert made.follow() == (4, 0, REBALANCE_MS)
    timer = made.group.rebalances["m"].timer
    assert timer.deadline_ms == made.now_ms + patience_ms(REBALANCE_MS)
    made.now_ms += 1_000
    assert made.follow() == (4, -1_000, REBALANCE_MS - 1_000), "it has no more time than it had"
    assert made.group.rebalances["m"].timer is timer
    made.current(epoch=5)
    assert made.follow() == (5, 0, REBALANCE_MS)
    assert timer.deadline_ms is None
    timer = made.group.rebalances["m"].timer
    for changes in ({"state": GIVES_UP[kind] + 1, "epoch": 5}, {"state": GIVES_UP[kind], "epoch": -2}):
        made.current(**changes)
        assert made.follow() is None
        assert timer.deadline_ms is None
    made.current(state=GIVES_UP[kind], epoch=0)
    assert made.follow() == (0, 0, REBALANCE_MS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("waited", "changes", "does"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"state": 3}, False),
        (True, {"epoch": 5}, False),
        (True, {"epoch": 3}, False),
    ],
)
def test_who_has_given_it_up_is_not_named_nor_put_out(
    kind: str, waited: bool, changes: dict[str, int], does: bool
) -> None:
    made = Made(kind)
    made.current(state=GIVES_UP[kind], epoch=4)
    made.follow()
    until_ms = made.group.rebalances["m"].until_ms
    made.current(**changes)
    if not waited:
        made.group.rebalances.pop("m")
    made.timing._rebalance_passes(made.house, made.group, "m", 4, until_ms - 1)
    assert len(made.house.table.take_effects()) == does, "it is named"
    made.timing._rebalance_passes(made.house, made.group, "m", 4, until_ms)
    assert bool(made.house.table.take_effects()) is does
    assert ("m" in made.group.state.members) is not does


@pytest.mark.parametrize("case", ["called", "not called", "gone", "of the new protocol"])
def test_a_classic_member_that_is_called_has_to_come(case: str) -> None:
    made = Made("consumer")
    state, member = made.group.state, made.group.state.members["m"]
    classic = ClassicMemberMetadata(session_timeout_ms=10_000)
    state.put(consumer_records.MEMBER, "m", member.replace(classic=classic))
    consumer_timing.call(made.house, made.group, "m", made.now_ms)
    wait = made.group.calls["m"]
    assert (wait.since_ms, wait.until_ms) == (made.now_ms, made.now_ms + REBALANCE_MS)
    consumer_timing.call_if_not(made.house, made.group, "m", made.now_ms + 5)
    assert made.group.calls["m"] is wait
    if case == "not called":
        made.group.stop_call("m")
    elif case == "gone":
        state.put(consumer_records.MEMBER, "m", None)
    elif case == "of the new protocol":
        state.put(consumer_records.MEMBER, "m", member)
    consumer_timing._call_passes(made.house, made.group, "m", wait.until_ms - 1)
    assert len(made.house.table.take_effects()) == (case == "called")
    assert ("m" in made.group.calls) is (case == "called")
    if case == "called":
        assert made.group.calls["m"].timer.deadline_ms == wait.until_ms
        consumer_timing._call_passes(made.house, made.group, "m", wait.until_ms)
        assert "m" not in made.group.state.members
        assert "m" not in made.group.calls


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_without_a_record_has_no_time_to_give_anything_up(kind: str) -> None:
    made = Made(kind)
    made.group.state.put(made.records.MEMBER, "m", None)
    made.current(state=GIVES_UP[kind], epoch=4)
    assert made.follow() == (4, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_of_members_that_are_gone_is_let_go(kind: str) -> None:
    made = Made(kind)
    made.current(state=GIVES_UP[kind], epoch=4)
    made.follow()
    session, wait = made.group.sessions["m"], made.group.rebalances["m"]
    made.group.state.put(made.records.MEMBER, "m", None)
    made.timing.settle(made.house, made.group, made.now_ms)
    assert (made.group.sessions, made.group.rebalances) == ({}, {})
    assert (session.deadline_ms, wait.timer.deadline_ms) == (None, None)


def test_so_are_calls_of_members_that_are_classic_no_more() -> None:
    made = Made("consumer")
    consumer_timing.call(made.house, made.group, "m", made.now_ms)
    timer = made.group.calls["m"].timer
    consumer_timing.settle(made.house, made.group, made.now_ms)
    assert (made.group.calls, timer.deadline_ms) == ({}, None)


def test_a_streams_group_forgets_offsets_of_members_that_are_gone() -> None:
    made = Made("streams")
    made.group.offsets |= {"m": object(), "gone": object()}
    streams_timing.settle(made.house, made.group, made.now_ms)
    assert list(made.group.offsets) == ["m"]
    streams_timing.put_out(made.house, made.group, "m", What.LEFT, "goes", made.now_ms)
    assert made.group.offsets == {}


# -- when members are to come -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "assigned", "age_ms", "members", "interval_ms", "stays"),
    [
        (3, 3, 0, 1, 100, False),
        (3, 3, 199, 1, 100, False),
        (3, 3, 202, 1, 101, False),
        (3, 3, 4_000, 1, 2_000, False),
        (3, 3, 9_998, 1, 4_999, False),
        (3, 3, 10_000, 1, 5_000, True),
        (3, 3, 99_000, 1, 5_000, True),
        (3, 3, -4_000, 1, 2_000, False),
        (3, 3, -99_000, 1, 5_000, False),
        (3, 3, 0, 3_000, 3_000, False),
        (3, 3, 0, 9_000, 5_000, True),
        (3, 2, 0, 1, 1_000, False),
        (3, 2, 300, 1, 700, False),
        (3, 2, 950, 1, 100, False),
        (3, 2, 5_000, 1, 100, False),
        (3, 2, -5_000, 1, 100, False),
    ],
)
def test_members_come_soon_after_an_assignment_and_then_ever_later(
    epoch: int, assigned: int, age_ms: int, members: int, interval_ms: int, stays: bool
) -> None:
    bench = consumers.Bench(a=1)
    bench.join("m", "a")
    group, house = bench.group, bench.shard.consumers._house
    group.state.put(consumer_records.GROUP, ONE, group.state.group.replace(epoch=epoch))
    group.state.put(consumer_records.ASSIGNMENT, ONE, AssignmentEpoch(assigned, bench.now_ms - age_ms))
    for number in range(members - 1):
        group.state.members[f"n{number}"] = group.state.members["m"]
    assert pace.next_heartbeat_ms(house, group, bench.now_ms) == interval_ms
    assert pace.stays(house, group, interval_ms, bench.now_ms) is stays


# -- parts ------------------------------------------------------------------------------------------------------------


def test_targets_go_to_members_that_are_there_or_to_who_has_their_instance() -> None:
    left = deque([("a", None, 1), ("b", "i", 2), ("c", "j", 3), ("d", None, 4), ("e", "k", 5), ("f", None, 6)])
    ids = {"i": "x", "k": "y", "": "nobody"}
    assert some_targets(left, 0, {"a"}, ids) == {}
    assert some_targets(left, 3, {"a", "b"}, ids | {"i": "b"}) == {"a": 1, "b": 2}
    assert [one[0] for one in left] == ["d", "e", "f"]
    assert some_targets(left, 9, {"a"}, {"k": "y"}) == {"y": 5}
    assert len(left) == 0


def test_a_session_is_put_off_by_an_assignment_unless_it_has_to_come_sooner() -> None:
    made, timers = Made("consumer"), Timers()
    group = made.group
    group.stop_session("m")
    assert not group.prolong("m", 0, 100)
    group.touch(timers, "m", 1_000, 100, print, made.house)
    session = group.sessions["m"]
    assert (session.heard_ms, session.deadline_ms, session.queued_ms) == (1_000, 1_100, 1_100)
    for now_ms, timeout_ms, is_put_off in [(1_010, 100, True), (1_020, 80, True), (1_020, 79, False)]:
        assert group.prolong("m", now_ms, timeout_ms) is is_put_off
        assert (session.heard_ms, session.deadline_ms) == (
            (now_ms if is_put_off else 1_020),
            (max(now_ms + timeout_ms, 1_100)),
        )
    group.late["m"] = 5
    group.touch(timers, "m", 1_030, 10, print, made.house)
    assert (session.heard_ms, session.deadline_ms, session.queued_ms, group.late) == (1_030, 1_040, 1_040, {})
    group.late["m"] = 5
    assert group.prolong("m", 1_040, 100)
    assert group.late == {}
    timers.fire_due(9_999)
    assert not group.prolong("m", 1_040, 9_000), "it has fired, and is queued no more"


def test_a_description_is_that_of_the_topology_that_the_group_has() -> None:
    view = StreamsView()
    assert view.description is None
    view.put(DESCRIPTION, ONE, DescriptionValue(topology_epoch=3))
    assert view.description is None
    for epoch, is_there in [(2, False), (3, True), (4, False)]:
        view.put(streams_records.TOPOLOGY, ONE, Topology(epoch))
        assert (view.description is not None) is is_there
    view.put(DESCRIPTION, ONE, None)
    assert view.description is None


@pytest.mark.parametrize(
    ("tasks", "offered", "is_long"),
    [
        (5, ("sticky",), False),
        (6, ("sticky",), True),
        (1, ("own",), True),
        (0, ("own",), False),
        (0, ("sticky",), False),
    ],
)
def test_what_takes_long_is_worked_out_elsewhere(tasks: int, offered: tuple[str, ...], is_long: bool) -> None:
    """By members and tasks with their standbys; what others wrote may take any time."""
    made = Made("streams")
    made.house.settings = made.house.settings.replace(assigned_at_once=12, assignors=offered)
    spec = Spec({"m": Worker(), "n": Worker()}, {"0": tasks} if tasks else {}, frozenset(), {STANDBY_REPLICAS: "1"})
    assert spec.size == 2 + 2 * tasks
    assert assigning.is_long(made.house, made.group, spec) is is_long
