"""What a fetch brought, cut into chunks that a decoder can walk: batch headers are read here, records are not.

A chunk is one buffer and a table with one line (a span) per batch in it, of the columns below. Uncompressed batches are
decoded where they lie in the response; compressed ones are unpacked into a buffer of the chunk's own. Batches that hold
nothing for the reader (control batches, aborted transactions, batches outside the range) get no span.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.protocol.batch import HEADER_SIZE, BatchHeader, check_crc
from penstock.protocol.compression import Compression, decompress
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.protocol.value import Value

BEGIN, END, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP, APPEND_TIMESTAMP, IS_APPEND_TIME, RECORD_COUNT = range(8)
"""The columns of a span. Positions count from the start of the chunk's buffer; END is one past the last byte."""

Integers = npt.NDArray[np.int64]

CHUNK_BYTES = 4 << 20
MAX_UNPACKED_BYTES = 1 << 30
"""The most that one batch may unpack to: Arrow's 32-bit offsets would take twice as much."""
MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each at least."""
LARGEST_OFFSET = (1 << 63) - 1
ABORT_MARKER = 0


class Chunk(Value):
    """Batches that are decoded in one go. `spans` has a line per batch and 8 columns."""

    buffer: memoryview
    spans: Integers

    @property
    def record_count(self) -> int:
        """Of its batches, before any trimming."""
        return int(self.spans[:, RECORD_COUNT].sum())


class LocatedBatch(Value):
    position: int
    header: BatchHeader


def whole_batches(records: memoryview) -> Iterator[LocatedBatch]:
    """Batches in order up to the first that the broker cut short, as it does at the end of a response.

    Raises DecodeError for a batch that is whole and yet not what it claims to be.
    """
    for position, header in iterate_batches(records):
        _check(records, position, header)
        yield LocatedBatch(position, header)


def _check(records: memoryview, position: int, header: BatchHeader) -> None:
    where = f"the batch at offset {header.base_offset}"
    if not check_crc(records, position, header):
        raise DecodeError(f"{where} fails its checksum")
    if header.base_offset < 0 or not 0 <= header.last_offset_delta < LARGEST_OFFSET - header.base_offset:
        raise DecodeError(f"{where} claims impossible offsets")
    if header.record_count < 0:
        raise DecodeError(f"{where} claims {header.record_count} records")


class AbortedFilter:
    """Tells which batches belong to aborted transactions; batches must be shown to it in the order of their offsets.

    Two states per producer: "clean" and "void". A listed transaction's first offset makes it void, its abort marker
    makes it clean (KIP-98). Transactions are listed as Fetch does: a producer's id, and the first offset.
    """

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(transactions, key=lambda transaction: -transaction[1])
        self._void: dict[int, None] = {}

    def hides(self, batch: LocatedBatch, records: memoryview) -> bool:
        """Whether a reader must not see this batch; control batches are always hidden."""
        header = batch.header
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._void[self._coming.pop()[0]] = None
        if header.is_control:
            if header.producer_id in self._void and _is_abort_marker(batch, records):
                del self._void[header.producer_id]
            return True
        return header.is_transactional and header.producer_id in self._void


def _is_abort_marker(batch: LocatedBatch, records: memoryview) -> bool:
    for record in decode_batch(records, batch.position):
        key = record.key or b""
        return len(key) >= 4 and int.from_bytes(key[2:4], "big") == ABORT_MARKER
    return False


class _ChunkBuilder:
    """Spans over one buffer: the response itself, or what its compressed batches unpack to."""

    def __init__(self, response: memoryview) -> None:
        self._response = response
        self._spans: list[tuple[int, ...]] = []
        self._unpacked: list[memoryview] = []
        self._size = 0

    def fits(self, batch: LocatedBatch) -> bool:
        is_compressed = batch.header.compression != Compression.NONE
        return not self._spans or (is_compressed == bool(self._unpacked) and self._size < CHUNK_BYTES)

    def add(self, batch: LocatedBatch) -> None:
        header = batch.header
        begin, end = batch.position + HEADER_SIZE, batch.position + header.size_in_bytes
        if header.compression != Compression.NONE:
            unpacked = memoryview(decompress(header.compression, self._response[begin:end], MAX_UNPACKED_BYTES))
            begin, end = self._size, self._size + unpacked.nbytes
            self._unpacked.append(unpacked)
        self._size += end - begin
        if header.record_count > (end - begin) // MIN_RECORD_BYTES:
            raise DecodeError(f"the batch at offset {header.base_offset} claims more records than its bytes can hold")
        self._spans.append(
            (
                begin,
                end,
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                header.max_timestamp,
                int(header.is_log_append_time),
                header.record_count,
            )
        )

    def take(self) -> Chunk | None:
        if not self._spans:
            return None
        buffer = memoryview(b"".join(self._unpacked)) if self._unpacked else self._response
        chunk = Chunk(buffer, np.array(self._spans, np.int64))
        self._spans, self._unpacked, self._size = [], [], 0
        return chunk


def chunks(
    records: memoryview, batches: Sequence[LocatedBatch], first_offset: int, end_offset: int, aborted: AbortedFilter
) -> Iterator[Chunk]:
    """Cut a response's batches into chunks of about CHUNK_BYTES, without those that hold nothing in the range."""
    builder = _ChunkBuilder(records)
    for batch in batches:
        header = batch.header
        is_outside = header.last_offset < first_offset or header.base_offset >= end_offset
        if aborted.hides(batch, records) or is_outside or not header.record_count:
            continue
        if not builder.fits(batch):
            chunk = builder.take()
            assert chunk is not None
            yield chunk
        builder.add(batch)
    chunk = builder.take()
    if chunk is not None:
        yield chunk
