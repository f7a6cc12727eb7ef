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

from penstock.coordinator.effects import Reply
from penstock.coordinator.group import removal
from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Caller, Member
from penstock.coordinator.group.consumer import assigning as consumer_assigning
from penstock.coordinator.group.consumer import leaving as consumer_leaving
from penstock.coordinator.group.consumer import resolving
from penstock.coordinator.group.consumer import timing as consumer_timing
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import CommittedOffset
from penstock.coordinator.group.settings import Bounded
from penstock.coordinator.group.share import assigning as share_assigning
from penstock.coordinator.group.share import heartbeat as share_heartbeat
from penstock.coordinator.group.share import offsets as share_offsets
from penstock.coordinator.group.share import states
from penstock.coordinator.group.share import timing as share_timing
from penstock.coordinator.group.share.records import PARTITIONS
from penstock.coordinator.group.share.values import OfTopic, StatePartitions
from penstock.coordinator.group.streams import assigning as streams_assigning
from penstock.coordinator.group.streams import leaving as streams_leaving
from penstock.coordinator.group.streams import timing as streams_timing
from penstock.coordinator.group.streams.values import Held
from penstock.coordinator.timers import Timer
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.table import TransactionTable
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


# -- share groups that are altered, or deleted ------------------------------------------------------------------------

B = shares.topic_id("b")
EMPTY = StatePartitions()


@pytest.mark.parametrize(
    ("known", "how", "members", "may"),
    [
        (EMPTY.replace(initializing=TOPIC), None, False, True),
        (EMPTY.replace(initialized=TOPIC), None, False, True),
        (EMPTY, None, False, False),
        (EMPTY.replace(deleting={A: "a"}), None, False, False),
        (EMPTY.replace(initialized=TOPIC), None, True, False),
        *((EMPTY.replace(initialized=TOPIC), how, False, False) for how in GONE),
    ],
)
def test_what_was_altered_may_begin_while_nobody_came_for_it(
    known: StatePartitions, how: str | None, members: bool, may: bool
) -> None:
    made = Made("share")
    made.group.state.put(PARTITIONS, ONE, known)
    if not members:
        made.group.state.put(made.group.state.member_key, "m", None)
    if how is not None:
        GONE[how](made)
    assert share_offsets._may_still_begin(made.house, made.group, {A: {0: 5}}) is may
    assert not share_offsets._may_still_begin(made.house, made.group, {A: {0: 5}, B: {0: 5}}), "b is not known"


@pytest.mark.parametrize(
    ("known", "how", "members", "goes"),
    [
        (EMPTY.replace(initialized=TOPIC), None, False, True),
        (EMPTY.replace(initializing=TOPIC), None, False, True),
        (EMPTY.replace(deleting={A: "a"}), None, False, True),
        (EMPTY, None, False, False),
        (EMPTY.replace(initialized=TOPIC), None, True, False),
        (EMPTY.replace(initialized=TOPIC), "dead", False, False),
        (EMPTY.replace(initialized=TOPIC), "gone", False, False),
    ],
)
def test_of_a_group_that_has_read_something_that_goes_first(
    known: StatePartitions, how: str | None, members: bool, goes: bool
) -> None:
    made = Made("share")
    made.group.state.put(PARTITIONS, ONE, known)
    if not members:
        made.group.state.put(made.group.state.member_key, "m", None)
    if how is not None:
        GONE[how](made)
    assert share_offsets.delete_group(made.house, "token", made.group.group_id, AT_MS) is goes
    assert bool(sent(made)) is goes


@pytest.mark.parametrize(
    ("how", "members", "deleted", "why"),
    [
        (None, False, [A], NONE),
        (None, False, [A, B], NONE),
        (None, False, [], states.BUSY),
        (None, False, [B], states.BUSY),
        (None, True, [A], ErrorCode.NON_EMPTY_GROUP),
        *((how, False, [A], ErrorCode.GROUP_ID_NOT_FOUND) for how in GONE),
    ],
)
def test_why_a_group_stays_whose_offsets_are_deleted(
    how: str | None, members: bool, deleted: Any, why: ErrorCode
) -> None:
    made = Made("share")
    made.group.state.put(PARTITIONS, ONE, EMPTY.replace(deleting={A: "a"}))
    if not members:
        made.group.state.put(made.group.state.member_key, "m", None)
    if how is not None:
        GONE[how](made)
    errors = {topic: {0: NONE} for topic in deleted}
    assert share_offsets._why_it_stays(made.house, made.group, errors) is why


