"""From a log to the round of compaction that it needs."""

from bisect import bisect_left
from collections.abc import Generator
from typing import Final

from penstock.log.compaction.planning import Cleanable, SegmentFacts, cleanable
from penstock.log.compaction.rounds import Round
from penstock.log.partition_log import PartitionLog
from penstock.log.record_checks import max_unpacked_bytes
from penstock.log.segment import Segment
from penstock.protocol.value import Value

FACTS_AT_ONCE: Final = 10
"""Files of a segment may have to be opened for them, which takes 50 µs."""


class Buffers(Value, kw_only=True):
    """Limits of one round; of `dedupe_bytes` only the share `load_factor` is used."""

    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_bytes: int = 256 << 10


def look_at(log: PartitionLog, stable_offset: int, now_ms: int) -> Cleanable:
    """The log must be read in. Raises KafkaError."""
    with log.health.raising(f"looking for what to compact in {log.directory}"):
        return cleanable(
            log.segments,
            log.config,
            start_offset=log.log_start_offset,
            end_offset=log.log_end_offset,
            stable_offset=stable_offset,
            cleaned_to=log.cleaned_to,
            now_ms=now_ms,
        )


def prepare(
    log: PartitionLog, found: Cleanable, buffers: Buffers, now_ms: int
) -> Generator[None, None, tuple[Round, list[Segment]]]:
    """In steps, between which the log may be appended to, and lose its oldest segments. Returns the segments that the
    round reads, too. Raises KafkaError.
    """
    config, there, segments, facts = log.config, log.segments, list[Segment](), list[SegmentFacts]()
    with log.health.raising(f"compacting {log.directory}"):
        for segment in there[: bisect_left(there.base_offsets, found.first_uncleanable)]:
            if segment in there:
                segments.append(segment)
                facts.append(_facts(segment))
                if len(facts) % FACTS_AT_ONCE == 0:
                    yield
    gone = next((number for number, segment in enumerate(segments) if segment in there), len(segments))
    del segments[:gone], facts[:gone]
    return Round(
        directory=log.directory,
        segments=tuple(facts),
        first_dirty=found.first_dirty,
        end_offset=found.first_uncleanable,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        last_offsets={one.producer_id: one.last_offset for one in log.producers if one.batches},
        marker_epochs={one.producer_id: one.epoch for one in log.producers if not one.batches},
        aborted=tuple(log.load().aborted.between(0, found.first_uncleanable)),
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_unpacked_bytes=max_unpacked_bytes(config),
        dedupe_bytes=buffers.dedupe_bytes,
        load_factor=buffers.load_factor,
        io_bytes=buffers.io_bytes,
    ), segments


def _facts(segment: Segment) -> SegmentFacts:
    offsets, times = segment.indexes()
    return SegmentFacts(segment.base_offset, segment.size, offsets.entries.size_bytes, times.entries.size_bytes)
