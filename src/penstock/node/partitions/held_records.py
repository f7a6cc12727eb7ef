"""Cuts records that are due out of the held batches of a log. Of a batch it reads the part in which a record lies.

With one record come all of that part that are due soon after: where very many are due in a second, and lie in many
batches, each part is unpacked a few times and not once for each of its records.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.protocol.batch import read_header
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import BEHIND_VALUE, MAX_UNPACKED_BYTES, Held
from penstock.protocol.due import Due, Span, cut, spans
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import unpack_records
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.waiting import Waiting

BATCHES: Final = 2_000
"""Held batches of which is known where their parts begin, and in which segment."""
PARTS: Final = 16
"""That are unpacked."""
PARTS_BYTES: Final = 8 << 20
"""These have no more bytes in all, or one part is unpacked."""
SOON_MS: Final = 256
"""What is due so long after a record is cut out with it."""
CUT_BYTES: Final = 64 << 20
"""Of what is cut out and not delivered yet. Where that is too little, less comes with a record."""
FEW_BYTES: Final = 64 << 10
"""So much may be cut out, or twice what waits of it, before what waits no longer is looked for in it."""
A_RECORD: Final = 300
"""To look at a record of a part takes as long as to unpack so many bytes more."""
A_CUT: Final = 2_000
"""And to cut it out."""


class _Batch(NamedTuple):
    """Where its parts lie: numbers of their first records, and positions in the segment, and its end."""

    base_offset: int
    last_offset: int
    segment: Segment
    firsts: "array[int]"
    positions: "array[int]"
    offsets: Sequence[int]
    """Where each of its records waited first."""


class _Part(NamedTuple):
    offsets: Sequence[int]
    compression: Compression
    data: bytes
    spans: list[Span]


class HeldRecords:
    """Of one partition, for as long as the same leads it. Its methods raise KafkaError and DecodeError."""

    def __init__(self, log: PartitionLog, waiting: Waiting) -> None:
        self._log, self._waiting = log, waiting
        self._changes = log.changes
        self.work = 0
        """Bytes that were unpacked, and what took as long."""
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._bases: list[int] = []
        """The same in the order of their offsets."""
        self._parts: OrderedDict[tuple[int, int], _Part] = OrderedDict()
        self._parts_bytes = self._cut_bytes = 0
        self._cut: dict[int, tuple[Due, Compression]] = {}
        self._found_bytes = 0
        """What waited of what was cut out, when that was looked through last."""
        self._soon_ms = SOON_MS

    def take(self, entry: Entry) -> tuple[Due, Compression]:
        """A record that waits, and how its batch was packed."""
        if self._changes != self._log.changes:  # it may lie in another directory by now
            self._changes = self._log.changes
            self.rest()
        found = self._cut.get(entry.waited_at)
        if found is None:
            self._cut_with(entry)
            found = self._cut[entry.waited_at]
        return found

    def are_delivered(self, some: Iterable[Due]) -> None:
        for due in some:
            if self._cut.pop(due.waited_at, None) is not None:  # much that was cut since may have driven it out
                self._cut_bytes -= len(due.body)

    def has_caught_up(self) -> None:
        """Nothing is due now. What was cut out and is cancelled, or replaced, is forgotten by and by."""
        self._soon_ms = SOON_MS
        if self._cut_bytes > max(2 * self._found_bytes, FEW_BYTES):
            self._cut = {at: self._cut[at] for at in self._waiting.near.of(self._cut)}
            self._cut_bytes = self._found_bytes = sum(len(due.body) for due, _ in self._cut.values())

    def rest(self) -> None:
        """Remember nothing; also where nothing is due for some time, as a broker may have very many partitions."""
        for remembered in (self._batches, self._bases, self._parts, self._cut):
            remembered.clear()
        self._parts_bytes = self._cut_bytes = 0

    def _cut_with(self, entry: Entry) -> None:
        if self._cut_bytes > CUT_BYTES:  # of which some may have been cancelled
            self._cut.clear()
            self._cut_bytes = 0
            self._soon_ms = max(self._soon_ms // 2, 1)
        part = self._part_of(entry.waited_at)
        soon = self._waiting.near.numbers(part.offsets, entry.due_ms + self._soon_ms)
        offsets, data, spans_of, known = part.offsets, part.data, part.spans, self._cut
        numbers = [number for number in {offsets.index(entry.waited_at), *soon} if offsets[number] not in known]
        for number in numbers:
            due = cut(data, spans_of[number], offsets[number])
            known[due.waited_at] = due, part.compression
            self._cut_bytes += len(due.body)
        self.work += len(numbers) * A_CUT

    def _part_of(self, waited_at: int) -> _Part:
        batch = self._batch_at(self._waiting.place_of(waited_at))
        try:
            number = batch.offsets.index(waited_at)
        except ValueError:
            text = f"the batch at offset {batch.base_offset} does not hold what waits since offset {waited_at}"
            raise DecodeError(text) from None
        which = bisect_right(batch.firsts, number) - 1
        key = batch.base_offset, which
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._unpacked(batch, which)
            self._parts_bytes += len(part.data)
            while len(self._parts) > (PARTS if self._parts_bytes <= PARTS_BYTES else 1):
                self._parts_bytes -= len(self._parts.popitem(last=False)[1].data)
        else:
            self._parts.move_to_end(key)
        return part

    def _unpacked(self, batch: _Batch, which: int) -> _Part:
        begin, end = batch.positions[which], batch.positions[which + 1]
        packed = batch.segment.opened().read_at(end - begin, begin)
        header = read_header(packed)
        data = unpack_records(packed, 0, header, max_bytes=MAX_UNPACKED_BYTES)
        first, found = batch.firsts[which], spans(data, header.record_count)
        self.work += len(data) + len(found) * A_RECORD
        return _Part(batch.offsets[first : first + len(found)], header.compression, data, found)

    def _batch_at(self, place: int) -> _Batch:
        at = bisect_right(self._bases, place) - 1
        if at >= 0:
            batch = self._batches[self._bases[at]]
            if place <= batch.last_offset:
                self._batches.move_to_end(batch.base_offset)
                return batch
        batch = self._looked_up(place)
        self._batches[batch.base_offset] = batch
        insort(self._bases, batch.base_offset)
        if len(self._batches) > BATCHES:
            oldest, _ = self._batches.popitem(last=False)
            del self._bases[bisect_left(self._bases, oldest)]
        return batch

    def _looked_up(self, place: int) -> _Batch:
        segment = self._log.segments.from_offset(place)[0]
        position, header = next(segment.headers_from(place), (0, None))
        if header is None:
            raise DecodeError(f"no batch has the offset {place}, where something waits")
        held = Held(segment.opened().read_at(header.size_in_bytes, position), header)
        self.work += header.size_in_bytes >> 2
        parts = list(held.parts())
        firsts = array("Q", [first for first, _ in parts])
        positions = array("Q", [position + begin for _, begin in parts])
        positions.append(position + header.size_in_bytes - BEHIND_VALUE)
        offsets: Sequence[int] = range(held.base_offset, held.base_offset + held.count)
        if not held.has_own_places:
            offsets = [row.waited_at for row in held.rows()]
        return _Batch(held.base_offset, held.last_offset, segment, firsts, positions, offsets)