# -- groups that give way ---------------------------------------------------------------------------------------------


def test_a_group_whose_place_is_taken_is_dead_and_who_waits_in_it_is_sent_away() -> None:
    made = Made("consumer")
    table, other = made.house.table, ClassicGroup("old", 0)
    table.groups["old"] = other
    member = Member("ann", None, Caller("c", "/h", 3), 1_000, 1_000, [("range", b"")])
    other.add(member, "consumer")
    other.park_join(member, "waits", 0)
    another = made.house.new_group("old")
    table.take_place(another, AT_MS)
    assert (other.is_dead, table.groups["old"]) == (True, another)
    (reply,) = sent(made)
    assert isinstance(reply, Reply)
    assert (reply.token, reply.response.error_code) == ("waits", ErrorCode.REBALANCE_IN_PROGRESS)  # type: ignore[attr-defined]


def test_the_first_delay_of_a_streams_group_begins_once() -> None:
    made = Made("streams")
    for delay_ms in (0, 3_000):
        delay = Bounded(delay_ms, 0, 3_000)
        made.house.settings = made.house.settings.replace(initial_rebalance_delay=delay)
        streams_assigning.begin_delay(made.house, made.group, AT_MS)
        assert made.group.is_delayed is bool(delay_ms)
    timer = made.group.delay
    streams_assigning.begin_delay(made.house, made.group, AT_MS + 1_000)
    assert (made.group.delay, timer.deadline_ms) == (timer, AT_MS + 3_000)


def test_what_topics_that_are_gone_leave_behind_is_looked_for_again_once() -> None:
    made = Made("consumer")
    table = made.house.table
    walk = removal._Walk(table, made.bench.image, {})
    before = len(table.timers._heap)
    for error, timers in [(NONE, 0), (FAILED, 1), (FAILED, 1), (NONE, 1)]:
        walk._wrote(error, AT_MS)
        assert len(table.timers._heap) - before == timers
    assert max(deadline_ms for deadline_ms, _, timer in table.timers._heap if timer.fire is removal._forget) == (
        AT_MS + removal.RETRY_MS
    )


def test_where_a_group_is_not_there_it_has_no_positions() -> None:
    made = Made("consumer")
    table, group_id = made.house.table, made.group.group_id
    assert table.positions("a", A, [group_id, "nobody"]) == {group_id: {}}
    assert table.positions("b", B, [group_id]) == {}
    table.image.begun("nobody", "a")[0] = CommittedOffset(5, -1, "", 0)
    assert table.positions("a", A, [group_id, "nobody"]) == {group_id: {}}


def test_a_table_that_is_let_go_has_no_timers() -> None:
    for table in (Made("share").house.table, TransactionTable(TransactionSettings(), 1, 2)):
        fired: list[int] = []
        table.timers.set(Timer(fired.append), 2 * AT_MS)
        table.let_go()
        assert table.timers.next_ms() is None
        table.timers.fire_due(3 * AT_MS)
        assert fired == []


@pytest.mark.parametrize(("most", "fits"), [(2, 0), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (99, 3)])
def test_as_many_topics_as_a_record_holds_are_read(most: int, fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has two bytes before its name."""
    monkeypatch.setattr(resolving, "BYTES_AT_ONCE", most)
    made = Made("consumer")
    topics = ("a", "b", "c")
    assert resolving._fitting(made.house, made.group, "x", topics) == topics[:fits]
    notes = [str(one.line) for one in made.house.table.take_effects()]
    left_out = f"and {3 - fits} of them, from {topics[fits]} on, are not read" if fits < 3 else ""
    assert [left_out in line for line in notes] == [True] * (fits < 3)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_who_goes_for_now_has_had_all_since_ever_and_gives_nothing_up(kind: str) -> None:
    """Whoever comes back has another id, and no epoch of this one."""
    made = Made(kind)
    state = made.group.state
    where: Any = A if kind == "consumer" else "0"
    has: Any = {where: {0: 7}}
    gives: Any = {where: {1: 7}}
    leaving: Any = consumer_leaving
    if kind == "streams":
        has, gives, leaving = Held(has), Held(gives), streams_leaving
    state.put(state.current_key, "m", state.current("m").replace(assigned=has, revoking=gives))
    draft = made.house.table.draft()
    leaving._go_for_now(draft, made.group, "m")
    away, since_ever = state.current("m"), {where: {0: 0}}
    assert away.epoch == -2
    assert (away.assigned, away.revoking) == ((since_ever, {}) if kind == "consumer" else (Held(since_ever), Held()))
