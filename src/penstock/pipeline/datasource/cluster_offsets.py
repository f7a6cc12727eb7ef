"""From what options say to what a cluster has: partitions of a subscription, offsets at boundaries, lost data."""

import logging
import time
from collections.abc import Iterable, Mapping
from uuid import UUID

from penstock.client.blocking import BlockingCluster, TopicPartition, UnknownTopicError
from penstock.client.blocking.offsets import committed_offsets, list_offsets
from penstock.client.values import EARLIEST, LATEST, NO_OFFSET, IsolationLevel
from penstock.pipeline.datasource.offset_ranges import OffsetRange, Offsets
from penstock.pipeline.datasource.stream_position import StreamPosition, ids_of
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.boundaries import AtOffsets, AtTimestamps, Boundary, Word
from penstock.pipeline.options.source import SourceOptions

logger = logging.getLogger(__name__)
SHOWN = 5
LOOKS_AT_A_STEP_BACK, STEP_BACK_PAUSE_MS = 3, 1_000
"""A new leader may not know yet how far its partition is committed: an end that went back is looked at again."""


class SourceCluster:
    """A cluster as one source sees it. With failOnDataLoss=false, topics that vanish meanwhile are left out."""

    def __init__(self, cluster: BlockingCluster, source: SourceOptions) -> None:
        self._cluster, self._source = cluster, source

    def partitions(self, *, may_be_missing: bool = False) -> list[TopicPartition]:
        """Of the subscription, as it is now; an error for missing ones, unless they may be missing."""
        subscription = self._source.subscription
        named = subscription.topics or {topic: None for topic, _ in subscription.partitions}
        if subscription.pattern is not None or may_be_missing:
            topics = self._cluster.partitions_there(named) if named else self._cluster.all_topics()
            return [partition for partition in _flat(topics) if subscription.has(partition)]
        there = _flat(self._cluster.partitions_of(named))
        missing = set(subscription.partitions).difference(there)
        if missing:
            raise PipelineError(f"Option assign: {_named(missing)} does not exist.")
        return list(subscription.partitions) or there

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        return ids_of(partitions, self._cluster.topic_ids)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets | None = None) -> Offsets:
        """High watermarks; last stable offsets for readers of committed records. `known` are earlier ones."""
        wanted, before = dict.fromkeys(partitions, LATEST), known or {}
        found = self._ends(wanted, before)
        for _ in range(LOOKS_AT_A_STEP_BACK - 1):
            if not _gone_back(found, before):
                break
            time.sleep(STEP_BACK_PAUSE_MS / 1000)
            found = self._ends(wanted, before)
        return found

    def _ends(self, wanted: Mapping[TopicPartition, int], before: Offsets) -> Offsets:
        """A query that has read what was not committed, and now reads what is, may be beyond the last stable offset:
        it waits there, and nothing is lost as long as the log goes so far.
        """
        found = self._listed(wanted)
        beyond = _gone_back(found, before)
        if beyond and self._source.isolation is IsolationLevel.READ_COMMITTED:
            ends = self._listed(dict.fromkeys(beyond, LATEST), IsolationLevel.READ_UNCOMMITTED)
            found |= {partition: min(before[partition], end) for partition, end in ends.items()}
        return found

    def _listed(self, timestamps_ms: Mapping[TopicPartition, int], isolation: IsolationLevel | None = None) -> Offsets:
        wanted = dict(timestamps_ms)
        while wanted:  # each failure takes a topic out
            try:
                places = list_offsets(self._cluster, wanted, self._source.isolation if isolation is None else isolation)
            except UnknownTopicError as error:
                if self._source.fail_on_data_loss:
                    raise
                wanted = {partition: at for partition, at in wanted.items() if partition[0] != error.topic}
            else:
                return {partition: place.offset for partition, place in places.items()}
        return {}

    # Boundaries

    def first_position(self) -> StreamPosition:
        """Where a stream begins that has no checkpoint."""
        partitions = self.partitions()
        topic_ids = self.topic_ids(partitions)
        return StreamPosition(self.at_boundary(partitions, self._source.starting, is_start=True), topic_ids)

    def at_boundary(self, partitions: list[TopicPartition], where: Boundary, *, is_start: bool) -> Offsets:
        if isinstance(where, AtOffsets):
            return self._at_offsets(partitions, where, is_start)
        if isinstance(where, AtTimestamps):
            return self._at_timestamps(partitions, where, is_start)
        if where == Word.EARLIEST:
            return self.earliest(partitions)
        if where == Word.LATEST:
            return self.latest(partitions)
        assert self._source.group is not None
        committed = committed_offsets(self._cluster, self._source.group, partitions)
        return committed | self.earliest(partition for partition in partitions if partition not in committed)

    def _at_offsets(self, partitions: list[TopicPartition], where: AtOffsets, is_start: bool) -> Offsets:
        _check_same("startingOffsets" if is_start else "endingOffsets", where.offsets, partitions)
        words = {partition: offset for partition, offset in where.offsets.items() if offset in (EARLIEST, LATEST)}
        return dict(where.offsets) | self._listed(words)

    def _at_timestamps(self, partitions: list[TopicPartition], where: AtTimestamps, is_start: bool) -> Offsets:
        if where.everywhere_ms is not None:
            wanted: Mapping[TopicPartition, int] = dict.fromkeys(partitions, where.everywhere_ms)
        else:
            wanted = where.per_partition_ms
            _check_same("startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp", wanted, partitions)
        found = self._listed(wanted)
        without = [partition for partition, offset in found.items() if offset == NO_OFFSET]
        if without and is_start and not self._source.latest_where_no_timestamp:
            raise PipelineError(
                f"No record is as new as the starting timestamp in {_named(without)}; "
                "set startingOffsetsByTimestampStrategy=latest to start at the end there."
            )
        return found | self.latest(without)

    # Lost data

    def starts(self, begin: StreamPosition, end: StreamPosition) -> Offsets:
        """Where a batch begins in each partition of its end: partitions that are new are read from their beginning."""
        carried = begin.carried(end.topic_ids)
        new = [partition for partition in end.offsets if partition not in carried]
        vanished = {partition: end.offsets[partition] for partition in new}
        return carried | vanished | self.earliest(new)

    def report_losses(self, begin: StreamPosition, end: StreamPosition) -> None:
        """Compare two positions: topics that are gone or were created again, ends that went back, late beginnings."""
        recreated = begin.recreated(end.topic_ids)
        for topic in sorted(recreated):
            report_loss(self._source, f"topic {topic!r} was deleted and created again; what was unread before is gone")
        for partition, offset in sorted(begin.carried(end.topic_ids).items()):
            now = end.offsets.get(partition)
            if now is None:
                report_loss(self._source, f"all from offset {offset} on of {_name(partition)} is gone")
            elif now < offset:
                report_loss(self._source, f"offsets {now} to {offset - 1} of {_name(partition)} are gone")
        added = [item for item in end.offsets if item not in begin.offsets and item[0] not in recreated]
        for partition, first in sorted(self.earliest(added).items()):
            if first:
                report_loss(self._source, f"offsets 0 to {first - 1} of {_name(partition)}, which is new, are gone")

    def still_there(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Without the ranges of topics that were deleted since they were planned, or created again."""
        now = set(_flat(self._cluster.partitions_there({wanted.topic: None for wanted in ranges})))
        current = self.topic_ids(now)
        kept: list[OffsetRange] = []
        for wanted in ranges:
            if wanted.key in now and wanted.topic_id in (None, current.get(wanted.topic)):
                kept.append(wanted)
            else:
                report_loss(self._source, f"{wanted} is gone with its topic")
        return kept

    def without_lost(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Compare with the log start offsets: records before them are lost. Gaps within a log are no loss."""
        begins = self.earliest(wanted.key for wanted in ranges)
        kept: list[OffsetRange] = []
        for wanted in ranges:
            begin = min(begins.get(wanted.key, wanted.end), wanted.end)
            if begin > wanted.start:
                report_loss(self._source, f"{wanted.replace(end=begin)} are gone")
                wanted = wanted.replace(start=begin)
            if wanted.size:
                kept.append(wanted)
        return kept


def report_loss(source: SourceOptions, what: str) -> None:
    """PipelineError, or a line in the log where data may be lost (failOnDataLoss=false)."""
    if source.fail_on_data_loss:
        raise PipelineError(f"Data is lost: {what}. Set failOnDataLoss=false to go on without it.")
    logger.warning("Data is lost: %s.", what)


def _gone_back(found: Offsets, before: Offsets) -> list[TopicPartition]:
    return [partition for partition, offset in before.items() if found.get(partition, offset) < offset]


def _check_same(option: str, wanted: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    missing, unknown = set(partitions) - set(wanted), set(wanted) - set(partitions)
    if missing:
        raise PipelineError(f"Option {option} says nothing about {_named(missing)}; give each partition a value.")
    if unknown:
        raise PipelineError(f"Option {option} names {_named(unknown)}, which is not among what is read.")


def _flat(topics: Mapping[str, list[int]]) -> list[TopicPartition]:
    return [(topic, index) for topic, indexes in topics.items() for index in indexes]


def _name(partition: TopicPartition) -> str:
    return f"partition {partition[1]} of topic {partition[0]!r}"


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = [_name(partition) for partition in sorted(partitions)]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
