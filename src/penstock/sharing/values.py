"""What is set for the share partitions of a group, what members say of records, and what is written down of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import groupby, repeat
from typing import Final, TypeVar

from penstock.protocol.value import Value
from penstock.sharing.failures import How
from penstock.sharing.in_flight import RecordState, Run

T = TypeVar("T")
GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

STATE_AFTER: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVING,
}
FAILURE: Final = {RELEASE: How.RELEASED, REJECT: How.REJECTED}
NOT_WRITTEN: Final = -1
"""The beginning of a share partition of which nothing is written down yet."""
NEVER_MS: Final = 1 << 63
LONGEST_DELAY_MS: Final = 86_400_000
"""Until a record that came back goes out again: a day."""
MOST_DOUBLED: Final = 27
"""A millisecond is more than a day then."""
AS_THE_GROUP: Final = -1
"""A delay that is the group's."""
NO_RATE: Final = -1
"""As many may die as will."""


class Status(Enum):
    """Of a share partition at its leader."""

    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


class ShareSettings(Value):
    """A group's: how long a record is locked, how often it is delivered, how many are between beginning and end; how
    long it waits before it is delivered again, twice as long each time.
    """

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True
    retry_backoff_ms: int = 0
    retry_backoff_max_ms: int = 0
    ordered_by_key: bool = False
    delivery_count_durable: bool = False
    """A delivery is written before anybody gets the records."""
    has_dead_letters: bool = False
    """What is given up becomes a dead letter first (KIP-1191)."""
    dead_letter_max_rate: int = NO_RATE
    """So many in a minute, beyond which deliveries pause."""

    def backoff_ms(self, delivery_count: int) -> int:
        """Between that delivery and the next one."""
        doubled = min(max(delivery_count - 1, 0), MOST_DOUBLED)
        return min(self.retry_backoff_ms << doubled, self.retry_backoff_max_ms)

    def after_delivery(self, state: RecordState, delivery_count: int) -> RecordState:
        """A record that was delivered as often as it may be is given up instead of delivered again; what is given up
        becomes a dead letter first, where the group has them.
        """
        if state is RecordState.AVAILABLE and delivery_count >= self.delivery_count_limit:
            state = RecordState.ARCHIVING
        if state is RecordState.ARCHIVING and not self.has_dead_letters:
            state = RecordState.ARCHIVED
        return state


class StateBatch(Value):
    """As it is written down: records `first` to `last` (inclusive), how often they were delivered, and before when they
    are not delivered again.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    held_until_ms: int = 0


class Write(Value):
    """To be written down by the share coordinator; then report `written(write_id, …)`."""

    write_id: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Acknowledgement(Value):
    """Of records `first` to `last` (inclusive): one type for all, or one for each. So are the delays of those that are
    released, `AS_THE_GROUP` among them; without any all are.
    """

    first: int
    last: int
    types: Sequence[int]
    delays_ms: Sequence[int] = ()
    reason: str = ""
    """Why they are released or rejected, if the member says so."""


class Written(Value):
    """What a share coordinator has of a partition."""

    start_offset: int
    state_epoch: int
    batches: Sequence[StateBatch] = ()


def same_types(it: Acknowledgement, start_offset: int) -> Iterable[tuple[int, int, int, int]]:
    """(type, delay, first, last) of neighbours with the same type and delay, from the beginning of the partition on."""
    types, delays = it.types, it.delays_ms
    if len(types) == 1 and len(delays) <= 1:  # of as many offsets as a member likes to name
        return [(types[0], delays[0] if delays else AS_THE_GROUP, max(it.first, start_offset), it.last)]
    if not delays:
        return [(kind, AS_THE_GROUP, first, last) for kind, first, last in _alike(types, it.first, start_offset)]
    count = it.last - it.first + 1
    each = zip(*(them if len(them) > 1 else repeat(them[0], count) for them in (types, delays)), strict=True)
    return [(kind, delay_ms, first, last) for (kind, delay_ms), first, last in _alike(each, it.first, start_offset)]


def _alike(said: Iterable[T], first: int, start_offset: int) -> list[tuple[T, int, int]]:
    """What is said of records from `first` on, and from which to which the same."""
    found = []
    for what, same in groupby(said):
        behind = first + len(list(same))
        if behind > start_offset:
            found.append((what, max(first, start_offset), behind - 1))
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
            and before.held_until_ms == run.held_until_ms
        ):
            found[-1].append(run)
        else:
            found.append([run])
    return found
