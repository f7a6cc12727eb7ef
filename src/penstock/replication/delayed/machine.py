"""The records of one partition that wait until they are due: what its log says of them, batch by batch.

The log is all there is to know: what waits is what held batches brought, less what records that were due have taken
and what was cancelled, each in the log's order. So whoever has the log has the same, and a log that was cut has
forgotten a record's delivery only where its consumers have, too. Exactly once in the log means: a record and the word
that it waits no longer are the same bytes.

| batch               | what waits behind it                                                           |
| ------------------- | ------------------------------------------------------------------------------ |
| held, by a producer | its records, too; not what they cancel or replace; first of all what they hasten |
| held, carried       | the same, in another place; or it is new, where the log begins behind the first |
| held, transactional | the same; its records count as held when the transaction is committed          |
| marker, commit      | what its producer's transaction held, too, as if it were held here             |
| marker, abort       | the same; what the transaction held never waits                                |
| moved               | no longer what it brings                                                       |
| any other           | the same                                                                       |

It reads no log: `position` is where the next batch begins that it is to be shown (`take`), and nothing may be moved
before it has been shown all there is.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.protocol.batch import DELAYED, BatchHeader
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType, control_type
from penstock.protocol.delayed import CANCELS, HASTENS, Held, Row
from penstock.protocol.due import Due, Moved, moved_batch, moved_in
from penstock.protocol.records import iterate_records
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.waiting import Waiting

MOST_ROWS: Final = 2_500
"""Of held batches that are taken in one step, which is 1 ms, or 4 where they have ids, or are of a transaction."""
PLAIN: Final = 8
"""Rows that go into a run, and take no longer than one that has an id."""
MOST_MOVED: Final = 100
"""Records in one batch of those that are due."""
MOST_MOVED_BYTES: Final = 256 << 10
"""Of them, if they are several."""


class _Begun(NamedTuple):
    last_offset: int
    held: deque[Held]
    were_reserved: bool
    """They were held by a transaction, which this batch ends."""
    are_committed: bool


class DelayedRecords:
    """Those in the log of a partition from `start_offset` on."""

    __slots__ = ("_begun", "_open", "_start_offset", "_taken", "position", "rows_taken", "waiting")

    def __init__(self, start_offset: int) -> None:
        self._start_offset = self.position = start_offset
        self.waiting = Waiting()
        self._open: dict[int, deque[Held]] = {}
        """By producer, what its open transaction has held; rows alone, as a transaction may be large."""
        self._begun: _Begun | None = None
        """What is still to be done on account of the batch at `position`."""
        self._taken: int
        """Rows of the first of its held batches."""
        self.rows_taken = 0
        """Of all batches, in all steps, and one more for each held batch; of rows that take little only a few count."""

    @property
    def unsettled_from(self) -> int | None:
        """The first offset at which something would wait if its transaction was committed."""
        return min((held[0].base_offset for held in self._open.values()), default=None)

    def concerns(self, header: BatchHeader) -> bool:
        """Whether the batch is to be shown to `take`, or `pass_over` is enough."""
        is_end = header.is_marker and (header.producer_id in self._open or self.has_begun(header))
        return is_end or bool(header.attributes & DELAYED)

    def pass_over(self, header: BatchHeader) -> None:
        """The next batch of the log, if it does not concern what waits."""
        self.position = header.last_offset + 1

    def has_begun(self, header: BatchHeader) -> bool:
        """A step of it was taken: for the others its bytes are not needed."""
        return self._begun is not None and self._begun.last_offset == header.last_offset

    def take(self, batch: bytes | memoryview, header: BatchHeader) -> bool:
        """The next batch of the log, if it does, or another step of it; whether that was the last one. `header` has its
        offsets. Of a held batch its rows are enough (`rows_bytes`). Raises DecodeError.
        """
        if header.attributes & DELAYED and not header.is_held:
            self.rows_taken += header.last_offset_delta + 1
            self.take_moved(moved_in(batch, header), header)
            return True
        if not self.has_begun(header):
            self._begin(batch, header)
        if not self._takes_rows():
            return False
        self._begun = None
        self.position = header.last_offset + 1
        return True

    def take_moved(self, records: Iterable[Moved | Due], header: BatchHeader) -> None:
        """The next batch of the log, which has moved these. To whom wrote it, its bytes say nothing new."""
        for moved in records:
            if self._knows(moved.waited_at):
                self.waiting.moved(moved.waited_at, moved.id)
        self.position = header.last_offset + 1

    def _begin(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        settled, is_committed = deque[Held](), True
        if header.is_marker:
            is_committed = _commits(batch, header)
            settled = self._open.pop(header.producer_id)
        else:
            self._start_offset = min(self._start_offset, header.base_offset)  # the log may begin within a batch
            held = Held(batch, header)
            if header.is_transactional:
                held.drop_records()
                self.waiting.reserve(held.base_offset, held.count)
                self._open.setdefault(header.producer_id, deque()).append(held)
            else:
                settled.append(held)
        self._begun, self._taken = _Begun(header.last_offset, settled, header.is_marker, is_committed), 0

    def _takes_rows(self) -> bool:
        assert self._begun is not None
        _, settled, were_reserved, are_committed = self._begun
        room = MOST_ROWS
        while settled and room > 0:
            held, begin = settled[0], self._taken if are_committed else settled[0].count
            self._taken = end = min(begin + room, held.count)
            room -= end - begin + 1
            times = None if were_reserved else held.plain_times(begin, end)
            if times:
                are_in_a_run = self.waiting.add_plain(times, held.base_offset + begin)
                self.rows_taken += 1 + (end - begin) // (PLAIN if are_in_a_run else 1)
            else:
                self.rows_taken += 1 + end - begin
                for row in held.rows(begin, end):
                    self._held(row, held.base_offset)
            if end == held.count:
                if were_reserved:
                    self.waiting.release(held.base_offset, held.count)
                settled.popleft()
                self._taken = 0
        return not settled

    def _held(self, row: Row, base_offset: int) -> None:
        if row.due_ms == CANCELS:
            self.waiting.cancel(row.id)
        elif row.due_ms == HASTENS:
            self.waiting.hasten(row.id)
        elif row.waited_at >= base_offset:
            self.waiting.add(Entry(row.due_ms, row.waited_at), row.id, row.waited_at)
        elif self._knows(row.waited_at):
            self.waiting.carried(row.waited_at, base_offset)
        else:
            self.waiting.add(Entry(row.due_ms, row.waited_at), row.id, base_offset)

    def _knows(self, waited_at: int) -> bool:
        """What was held before the log's present beginning is known once it was carried."""
        return waited_at >= self._start_offset or self.waiting.place_of(waited_at) != waited_at


def _commits(marker: bytes | memoryview, header: BatchHeader) -> bool:
    return any(control_type(record) == ControlType.COMMIT for record in iterate_records(marker, 0, header))


class Mover:
    """Makes batches of records that are due."""

    __slots__ = ("_bytes", "_most_bytes", "chosen", "compression")

    def __init__(self, most_bytes: int = MOST_MOVED_BYTES) -> None:
        """A batch with so much has no further record."""
        self._most_bytes = min(most_bytes, MOST_MOVED_BYTES)
        self.compression: Compression | None = None
        self.chosen: list[Due] = []
        self._bytes = 0

    def add(self, due: Due, compression: Compression) -> bool:
        """False if it has no room for that: a batch has one codec."""
        size = len(due.body)
        is_full = len(self.chosen) >= MOST_MOVED or self._bytes + size > self._most_bytes
        if self.chosen and (is_full or compression != self.compression):
            return False
        self.compression = compression
        self.chosen.append(due)
        self._bytes += size
        return True

    def moved(self, now_ms: int) -> bytearray:
        assert self.compression is not None
        return moved_batch(self.chosen, self.compression, now_ms=now_ms)
