"""Which of the records that were read a member gets.

Records that come back (released, or their lock ran out) go out again as they went out first, until they have been
delivered half as often as they may be: from then on a batch is halved with each delivery, and the last delivery of a
record goes alone, so that a record which kills its consumers takes no others along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.protocol.value import Value
from penstock.sharing.in_flight import Batch, InFlight, RecordState, Run, Span

LEAST_THROTTLE_LIMIT: Final = 2
"""The first two deliveries are never throttled."""


class Demand(Value):
    """What a member asks for: about `max_records`, rounded up to whole batches of the log; with `is_record_limit`
    not one more (KIP-1206). New records are cut where batches of the log begin, into about `batch_size` each.
    """

    member: str
    max_records: int
    batch_size: int
    is_record_limit: bool = False


class Fetched(Value):
    """What was read of the log from `offset` on: at least one batch, in their order."""

    offset: int
    batches: Sequence[Span]
    aborted: Sequence[Span] = ()
    """Batches of transactions that were aborted; none where the group reads uncommitted records."""


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Acquisition:
    """One member's turn: it gets records that are in flight, or behind all that are, at `next_offset`.

    Afterwards that is behind what is new in flight, of which nobody has what begins at `left`, if that is not None.
    """

    def __init__(self, flight: InFlight, demand: Demand, batches: Sequence[Span], until_ms: int, limit: int) -> None:
        """The locks last until then, and a record is delivered `limit` times."""
        self._flight = flight
        self._demand = demand
        self._batches = batches
        self._until_ms = until_ms
        self._limit = limit
        self._throttle_from = max(LEAST_THROTTLE_LIMIT, -(-self._limit // 2))
        self.next_offset = 0
        self.left: int | None = None
        self.acquired: list[Acquired] = []

    def run(self, most: int, last: int, next_offset: int) -> list[Acquired]:
        """Acquire about so many of the records that are free, none behind `last`."""
        self.next_offset = next_offset
        first = self._batches[0][0]
        self._left = most
        for batch in self._flight.between(first, last):
            if self._left <= 0:
                break
            if batch.is_gap:
                self._take_gap(batch, first, last)
            else:
                self._take_again(batch, first, last)
        if self._left > 0 and self.next_offset <= last:
            self._take_new(max(first, self.next_offset), last)
        return self.acquired

    # records that nobody has had

    def _take_new(self, first: int, last: int, *, is_gap: bool = False) -> None:
        """Acquire records that lie in no batch, or in a gap; the last batch of the log is taken whole."""
        if last - first + 1 > self._left:
            rounded = self._end_of_batch(first + self._left - 1)
            last = min(rounded, last) if is_gap else rounded
        if is_gap:
            self._flight.take_out(first, last)
        taken = last
        if self._demand.is_record_limit:
            taken = min(last, first + self._left - 1)
            self._add(first, last)
            if taken < last:
                self._leave(taken + 1, last)
            self.acquired.append(Acquired(first, taken, 1))
        else:
            for begin, end in self._parted(first, last):
                self._add(begin, end)
                self.acquired.append(Acquired(begin, end, 1))
        self._left -= taken - first + 1
        self.next_offset = max(self.next_offset, last + 1)

    def _add(self, first: int, last: int) -> None:
        self._flight.add(Batch([Run(first, last, RecordState.ACQUIRED, 1, self._demand.member, self._until_ms)]))

    def _leave(self, first: int, last: int) -> None:
        """The rest of a batch of the log, of which a member takes no more than it asked for."""
        for run in self._flight.cut(first, last):
            run.state, run.delivery_count = RecordState.AVAILABLE, 0
            run.unlock()
        self.left = first if self.left is None else min(first, self.left)

    def _parted(self, first: int, last: int) -> list[Span]:
        parts = []
        for base, _ in self._batches:
            if base > last:
                break
            if base - first >= self._demand.batch_size:
                parts.append((first, base - 1))
                first = base
        return [*parts, (first, last)]

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the batch of the log that has this record; itself, if compaction has taken it."""
        end = offset
        for base, last in self._batches:
            if base > offset:
                break
            end = last
        return max(end, offset)

    def _take_gap(self, gap: Batch, first: int, last: int) -> None:
        """Records that were in flight at the leader before this one, and of which it wrote nothing down."""
        for run in gap.within(first, last):
            if run.is_available and self._left > 0:
                self._take_new(max(run.first, first), min(run.last, last), is_gap=True)

    # records that were delivered before

    def _take_again(self, batch: Batch, first: int, last: int) -> None:
        free = [run for run in batch.within(first, last) if run.is_available]
        if not free:
            return
        is_throttled = max(run.delivery_count for run in free) >= self._throttle_from
        if is_throttled and self.acquired:
            self._left = 0
            return
        taken = self._take(batch, free, first, last)
        self._left = 0 if is_throttled and taken else self._left - taken

    def _take(self, batch: Batch, free: Sequence[Run], first: int, last: int) -> int:
        taken, most = 0, 0  # a `most` of 0 is none
        told: list[Acquired] = []
        for run in free:
            count = run.delivery_count
            is_last_delivery = count == self._limit - 1 and self._limit > LEAST_THROTTLE_LIMIT
            if is_last_delivery and taken:
                break
            if count >= self._throttle_from and not most:
                most = max(1, batch.size >> (count - self._throttle_from + 1))
            begin, end = max(run.first, first), min(run.last, last)
            if is_last_delivery:
                end = begin
            if self._demand.is_record_limit:
                end = min(end, begin + self._left - taken - 1)
            if most > taken:
                end = min(end, begin + most - taken - 1)
            (whole,) = batch.cut(begin, end)
            self._lock(whole)
            if told and told[-1].last + 1 == begin and told[-1].delivery_count == count + 1:
                begin = told.pop().first
            told.append(Acquired(begin, end, count + 1))
            taken += len(whole)
            if is_last_delivery or taken == most or (self._demand.is_record_limit and taken == self._left):
                break
        self.acquired += told
        return taken

    def _lock(self, run: Run) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member, run.locked_until_ms = self._demand.member, self._until_ms


def without(acquired: Sequence[Acquired], aborted: Sequence[Span]) -> tuple[list[Acquired], list[Span]]:
    """What is left of the records when those of aborted transactions are taken out, and what was taken out."""
    left, out = list(acquired), []
    for begin, end in aborted:
        kept: list[Acquired] = []
        for first, last, count in left:
            if last < begin or first > end:
                kept.append(Acquired(first, last, count))
                continue
            out.append((max(first, begin), min(last, end)))
            if first < begin:
                kept.append(Acquired(first, begin - 1, count))
            if last > end:
                kept.append(Acquired(end + 1, last, count))
        left = kept
    return left, out
