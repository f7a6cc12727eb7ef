"""Where in a log a point in time lies: what ListOffsets asks for.

The records of the batch that holds it are looked at one after the other. No broker has read them before (decision
0202), so they may make no sense, unpack to far too much, or be older than the header of their batch says: then the
batch's first record stands for the one that was asked for, and a reader who begins there misses nothing. So at most two
batches are looked into, however many claim what they do not have.

Many segments, batches or records take long, so a look-up is a generator: it yields None where others may have their
turn, and a look into a batch, as a rule, as work for a thread, whose result it is to be sent. What a batch unpacks to
ends with that work, so a node that has one such work done at a time holds one such buffer. The log may change in
between: an open file stays readable, and segments that are gone are passed over.
"""

from collections.abc import Callable, Generator
from functools import partial

from penstock.log.disk import OpenFile
from penstock.log.scan import batch_headers
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.log.time_index import NO_TIMESTAMP
from penstock.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader
from penstock.protocol.compression import decompress
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_times
from penstock.protocol.value import Value

MAX_UNPACKED_BYTES = 16 << 20
MAX_UNPACKED_RECORDS = 1_000_000
"""A batch of more records, or more bytes, is not looked into."""
SEGMENTS_A_STEP = 50
BATCHES_A_STEP = 100
LOOKED_INTO_AT_ONCE_BYTES = 4 << 10
"""A batch of no more bytes, not compressed, is not worth a thread."""


class TimestampOffset(Value):
    timestamp_ms: int
    offset: int
    leader_epoch: int


Work = Callable[[], TimestampOffset | None]
Search = Generator[Work | None, TimestampOffset | None, TimestampOffset | None]


def find_timestamp(segments: Segments, timestamp_ms: int, start_offset: int) -> Search:
    """The first record, from `start_offset` on, whose timestamp is at least this one."""
    for number, segment in enumerate(segments.from_offset(start_offset), 1):
        if number % SEGMENTS_A_STEP == 0:
            yield None
        if segment in segments and segment.largest_timestamp() >= timestamp_ms:
            found = yield from _find_in_segment(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Segments, start_offset: int) -> Search:
    """The first record that has the latest timestamp of all (KIP-734)."""
    latest = NO_TIMESTAMP
    for number, segment in enumerate(segments.from_offset(start_offset), 1):
        if number % SEGMENTS_A_STEP == 0:
            yield None
        if segment in segments:
            latest = max(latest, segment.largest_timestamp())
    return None if latest == NO_TIMESTAMP else (yield from find_timestamp(segments, latest, start_offset))


def _find_in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> Search:
    begin = segment.locate(max(segment.indexes()[1].offset_before(timestamp_ms), start_offset))
    if begin is None:
        return None
    file = segment.opened()
    for number, (position, header) in enumerate(batch_headers(file, begin[0], segment.size), 1):
        if number % BATCHES_A_STEP == 0:
            yield None
        if header.max_timestamp < timestamp_ms or not header.record_count:
            continue
        look: Work = partial(_find_in_batch, file, position, header, timestamp_ms, start_offset)
        is_large = header.attributes & COMPRESSION_MASK or header.batch_length > LOOKED_INTO_AT_ONCE_BYTES
        found = (yield look) if is_large else look()
        if found is not None:
            return found
    return None


def _find_in_batch(
    file: OpenFile, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    epoch = header.partition_leader_epoch
    try:
        if header.record_count > MAX_UNPACKED_RECORDS:
            raise DecodeError(f"a batch of {header.record_count} records")
        packed = memoryview(file.read_at(header.size_in_bytes, position))[HEADER_SIZE:]
        for timestamp, offset in iterate_times(decompress(header.compression, packed, MAX_UNPACKED_BYTES), header):
            if timestamp >= timestamp_ms and offset >= start_offset:
                return TimestampOffset(timestamp, offset, epoch)
        if header.base_offset < start_offset:  # the record of that time may lie before
            return None
    except DecodeError:
        pass
    return TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), epoch)
