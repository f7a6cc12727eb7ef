"""Where in a log a point in time lies: what ListOffsets asks for.

The records of the batch that holds it are looked at one after the other. No broker has read them before (decision
0202), so they may make no sense or unpack to far too much: then the batch's first record stands for the one that was
asked for, and a reader who begins there misses nothing.

A look at a million records takes seconds, so it is a generator: it yields None after each `RECORDS_A_STEP`, and what
can be done in a thread (reading and unpacking a batch) as a function, whose result it is to be sent. The log may change
in between: an open file stays readable, and segments that are gone are passed over.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial

from penstock.log.disk import OpenFile
from penstock.log.scan import batch_headers
from penstock.log.segment import Segment
from penstock.log.time_index import NO_TIMESTAMP
from penstock.protocol.batch import COMPRESSION_MASK, BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_unpacked, unpack_records
from penstock.protocol.value import Value

MAX_UNPACKED_BYTES = 64 << 20
MAX_UNPACKED_RECORDS = 1_000_000
"""A batch of more records, or more bytes, is not looked into."""
RECORDS_A_STEP = 250
BATCHES_A_STEP = 100
UNPACKED_AT_ONCE_BYTES = 64 << 10
"""A batch of no more bytes, not compressed, is not worth a thread."""


class TimestampOffset(Value):
    timestamp_ms: int
    offset: int
    leader_epoch: int


Work = Callable[[], bytes]
Search = Generator[Work | None, bytes | None, TimestampOffset | None]


def find_timestamp(segments: Sequence[Segment], timestamp_ms: int, start_offset: int) -> Search:
    """The first record, from `start_offset` on, whose timestamp is at least this one."""
    for segment in list(segments):
        if segment not in segments or segment.largest_timestamp() < timestamp_ms:
            continue
        first = max(segment.indexes()[1].offset_before(timestamp_ms), start_offset)
        begin = segment.locate(first)
        if begin is None:
            continue
        file = segment.opened()
        for number, (position, header) in enumerate(batch_headers(file, begin[0], segment.size)):
            if number % BATCHES_A_STEP == BATCHES_A_STEP - 1:
                yield None
            if header.max_timestamp < timestamp_ms:
                continue
            found = yield from _find_in_batch(file, position, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment], start_offset: int) -> Search:
    """The first record that has the latest timestamp of all (KIP-734)."""
    latest = max((segment.largest_timestamp() for segment in segments), default=NO_TIMESTAMP)
    if latest == NO_TIMESTAMP:
        return None
    return (yield from find_timestamp(segments, latest, start_offset))


def _find_in_batch(file: OpenFile, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int) -> Search:
    epoch = header.partition_leader_epoch
    try:
        if header.record_count > MAX_UNPACKED_RECORDS:
            raise DecodeError(f"a batch of {header.record_count} records")
        if header.attributes & COMPRESSION_MASK or header.batch_length > UNPACKED_AT_ONCE_BYTES:
            data = yield partial(_unpack, file, position, header)
            assert data is not None
        else:
            data = _unpack(file, position, header)
        for number, record in enumerate(iterate_unpacked(data, header)):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return TimestampOffset(record.timestamp_ms, record.offset, epoch)
            if number % RECORDS_A_STEP == RECORDS_A_STEP - 1:
                yield None
    except DecodeError:
        return TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), epoch)
    return None


def _unpack(file: OpenFile, position: int, header: BatchHeader) -> bytes:
    return unpack_records(file.read_at(header.size_in_bytes, position), 0, header, max_bytes=MAX_UNPACKED_BYTES)
