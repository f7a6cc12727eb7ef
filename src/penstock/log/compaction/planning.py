"""Which part of a log can be compacted, how dirty it is, and which of its segments become one: Kafka's rules.

A log is clean up to where it was compacted last, `cleaned_to`, and dirty behind that. Compaction reads the keys of the
dirty part and rewrites both.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from penstock.log.config import INT64_MAX, LogConfig
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.log.segments import Segments
from penstock.protocol.value import Value

_size = attrgetter("size")


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
    segments: Segments,
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
    dirty = segments[segments.number_of(first_dirty) : -1]
    barrier = min(stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        candidates = (segment for segment in dirty if segment.base_offset < barrier)
        young = (segment.base_offset for segment in candidates if segment.largest_timestamp() > youngest)
        barrier = next(young, barrier)
    barrier = max(first_dirty, barrier)
    first_not = segments.number_of(barrier)
    first_uncleanable = segments[first_not].base_offset
    before = bisect_left(segments.base_offsets, first_dirty, hi=first_not)
    from_there = segments.number_of(min(first_dirty, first_uncleanable))
    return Cleanable(
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        clean_bytes=sum(map(_size, segments[:before])),
        cleanable_bytes=sum(map(_size, segments[from_there:first_not])),
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
    size = of_index = of_time_index = 0
    for number, segment in enumerate(segments):
        ends = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        size, of_index, of_time_index = (
            size + segment.size,
            of_index + segment.index_bytes,
            of_time_index + segment.time_index_bytes,
        )
        fits = size <= segment_bytes and max(of_index, of_time_index) <= index_bytes
        if fits and found and (not segment.size or ends - 1 - found[-1][0].base_offset <= MAX_RELATIVE_OFFSET):
            found[-1].append(segment)
        else:
            found.append([segment])
            size, of_index, of_time_index = segment.size, segment.index_bytes, segment.time_index_bytes
    return found
