"""The records of one partition that wait until they are due: what its log says of them, batch by batch.

The log is all there is to know: what waits is what held batches brought, less what records that were due have taken
and what was cancelled, each in the log's order. So whoever has the log has the same, and a log that was cut has
forgotten a record's delivery only where its consumers have, too. Exactly once in the log means: a record and the word
that it waits no longer are the same bytes.

| batch               | what waits behind it                                                           |
| ------------------- | ------------------------------------------------------------------------------ |
| held, by a producer | its records, too; not what they cancel or replace; first of all what they hasten |
| held, carried       | the same, in another place; or it is new, where the log begins behind the first |
| moved               | no longer what it brings                                                       |
| any other           | the same                                                                       |

It reads no log: `position` is where the next batch begins that it is to be shown (`take`), and nothing may be moved
before it has been shown all there is.
"""

from collections.abc import Iterable
from typing import Final

from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import CANCELS, HASTENS, Held, Row
from penstock.protocol.due import Due, Moved, moved_batch, moved_in
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.waiting import Waiting

MOST_ROWS: Final = 2_500
"""Of a held batch that are taken in one step, which is 1 ms, or 4 where they have ids."""
MOST_MOVED: Final = 100
"""Records in one batch of those that are due."""
MOST_MOVED_BYTES: Final = 256 << 10
"""Of them, if they are several."""


class DelayedRecords:
    """Those in the log of a partition from `start_offset` on."""

    __slots__ = ("_begun", "_start_offset", "_taken", "position", "waiting")

    def __init__(self, start_offset: int) -> None:
        self._start_offset = self.position = start_offset
        self.waiting = Waiting()
        self._begun: Held | None = None
        """The batch at `position`, if rows of it are still to be taken."""
        self._taken = 0

    def pass_over(self, header: BatchHeader) -> None:
        """The next batch of the log, if it has not the attribute DELAYED."""
        self.position = header.last_offset + 1

    def has_begun(self, header: BatchHeader) -> bool:
        """Some rows of it were taken: for the others its bytes are not needed."""
        return self._begun is not None and (
            self._begun.base_offset,
            self._begun.last_offset,
        ) == (header.base_offset, header.last_offset)

    def take(self, batch: bytes | memoryview, header: BatchHeader) -> bool:
        """The next batch of the log, if it has, or another step of it; whether that was the last one. `header` has its
        offsets. Raises DecodeError.
        """
        if not header.is_held:
            self.take_moved(moved_in(batch, header), header)
            return True
        if not self._takes_rows(batch, header):
            return False
        self.position = header.last_offset + 1
        return True

    def take_moved(self, records: Iterable[Moved | Due], header: BatchHeader) -> None:
        """The next batch of the log, which has moved these. To whom wrote it, its bytes say nothing new."""
        self._start_offset = min(self._start_offset, header.base_offset)  # the log may begin within a batch
        for moved in records:
            if self._knows(moved.waited_at):
                self.waiting.moved(moved.waited_at, moved.id)
        self.position = header.last_offset + 1

    def _takes_rows(self, batch: bytes | memoryview, header: BatchHeader) -> bool:
        if not self.has_begun(header):
            self._start_offset = min(self._start_offset, header.base_offset)
            self._begun, self._taken = Held(batch, header), 0
        held = self._begun
        assert held is not None
        begin, end = self._taken, min(self._taken + MOST_ROWS, held.count)
        times = held.plain_times(begin, end)
        if times:
            self.waiting.add_plain(times, header.base_offset + begin)
        else:
            for row in held.rows(begin, end):
                self._held(row, header.base_offset)
        self._taken = end
        if end < held.count:
            return False
        self._begun = None
        return True

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
