"""Which of a log's oldest segments may go: by log start offset, by time, by size, as Kafka decides."""

from collections.abc import Sequence

from penstock.log.config import LogConfig
from penstock.log.segment import Segment


def deletable_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    end_offset: int,
    now_ms: int,
) -> int:
    """How many segments, counted from the oldest, are to be deleted; all of them means that a new one has to be
    rolled first.

    Nothing at or above the high watermark goes, and an empty active segment stays.
    """
    count = 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for number, segment in enumerate(segments):
        is_active = number + 1 == len(segments)
        upper_offset = end_offset if is_active else segments[number + 1].base_offset
        if upper_offset > high_watermark or (is_active and not segment.size):
            break
        if config.deletes and config.retention_bytes >= 0 and excess >= segment.size:
            excess -= segment.size
        elif not (upper_offset <= log_start_offset and not is_active) and not _is_expired(segment, config, now_ms):
            break
        count += 1
    return count


def _is_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    return config.deletes and config.retention_ms >= 0 and now_ms - segment.retention_timestamp() > config.retention_ms


def retention_deadline_ms(segments: Sequence[Segment], config: LogConfig) -> int | None:
    """When the oldest segment expires by time; None if it never does."""
    if not config.deletes or config.retention_ms < 0 or not segments[0].size:
        return None
    return segments[0].retention_timestamp() + config.retention_ms + 1
