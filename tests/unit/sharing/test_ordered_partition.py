"""What a leader in the order of keys has to look at, where the one before has left very many records."""

from __future__ import annotations

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
