"""Which part of a log can be compacted, how dirty it is, and which of its segments become one: Kafka's rules.

A log is clean up to where it was compacted last, `cleaned_to`, and dirty behind that. Compaction reads the keys of the
dirty part and rewrites both.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.log.config import INT64_MAX, LogConfig
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.protocol.value import Value


class Cleanable(Value, kw_only=True):
    """Keys of [`first_dirty`, `first_uncleanable`) count. `delay_ms` is the wait beyond `max.compaction.lag.ms`."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int

    @property
    def ratio(self) -> float:
        """Only dirty bytes that may be compacted count."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return bool(self.cleanable_bytes) and (self.delay_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio)


def cleanable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    start_offset: int,
    end_offset: int,
    stable_offset: int,
    cleaned_to: int,
    now_ms: int,
) -> Cleanable:
    """The active segment, records at or above `stable_offset`, and segments with a record younger than
    `min.compaction.lag.ms` cannot be compacted. May raise OSError.
    """
    first_dirty = cleaned_to if start_offset <= cleaned_to <= end_offset else start_offset
    sealed = segments[:-1]
    dirty = [segment for number, segment in enumerate(sealed) if segments[number + 1].base_offset > first_dirty]
    barrier = min(stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        candidates = (segment for segment in dirty if segment.base_offset < barrier)
        young = (segment.base_offset for segment in candidates if segment.largest_timestamp() > youngest)
        barrier = next(young, barrier)
    barrier = max(first_dirty, barrier)
    whole = [
        segment
        for number, segment in enumerate(sealed)
        if segments[number + 1].base_offset <= barrier and segment.base_offset < barrier
    ]
    first_uncleanable = segments[len(whole)].base_offset
    return Cleanable(
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        clean_bytes=sum(segment.size for segment in whole if segment.base_offset < first_dirty),
        cleanable_bytes=sum(
            segment.size
            for number, segment in enumerate(whole)
            if segments[number + 1].base_offset > min(first_dirty, first_uncleanable)
        ),
        delay_ms=_delay_ms(dirty, config, now_ms),
    )


def _delay_ms(dirty: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    if config.max_compaction_lag_ms >= INT64_MAX:
        return 0
    timestamps = [segment.rolling_timestamp() for segment in dirty if segment.size]
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=INT64_MAX)
    return max(0, now_ms - config.max_compaction_lag_ms - earliest)


class SegmentFacts(NamedTuple):
    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def groups(
    segments: Sequence[SegmentFacts], end_offset: int, *, segment_bytes: int, index_bytes: int
) -> list[list[SegmentFacts]]:
    """Each group surely fits into one segment."""
    found: list[list[SegmentFacts]] = []
    for number, segment in enumerate(segments):
        ends = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if found and _fits(found[-1], segment, ends - 1, segment_bytes, index_bytes):
            found[-1].append(segment)
        else:
            found.append([segment])
    return found


def _fits(
    group: list[SegmentFacts], segment: SegmentFacts, last_offset: int, segment_bytes: int, index_bytes: int
) -> bool:
    return (
        sum(one.size for one in group) + segment.size <= segment_bytes
        and sum(one.index_bytes for one in group) + segment.index_bytes <= index_bytes
        and sum(one.time_index_bytes for one in group) + segment.time_index_bytes <= index_bytes
        and (not segment.size or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
