"""Where in a log a point in time lies: what ListOffsets asks for.

The records of the batch that holds it are looked at one after the other. Nobody has looked at them before (decision
0202), so they may make no sense or unpack to far too much: then the batch's first record stands for the one that was
asked for, and a reader who begins there misses nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.log.segment import Segment
from penstock.log.time_index import NO_TIMESTAMP
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, iterate_records

MAX_UNPACKED_BYTES = 64 << 20
MAX_UNPACKED_RECORDS = 1_000_000
"""A batch of more records, or more bytes, is not looked into."""


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_timestamp(segments: Sequence[Segment], timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record, from `start_offset` on, whose timestamp is at least this one."""
    for segment in segments:
        if segment.largest_timestamp() < timestamp_ms:
            continue
        first = max(segment.indexes()[1].offset_before(timestamp_ms), start_offset)
        for position, header in segment.headers_from(first):
            if header.max_timestamp < timestamp_ms:
                continue
            found = _find_in_batch(segment, position, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment], start_offset: int) -> TimestampOffset | None:
    """The first record that has the latest timestamp of all (KIP-734)."""
    latest = max((segment.largest_timestamp() for segment in segments), default=NO_TIMESTAMP)
    if latest == NO_TIMESTAMP:
        return None
    return find_timestamp(segments, latest, start_offset)


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    epoch = header.partition_leader_epoch
    try:
        for record in _records(segment, position, header):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return TimestampOffset(record.timestamp_ms, record.offset, epoch)
    except DecodeError:
        return TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), epoch)
    return None


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    if header.record_count > MAX_UNPACKED_RECORDS:
        raise DecodeError(f"a batch of {header.record_count} records")
    batch = segment.opened().read_at(header.size_in_bytes, position)
    return iterate_records(batch, 0, header, max_bytes=MAX_UNPACKED_BYTES)
