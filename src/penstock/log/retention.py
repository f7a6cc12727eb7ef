"""Which of a log's oldest segments may go: by log start offset, time and size, as Kafka decides. And when to look."""

from collections.abc import Sequence
from itertools import islice
from zlib import crc32

from penstock.log.config import LogConfig
from penstock.log.log_content import LogContent
from penstock.log.segment import Segment

CHECK_INTERVAL_MS = 300_000
"""As Kafka's `log.retention.check.interval.ms`."""
FOR_EVER_MS = 1 << 63
SEGMENTS_AT_ONCE = 3
"""Their files are renamed, which takes some 100 µs a segment, and where threads have work each rename lets one of them
in: the event loop waits for all of that.
"""

GONE_FOR_A_NEW_ONE = 2
"""So many segments without a readable record go whenever an append begins one: however fast somebody makes and empties
small ones, what is there to go grows no further.
"""


def deletable_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    size_bytes: int,
    log_start_offset: int,
    high_watermark: int,
    end_offset: int,
    now_ms: int,
) -> int:
    """SEGMENTS_AT_ONCE at most; `size_bytes` is what all segments have, as no more of them are looked at: there may be
    very many. If all are to be deleted, a new one has to be rolled first. Nothing at or above the high watermark goes,
    and an empty active segment stays.
    """
    count = 0
    excess = size_bytes - config.retention_bytes
    for number, segment in enumerate(islice(segments, SEGMENTS_AT_ONCE)):
        is_active = number + 1 == len(segments)
        upper_offset = end_offset if is_active else segments[number + 1].base_offset
        if upper_offset > high_watermark or (is_active and not segment.size):
            break
        is_too_much = config.deletes and config.retention_bytes >= 0 and excess >= segment.size
        is_before_start = upper_offset <= log_start_offset and not is_active
        if not (is_too_much or is_before_start or _is_expired(segment, config, now_ms)):
            break
        excess -= segment.size
        count += 1
    return count


def _is_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    return config.deletes and config.retention_ms >= 0 and now_ms - segment.retention_timestamp() > config.retention_ms


def next_look_ms(content: LogContent | None, config: LogConfig, directory: str, now_ms: int) -> int:
    """At the latest after CHECK_INTERVAL_MS, so no append need bring it forward. A log whose content is not read
    spreads its first look over the interval, by the name of its directory.
    """
    deadline = now_ms + min(CHECK_INTERVAL_MS, config.flush_ms)
    if content is None:
        return deadline + crc32(directory.encode()) % CHECK_INTERVAL_MS
    if content.dirty_since_ms is not None:
        deadline = min(deadline, content.dirty_since_ms + config.flush_ms)
    expiry = _expiry_ms(content.segments, config)
    return max(now_ms, deadline if expiry is None else min(deadline, expiry))


def rests_until_ms(content: LogContent | None, config: LogConfig) -> int | None:
    """Nothing is due before that time, as long as the log neither grows nor is cut, which may be for ever; None where
    that is not known, or where time is not all that counts.
    """
    if content is None or config.flush_ms < CHECK_INTERVAL_MS:
        return None
    if (config.deletes and config.is_compacted) or config.retention_consumed or config.penstock_delay_enable:
        return None
    if content.recovery_point < content.segments.active.base_offset:
        return None  # sealed segments are to be flushed
    flush_ms = None if content.dirty_since_ms is None else content.dirty_since_ms + config.flush_ms
    producers_ms = content.producers.next_expiry_ms(config.producer_id_expiration_ms)
    due = flush_ms, producers_ms, _expiry_ms(content.segments, config)
    return min((one for one in due if one is not None), default=FOR_EVER_MS)


def _expiry_ms(segments: Sequence[Segment], config: LogConfig) -> int | None:
    """None if the oldest segment never expires by time."""
    if not config.deletes or config.retention_ms < 0 or not segments[0].size:
        return None
    return segments[0].retention_timestamp() + config.retention_ms + 1
