"""Steps of what a share group has at the share coordinator, one at a time: what begins, what is left out, and how long
it is until the next try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.coordinator.group.share.bench import Bench, left_by_an_earlier_group, topic_id
from tests.unit.coordinator.share.coordinated import Coordinated

from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.share import states, timing
from penstock.coordinator.group.share.records import PARTITIONS
from penstock.coordinator.group.share.values import OfTopic, StatePartitions
from penstock.protocol.errors import ErrorCode

A, B, C = map(topic_id, "abc")
NONE, BUSY, FAILED = ErrorCode.NONE, states.BUSY, ErrorCode.NOT_ENOUGH_REPLICAS
NOTHING = StatePartitions({}, {}, {})
HAS_ONE, HAS_TWO = {A: OfTopic("a", (0,))}, {A: OfTopic("a", (0, 1))}


class Made:
    """A group of which one member reads `a`, with two partitions; what it asks and writes waits."""

    def __init__(self, partitions: StatePartitions | None = None) -> None:
        self.bench = Bench(a=2)
        self.bench.join("m", "a")
        self.bench.advance(1_000)
        self.house, self.group = self.bench.shard.shares._house, self.bench.group
        if partitions is not None:
            self.group.state.put(PARTITIONS, ONE, partitions)
        self.group.checked_version = 77
        self.bench.holds = self.bench.keeps = True
        self.timers = set(self._timers())
        self.did: list[Any] = []

    def _timers(self) -> list[Any]:
        heap = self.house.table.timers._heap
        return [timer for _, _, timer in heap if timer.fire is not timing._session_expired]

    def take(self) -> None:
        self.bench.take(self.house.table.take_effects())

    def fired(self) -> list[int]:
        """What is to be done later is done now; and how much later it was to be."""
        new = [timer for timer in self._timers() if timer not in self.timers]
        self.timers |= set(new)
        for timer in new:
            timer.fire(*timer.of, self.bench.now_ms)
        self.take()
        return [timer.deadline_ms - self.bench.now_ms for timer in new]

    def finish(self, errors: Any, now_ms: int) -> None:
        self.did.append(errors)


@pytest.mark.parametrize(
    ("known", "begins"),
    [
        (NOTHING, {A: OfTopic("a", (0, 1))}),
        (NOTHING.replace(initialized=HAS_ONE), {A: OfTopic("a", (1,))}),
        (NOTHING.replace(initialized=HAS_TWO), {}),
        (NOTHING.replace(initializing=HAS_ONE), {}),
        (NOTHING.replace(initialized=HAS_ONE, initializing=HAS_ONE), {}),
        (NOTHING.replace(deleting={A: "a"}), {}),
        (NOTHING.replace(initializing=HAS_ONE, deleting={A: "a"}), {}),
        (NOTHING.replace(initializing={B: OfTopic("b", (0,))}, deleting={B: "b"}), {A: OfTopic("a", (0, 1))}),
    ],
)
def test_what_begins_is_what_members_read_and_nothing_is_done_about(known: Any, begins: Any) -> None:
    made = Made(known)
    draft = made.house.table.draft()
    assert states.begin(made.house, draft, made.group) == begins
    assert len(draft.records) == bool(begins)


@pytest.mark.parametrize("epoch_is_new", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_group_passes_an_earlier_one_only_in_its_own_epoch_and_while_it_is_there(
    *, epoch_is_new: bool, is_there: bool
) -> None:
    made = Made()
    bench, group = made.bench, made.group
    bench.states = Coordinated(bench.image)
    left_by_an_earlier_group(bench)
    epoch = group.committed.epoch
    states.ask_to_begin(made.house, group, {A: {0: 5}}, epoch if epoch_is_new else epoch - 1, made.finish)
    made.take()
    if not is_there:
        group.kill(bench.now_ms)
    bench.come_back()
    passes = epoch_is_new and is_there
    assert (len(bench.under_way), made.did) == (passes, [] if passes else [{A: {0: states.FENCED}}])
    if passes:
        assert group.state.epoch == 51
        bench.commit()
        assert (made.did, group.passed, group.checked_version) == ([{A: {0: BUSY}}], (epoch, 51), 77)


WRITES: dict[str, Callable[[Made], object]] = {
    "passes": lambda made: states._pass(made.house, made.group, made.group.committed.epoch, 50, made.did.append, 0),
    "has begun": lambda made: states.finish_begun(made.house, made.group, HAS_ONE, 0, made.did.append),
    "is deleted": lambda made: states.forget_deleted(made.house, made.group, {A: {0: NONE}}, 0),
    "is gone": lambda made: states.forget_gone(made.house, made.group, 0),
}


@pytest.mark.parametrize("step", WRITES)
@pytest.mark.parametrize("error", [NONE, FAILED])
def test_a_write_that_fails_has_the_group_look_at_all_again(step: str, error: ErrorCode) -> None:
    made = Made(NOTHING.replace(initializing=HAS_ONE, deleting={A: "a"}))
    if step == "is gone":
        made.bench.image.topics_by_id.clear()
    WRITES[step](made)
    made.take()
    made.group.checked_version = 77
    if error is NONE:
        made.bench.commit()
    else:
        made.bench.fail()
    assert made.group.checked_version == (77 if error is NONE else UNCHECKED)


@pytest.mark.parametrize(("attempt", "pause_ms"), [(0, 100), (3, 800), (8, 25_600), (9, 30_000), (99, 30_000)])
def test_each_try_to_begin_or_to_delete_is_twice_as_much_later(attempt: int, pause_ms: int) -> None:
    """At most thirty seconds."""
    then_ms = min(2 * pause_ms, 30_000)
    made = Made(NOTHING.replace(initializing=HAS_ONE))
    states._begun(made.house, made.group, HAS_ONE, attempt, {A: {0: BUSY}}, made.bench.now_ms)
    made.take()
    assert made.fired() == [pause_ms]
    made.bench.come_back(BUSY)
    assert made.fired() == [then_ms]
    made = Made(NOTHING.replace(deleting={A: "a"}))
    states._deleted(made.house, made.group, {A: "a"}, attempt, made.finish, {A: {0: BUSY}}, made.bench.now_ms)
    assert made.fired() == [pause_ms]
    made.bench.come_back(BUSY)
    assert made.fired() == [then_ms]


def test_what_has_begun_but_is_not_written_begins_again_and_the_try_counts() -> None:
    made = Made(NOTHING.replace(initializing=HAS_ONE))
    states._begun(made.house, made.group, HAS_ONE, 2, {A: {0: NONE}}, made.bench.now_ms)
    made.take()
    made.bench.fail()
    assert made.fired() == [100]
    made.bench.come_back(BUSY)
    assert made.fired() == [800]


def test_what_is_deleted_but_not_written_is_deleted_again_and_the_try_counts() -> None:
    made = Made(NOTHING.replace(deleting={A: "a"}))
    states.forget_deleted(made.house, made.group, {A: {0: NONE}}, made.bench.now_ms)
    made.take()
    made.bench.fail()
    assert made.fired() == [100]
    made.bench.come_back(BUSY)
    assert made.fired() == [200]


def test_the_first_try_to_delete_is_the_first() -> None:
    made = Made(NOTHING.replace(deleting={A: "a"}))
    states.delete(made.house, made.group, {A: "a"}, made.finish)
    made.take()
    made.bench.come_back(BUSY)
    assert made.fired() == [100]
    assert made.did == [{A: {0: BUSY, 1: BUSY}}]


def test_what_is_deleted_is_not_deleted_again() -> None:
    made = Made(NOTHING.replace(deleting={A: "a", B: "b"}))
    states._deleted(made.house, made.group, {A: "a"}, 0, made.finish, {A: {0: NONE, 1: NONE}}, made.bench.now_ms)
    assert (made.fired(), made.group.deleted_later, made.did) == ([], {}, [{A: {0: NONE, 1: NONE}}])
    errors = {A: {0: NONE, 1: BUSY}, B: {0: NONE}}
    states._deleted(made.house, made.group, {A: "a", B: "b"}, 0, made.finish, errors, made.bench.now_ms)
    assert list(made.group.deleted_later) == [A]
    states._deleted(made.house, made.group, {A: "a", B: "b"}, 0, made.finish, errors, made.bench.now_ms)
    assert made.fired() == [100], "once"


def test_only_what_was_deleted_is_forgotten() -> None:
    made = Made(NOTHING.replace(deleting={A: "a", B: "b", C: "c"}))
    states.forget_deleted(made.house, made.group, {A: {0: NONE}, B: {0: NONE, 1: BUSY}}, made.bench.now_ms)
    assert made.group.state.partitions == NOTHING.replace(deleting={B: "b", C: "c"})


def test_where_no_topic_is_gone_nothing_is_written() -> None:
    made = Made(NOTHING.replace(initialized=HAS_ONE))
    states.forget_gone(made.house, made.group, 0)
    made.take()
    assert made.bench.under_way == []


def test_nothing_is_asked_about_a_topic_that_is_not_there() -> None:
    made = Made(NOTHING.replace(deleting={A: "a", B: "b"}))
    states.delete(made.house, made.group, {A: "a", B: "b"}, made.finish)
    made.take()
    (errand,) = made.bench.errands
    job: Any = errand.job
    assert [(topic.topic_id, len(topic.partitions)) for topic in job.request.topics] == [(A, 2)]
    made.bench.come_back(BUSY)
    assert made.did == [{A: {0: BUSY, 1: BUSY}, B: {}}]
