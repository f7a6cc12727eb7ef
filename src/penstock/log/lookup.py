"""Where in a log a point in time lies: what ListOffsets asks for."""

from typing import NamedTuple

from penstock.log.segment import Segment
from penstock.log.time_index import NO_TIMESTAMP
from penstock.protocol.batch import BatchHeader
from penstock.protocol.records import Record, decode_batch

MAX_UNPACKED_BYTES = 1 << 30
"""A batch that we wrote ourselves may unpack to this much when a look-up needs its records."""


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_timestamp(segments: list[Segment], timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record, from `start_offset` on, whose timestamp is at least this one."""
    for segment in segments:
        if segment.largest_timestamp() < timestamp_ms:
            continue
        first = max(segment.indexes()[1].offset_before(timestamp_ms), start_offset)
        for position, header in segment.headers_from(first):
            if header.max_timestamp < timestamp_ms:
                continue
            for record in _records(segment, position, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
    return None


def find_max_timestamp(segments: list[Segment], start_offset: int) -> TimestampOffset | None:
    """The first record that has the latest timestamp of all (KIP-734)."""
    latest = max((segment.largest_timestamp() for segment in segments), default=NO_TIMESTAMP)
    if latest == NO_TIMESTAMP:
        return None
    return find_timestamp(segments, latest, start_offset)


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    batch = segment.opened().read_at(header.size_in_bytes, position)
    return decode_batch(batch, 0, max_bytes=MAX_UNPACKED_BYTES)
