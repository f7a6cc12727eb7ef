"""What was to be done about a group is not done when the group is gone, is being deleted, or is another one by now; and
a write that fails brings back what was there, in groups of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.coordinator.group.consumer import bench as consumers
from tests.unit.coordinator.group.consumer.both import Both
from tests.unit.coordinator.group.share import bench as shares
from tests.unit.coordinator.group.streams import bench as streams

from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.consumer import assigning as consumer_assigning
from penstock.coordinator.group.consumer import timing as consumer_timing
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.share import assigning as share_assigning
from penstock.coordinator.group.share import heartbeat as share_heartbeat
from penstock.coordinator.group.share import states
from penstock.coordinator.group.share import timing as share_timing
from penstock.coordinator.group.share.records import PARTITIONS
from penstock.coordinator.group.share.values import OfTopic
from penstock.coordinator.group.streams import assigning as streams_assigning
from penstock.coordinator.group.streams import timing as streams_timing
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from penstock.protocol.requests.own_apis import What

NONE, FAILED = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS
FENCED, LAST = states.FENCED, states.LAST_EPOCH
A = shares.topic_id("a")


class Made:
    def __init__(self, kind: str) -> None:
        self.bench: Any
        self.timing: Any
        if kind == "consumer":
            self.bench, self.timing = consumers.Bench(consumers.AT_ONCE, a=1), consumer_timing
            self.bench.join("m", "a")
            self.house, self.group = self.bench.shard.consumers._house, self.bench.group
        elif kind == "share":
            self.bench, self.timing = shares.Bench(a=1), share_timing
            self.bench.join("m", "a")
            self.house, self.group = self.bench.shard.shares._house, self.bench.group
        else:
            self.bench, self.timing = streams.Bench(), streams_timing
            self.bench.join("m")
            self.house, self.group = self.bench.shard.streams._house, self.bench.streams
        self.group.checked_version = 77
        self.group.assigning = object()

    def is_as_it_was(self) -> bool:
        return self.group.checked_version == 77 and self.group.assigning is not None

    def lose_sessions(self) -> None:
        self.group.stop_session("m")


def killed(made: Made) -> None:
    made.group.kill(0)


def replaced(made: Made) -> None:
    made.house.table.groups[made.group.group_id] = made.house.new_group(made.group.group_id)


def taken_away(made: Made) -> None:
    del made.house.table.groups[made.group.group_id]


GONE: dict[str, Callable[[Made], None]] = {"dead": killed, "another": replaced, "gone": taken_away}
KINDS = ("consumer", "share", "streams")


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_write_that_failed_each_member_has_a_session_again(kind: str) -> None:
    made = Made(kind)
    made.lose_sessions()
    made.timing.wrote(made.house, made.group, ErrorCode.NONE, made.bench.now_ms)
    assert (made.is_as_it_was(), list(made.group.sessions)) == (True, [])
    made.timing.wrote(made.house, made.group, FAILED, made.bench.now_ms)
    assert (made.group.checked_version, made.group.assigning) == (UNCHECKED, None)
    assert list(made.group.sessions) == ["m"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["another", "gone"])
def test_a_write_about_a_group_that_is_not_there_any_more_changes_nothing(kind: str, how: str) -> None:
    made = Made(kind)
    GONE[how](made)
    made.lose_sessions()
    made.timing.wrote(made.house, made.group, FAILED, made.bench.now_ms)
    assert (made.is_as_it_was(), list(made.group.sessions)) == (True, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_which_nothing_is_left_is_dropped(kind: str) -> None:
    made = Made(kind)
    table, group_id = made.house.table, made.group.group_id
    table.image.of_kind(kind).pop(group_id)
    made.timing.wrote(made.house, made.group, FAILED, made.bench.now_ms)
    assert (group_id in table.groups, made.group.is_dead) == (False, True)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
@pytest.mark.parametrize(
    ("change", "member_id"),
    [(lambda made: None, "nobody"), (killed, "m")],
    ids=["no member", "dead"],
)
def test_who_is_no_member_is_not_put_out(kind: str, change: Callable[[Made], None], member_id: str) -> None:
    made = Made(kind)
    change(made)
    written = len(made.bench.log)
    put_out: Any = consumer_timing._fence if kind == "consumer" else streams_timing.put_out
    put_out(made.house, made.group, member_id, What.SESSION_TIMEOUT, "is slow", made.bench.now_ms)
    assert made.house.table.take_effects() == []
    assert len(made.bench.log) == written
    put_out(made.house, Made(kind).group, "m", What.SESSION_TIMEOUT, "is slow", made.bench.now_ms)
    assert len(made.house.table.take_effects()) >= 1, "so it is with a member"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("epoch", "assigned"), [(1, 1), (2, 1), (3, 2), (9, 8)])
def test_the_first_assignment_is_that_of_the_epoch_before(kind: str, epoch: int, assigned: int) -> None:
    made = Made(kind)
    state, draft = made.group.state, made.house.table.draft()
    begin: Any = {
        "consumer": consumer_assigning.begin,
        "share": share_assigning.begin,
        "streams": streams_assigning.begin,
    }[kind]
    state.put(state.assignment_key, "", None)
    state.put(state.group_key, "", state.group.replace(epoch=epoch))
    begin(draft, made.group)
    assert (state.assignment.epoch, state.assignment.timestamp_ms) == (assigned, 0)
    begin(draft, made.group)
    assert len(draft.records) == 1


# -- what share groups ask of share coordinators ----------------------------------------------------------------------


def sent(made: Made) -> list[object]:
    found: list[object] = made.house.table.take_effects()
    return found


TOPIC = {A: OfTopic("a", (0,))}
AT_MS = 1_000_000
STEPS: dict[str, Callable[[Made], object]] = {
    "begun": lambda made: states._begun(made.house, made.group, TOPIC, 0, {A: {0: FAILED}}, AT_MS),
    "begin again": lambda made: states._begin_again(made.house, made.group, TOPIC, 0, AT_MS),
    "deleted": lambda made: states._deleted(
        made.house, made.group, {A: "a"}, 0, lambda errors, now_ms: None, {A: {0: FAILED}}, AT_MS
    ),
    "delete again": lambda made: states.delete_again(made.house, made.group, {A: "a"}, 0, AT_MS),
    "forget gone": lambda made: states.forget_gone(made.house, made.group, AT_MS),
    "again": lambda made: states.or_again(made.house, made.group, print)(FAILED, AT_MS),
    "what a heartbeat begins": lambda made: share_heartbeat._then(made.house, made.group, TOPIC)(NONE, AT_MS),
}


def later(made: Made) -> int:
    """Timers, but for sessions."""
    return sum(1 for _, _, timer in made.house.table.timers._heap if timer.fire is not share_timing._session_expired)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", [None, *GONE])
def test_nothing_is_asked_for_a_share_group_that_is_not_there(step: str, how: str | None) -> None:
    made = Made("share")
    state = made.group.state
    state.put(PARTITIONS, ONE, state.partitions.replace(initializing=TOPIC, deleting={A: "a"}))
    if step == "forget gone":
        made.bench.image.topics_by_id.clear()
        made.bench.image.topics.clear()
    if how is not None:
        GONE[how](made)
    before = later(made)
    STEPS[step](made)
    does = bool(sent(made)) or later(made) > before
    assert does is (how is None)


def test_what_a_heartbeat_begins_is_asked_for_when_it_is_written() -> None:
    made = Made("share")
    then = share_heartbeat._then(made.house, made.group, TOPIC)
    then(FAILED, AT_MS)
    assert sent(made) == []
    share_heartbeat._then(made.house, made.group, {})(NONE, AT_MS)
    assert sent(made) == []
    then(NONE, AT_MS)
    assert len(sent(made)) == 1


@pytest.mark.parametrize(
    ("epoch", "told", "newest"),
    [
        (3, None, None), (3, [], None), (3, [(0, 99)], None), (3, [(FENCED, 7)], 7), (3, [(FENCED, 3)], 3),
        (3, [(FENCED, 2)], 29), (3, [(FENCED, -1)], 29), (3, [(FENCED, 7), (FENCED, 9)], 9),
        (3, [(FENCED, 7), (0, 9)], 7),
        (3, [(FENCED, LAST - 1)], LAST - 1), (3, [(FENCED, LAST)], None), (LAST // 5, [(FENCED, -1)], LAST - 1),
        (LAST, [(FENCED, -1)], LAST - 1),
    ],
)  # fmt: skip
def test_how_far_ahead_the_share_coordinators_are(
    epoch: int, told: list[tuple[int, int]] | None, newest: int | None
) -> None:
    answer = None
    if told is not None:
        partitions = [PartitionResult(error_code=code, newest_epoch=known) for code, known in told]
        topic = InitializeStateResult(partitions=partitions)
        answer = InitializeShareGroupStateResponse(results=[topic])
    assert states._newest_epoch(answer, epoch) == newest


# -- refusals ---------------------------------------------------------------------------------------------------------


def contents(shard: Any) -> dict[str, Any]:
    image = shard._table.image
    return {kind: {name: state._parts for name, state in image.of_kind(kind).items()} for kind in KINDS}


def test_a_refusal_takes_back_what_was_decided_before_it() -> None:
    """A classic group whose members are to go on in a consumer group that has no room for one more."""
    bench = Both(a=2)
    bench.classic({"a": [0]}, {"a": [1]})
    house = bench.shard.consumers._house
    house.settings = house.settings.replace(max_size=2)
    before = contents(bench.shard)
    answer = bench.join("new", "a")
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert contents(bench.shard) == before
    (group,) = bench.shard.classic_groups()
    assert len(group.members) == 2
