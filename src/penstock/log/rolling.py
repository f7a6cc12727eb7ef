"""When a batch needs a new segment: size, age by the batches' timestamps, a full index, offsets that do not fit."""

from zlib import crc32

from penstock.log.config import LogConfig
from penstock.log.offset_index import OFFSET_ENTRY
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.log.time_index import TIME_ENTRY


def must_roll(
    segment: Segment, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int
) -> bool:
    """The age is the time between the first batch's timestamp and the new one's; where the first batch has none, the
    time since the segment was created.
    """
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if not segment.size:
        return False
    if segment.size + size > config.segment_bytes:
        return True
    if _age_ms(segment, max_timestamp, now_ms) > config.longest_segment_ms - _jitter_ms(segment, config):
        return True
    offsets, times = segment.indexes()
    return (
        len(offsets.entries) >= config.segment_index_bytes // OFFSET_ENTRY.size
        or len(times.entries) >= config.segment_index_bytes // TIME_ENTRY.size - 1
    )


class Room:
    """Within all three limits `must_roll` need not be asked: the batch ends at `last_offset` at the latest, the segment
    then has at most `size` bytes, and no record is later than `timestamp`. It holds as long as the segment and the
    config are these, and the segment only grows.
    """

    __slots__ = ("config", "last_offset", "segment", "size", "timestamp")

    def __init__(self, segment: Segment | None = None, config: LogConfig | None = None) -> None:
        """Without a segment nothing surely fits; a segment must not be empty."""
        self.segment = segment
        self.config = config
        self.last_offset = self.size = self.timestamp = -1
        if segment is None or config is None or segment.rolling_timestamp() < 0:
            return
        offsets, times = segment.indexes()
        entries_left = min(
            config.segment_index_bytes // OFFSET_ENTRY.size - len(offsets.entries),
            config.segment_index_bytes // TIME_ENTRY.size - 1 - len(times.entries),
        )
        # Entries are more than the interval apart, so this many bytes cannot fill an index.
        indexed_bytes = (entries_left - 1) * config.index_interval_bytes
        self.last_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        self.size = min(config.segment_bytes, segment.size + indexed_bytes)
        self.timestamp = segment.rolling_timestamp() + config.longest_segment_ms - _jitter_ms(segment, config)


def _age_ms(segment: Segment, max_timestamp: int, now_ms: int) -> int:
    first = segment.first_timestamp
    if first is None:
        first = segment.rolling_timestamp()
    if first >= 0:
        return max_timestamp - first
    if segment.created_ms is None:
        segment.created_ms = now_ms
    return now_ms - segment.created_ms


def _jitter_ms(segment: Segment, config: LogConfig) -> int:
    """Spreads the rolls of many partitions; always the same for one segment."""
    if not config.segment_jitter_ms:
        return 0
    return crc32(segment.path.encode()) % config.segment_jitter_ms
