"""A leader in the order of keys: what it makes of records of the one before, and what it has written down."""

from __future__ import annotations

from random import Random

import pytest

from penstock.sharing.acquiring import Acquired, Demand, Fetched
from penstock.sharing.in_flight import RecordState
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.values import ShareSettings, StateBatch, Written

MANY = 1_000


class Offset(int):
    """Counts how often offsets are compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Offset.compared += 1
        return int(self) < int(other)

    def __ge__(self, other: int) -> bool:
        Offset.compared += 1
        return int(self) >= int(other)

    def __gt__(self, other: int) -> bool:
        Offset.compared += 1
        return int(self) > int(other)

    def __le__(self, other: int) -> bool:
        Offset.compared += 1
        return int(self) <= int(other)

    __hash__ = int.__hash__


def test_what_was_in_flight_is_not_gone_over_for_each_record() -> None:
    partition = OrderedPartition(ShareSettings(partition_max_record_locks=MANY, ordered_by_key=True))
    partition.load()
    left = [StateBatch(offset, offset, RecordState.AVAILABLE, 1) for offset in range(0, MANY, 2)]
    partition.loaded(Written(0, 1, left), 0)
    partition.admit([Keyed(0, MANY - 1, {Offset(offset): offset for offset in range(MANY)})])
    assert sum(len(run) for run in partition.flight.runs() if run.is_available) == MANY
    assert Offset.compared < 50 * MANY


def test_what_the_leader_before_had_in_flight_and_wrote_nothing_of_is_as_any_other() -> None:
    """It is given out as records are that were delivered: here as one run, up to its end."""
    partition = OrderedPartition(ShareSettings(ordered_by_key=True))
    partition.load()
    partition.loaded(Written(0, 1, [StateBatch(3, 4, RecordState.AVAILABLE, 1)]), 0)
    partition.admit([Keyed(0, 4, {offset: offset for offset in range(5)})])
    assert partition.acquire(Demand("ann", 2, 2), Fetched(0, [(0, 4)]), 0) == [Acquired(0, 2, 1)]


def loaded(*left: StateBatch, **settings: int | bool) -> OrderedPartition:
    partition = OrderedPartition(ShareSettings(ordered_by_key=True, **settings))  # type: ignore[arg-type]
    partition.load()
    partition.loaded(Written(0, 1, left), 0)
    return partition


@pytest.mark.parametrize("seed", range(40))
def test_of_what_was_in_flight_the_heads_of_keys_are_free_and_what_nobody_is_to_see_is_over(seed: int) -> None:
    """Markers of transactions, and what compaction has taken, before records, between them and behind them."""
    random = Random(seed)
    ends = sorted({*random.sample(range(20), random.randrange(1, 6)), 19})
    states = random.choices((RecordState.AVAILABLE, RecordState.ACKNOWLEDGED), (3, 1), k=len(ends))
    spans = zip([0, *(end + 1 for end in ends)], ends, states, strict=False)
    partition = loaded(*(StateBatch(first, last, state, 1) for first, last, state in spans))
    keys = {offset: random.choice((None, 0, 1, 2)) for offset in range(20) if random.random() < 0.6}
    was_over = {it for run in partition.flight.runs() if run.is_finished for it in range(run.first, run.last + 1)}
    partition.admit([Keyed(0, 19, keys)])

    left = [offset for offset in keys if offset not in was_over and offset >= partition.start_offset]
    free, held = list[int](), list[int]()
    for run in partition.flight.runs():
        if not run.is_finished:
            (free if run.is_available else held).extend(range(run.first, run.last + 1))
    assert sorted(free + held) == left
    heads = [it for n, it in enumerate(left) if keys[it] is None or keys[it] not in {keys[one] for one in left[:n]}]
    assert free == heads


def test_all_that_a_lock_which_ran_out_has_locked_is_written_down() -> None:
    partition = loaded()
    partition.admit([Keyed(0, 9, {offset: offset for offset in range(10)})])
    partition.acquire(Demand("ann", 10, 10), Fetched(0, [(0, 9)]), 0)
    write = partition.expire(partition.next_expiry_ms)
    assert write is not None
    assert write.batches == [StateBatch(0, 9, RecordState.AVAILABLE, 1)]


def test_what_has_its_dead_letter_is_written_down_whole_though_others_with_its_keys_lie_in_it() -> None:
    """The group was in no order before."""
    partition = loaded(
        StateBatch(0, 3, RecordState.ARCHIVING, 1), StateBatch(4, 9, RecordState.ARCHIVING, 2), has_dead_letters=True
    )
    partition.admit([Keyed(0, 12, {offset: offset % 5 for offset in range(13)})])
    write = partition.buried(partition.take_dead_letters(0))
    assert write is not None
    assert [(it.first, it.last, it.state) for it in write.batches] == [
        (0, 3, RecordState.ARCHIVED),
        (4, 9, RecordState.ARCHIVED),
    ]
    partition.written(write.write_id, is_written=True, now_ms=0)
    assert partition.acquire(Demand("ann", 9, 9), Fetched(10, [(10, 12)]), 0) == [Acquired(10, 12, 1)]
