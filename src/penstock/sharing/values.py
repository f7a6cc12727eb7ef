"""What is set for the share partitions of a group, what members say of records, and what is written down of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from penstock.protocol.value import Value
from penstock.sharing.in_flight import RecordState, Run

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

STATE_AFTER: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
NOT_WRITTEN: Final = -1
"""The beginning of a share partition of which nothing is written down yet."""
NEVER_MS: Final = 1 << 63


class ShareSettings(Value):
    """A group's: how long a record is locked, how often it is delivered, how many are between beginning and end."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True


class StateBatch(Value):
    """As it is written down: records `first` to `last` (inclusive), how often they were delivered."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class Write(Value):
    """To be written down by the share coordinator; then report `written(write_id, …)`."""

    write_id: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Acknowledgement(Value):
    """Of records `first` to `last` (inclusive): one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Written(Value):
    """What a share coordinator has of a partition."""

    start_offset: int
    state_epoch: int
    batches: Sequence[StateBatch] = ()


def same_types(it: Acknowledgement, start_offset: int) -> Iterable[tuple[int, int, int]]:
    """(type, first, last) of neighbours with the same type, from the beginning of the partition on."""
    if len(it.types) == 1:
        return [(it.types[0], max(it.first, start_offset), it.last)]
    found, first = [], it.first
    for kind, same in groupby(it.types):
        behind = first + len(list(same))
        if behind > start_offset:
            found.append((kind, max(first, start_offset), behind - 1))
        first = behind
    return found


def adjoining(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that follow each other without a hole and are in the same state, together."""
    found: list[list[Run]] = []
    for run in runs:
        before = found[-1][-1] if found else None
        if (
            before is not None
            and before.last + 1 == run.first
            and before.state is run.state
            and before.delivery_count == run.delivery_count
        ):
            found[-1].append(run)
        else:
            found.append([run])
    return found
