"""From what options say to what a cluster has: partitions of a subscription, offsets at boundaries, lost data."""

import logging
import re
from collections.abc import Iterable, Mapping

from penstock.client.blocking import BlockingCluster, TopicPartition
from penstock.client.blocking_offsets import EARLIEST, LATEST, NO_OFFSET, committed_offsets, list_offsets
from penstock.pipeline.boundaries import AtOffsets, AtTimestamps, Boundary, Subscription, Word
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.offset_ranges import OffsetRange, Offsets
from penstock.pipeline.source_options import SourceOptions

logger = logging.getLogger(__name__)
SHOWN = 5


def partitions_of(
    cluster: BlockingCluster, subscription: Subscription, *, may_be_missing: bool = False
) -> list[TopicPartition]:
    """All partitions that a subscription is about now; an error for what is not there, unless that is allowed."""
    if may_be_missing:
        return [partition for partition in _flat(cluster.all_topics(with_internal=True)) if subscription.has(partition)]
    if subscription.pattern is not None:
        try:
            pattern = re.compile(subscription.pattern)
        except re.error as error:
            raise PipelineError(f"Option subscribePattern={subscription.pattern}: {error}.") from None
        found = {topic: indexes for topic, indexes in cluster.all_topics().items() if pattern.fullmatch(topic)}
        if not found:
            raise PipelineError(f"No topic matches subscribePattern={subscription.pattern}.")
        return _flat(found)
    if not subscription.partitions:
        return _flat(cluster.partitions_of(subscription.topics))
    known = set(_flat(cluster.partitions_of({topic: None for topic, _ in subscription.partitions})))
    missing = [partition for partition in subscription.partitions if partition not in known]
    if missing:
        raise PipelineError(f"Option assign: {_named(missing)} does not exist.")
    return list(subscription.partitions)


def _flat(topics: Mapping[str, list[int]]) -> list[TopicPartition]:
    return [(topic, index) for topic, indexes in topics.items() for index in indexes]


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = [f"partition {index} of topic {topic!r}" for topic, index in sorted(partitions)]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def earliest(cluster: BlockingCluster, partitions: Iterable[TopicPartition]) -> Offsets:
    """Log start offsets."""
    return {
        partition: place.offset
        for partition, place in list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)).items()
    }


def latest(cluster: BlockingCluster, source: SourceOptions, partitions: Iterable[TopicPartition]) -> Offsets:
    """High watermarks; last stable offsets for who reads committed records only."""
    places = list_offsets(cluster, dict.fromkeys(partitions, LATEST), source.isolation)
    return {partition: place.offset for partition, place in places.items()}


def at_boundary(
    cluster: BlockingCluster,
    source: SourceOptions,
    partitions: list[TopicPartition],
    where: Boundary,
    *,
    is_start: bool,
) -> Offsets:
    """The offset of a boundary in each partition."""
    if isinstance(where, AtOffsets):
        return _at_offsets(cluster, source, partitions, where, is_start)
    if isinstance(where, AtTimestamps):
        return _at_timestamps(cluster, source, partitions, where, is_start)
    if where == Word.EARLIEST:
        return earliest(cluster, partitions)
    if where == Word.LATEST:
        return latest(cluster, source, partitions)
    assert source.group is not None
    committed = committed_offsets(cluster, source.group, partitions)
    missing = [partition for partition in partitions if partition not in committed]
    return committed | earliest(cluster, missing)


def _check_same(option: str, wanted: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    missing, unknown = set(partitions) - set(wanted), set(wanted) - set(partitions)
    if missing:
        raise PipelineError(f"Option {option} says nothing about {_named(missing)}; give each partition a value.")
    if unknown:
        raise PipelineError(f"Option {option} names {_named(unknown)}, which is not among what is read.")


def _at_offsets(
    cluster: BlockingCluster, source: SourceOptions, partitions: list[TopicPartition], where: AtOffsets, is_start: bool
) -> Offsets:
    _check_same("startingOffsets" if is_start else "endingOffsets", where.offsets, partitions)
    words = {partition: offset for partition, offset in where.offsets.items() if offset in (EARLIEST, LATEST)}
    found = list_offsets(cluster, words, source.isolation) if words else {}
    return dict(where.offsets) | {partition: place.offset for partition, place in found.items()}


def _at_timestamps(
    cluster: BlockingCluster,
    source: SourceOptions,
    partitions: list[TopicPartition],
    where: AtTimestamps,
    is_start: bool,
) -> Offsets:
    if where.everywhere_ms is not None:
        wanted: Mapping[TopicPartition, int] = dict.fromkeys(partitions, where.everywhere_ms)
    else:
        wanted = where.per_partition_ms
        _check_same("startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp", wanted, partitions)
    found = {partition: place.offset for partition, place in list_offsets(cluster, wanted, source.isolation).items()}
    without = [partition for partition, offset in found.items() if offset == NO_OFFSET]
    if without and is_start and not source.latest_where_no_timestamp:
        raise PipelineError(
            f"No record is as new as the starting timestamp in {_named(without)}; "
            "set startingOffsetsByTimestampStrategy=latest to start at the end there."
        )
    return found | latest(cluster, source, without) if without else found


def without_lost(cluster: BlockingCluster, source: SourceOptions, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Compare with the log start offsets: records before them are lost. Gaps within a log are normal and no loss."""
    begins = earliest(cluster, [(wanted.topic, wanted.partition) for wanted in ranges])
    kept: list[OffsetRange] = []
    for wanted in ranges:
        begin = begins[wanted.topic, wanted.partition]
        if begin > wanted.start:
            report_loss(
                source, wanted.topic, wanted.partition, f"offsets {wanted.start} to {min(begin, wanted.end) - 1}"
            )
            wanted = OffsetRange(wanted.topic, wanted.partition, min(begin, wanted.end), wanted.end)
        if wanted.size:
            kept.append(wanted)
    return kept


def report_loss(source: SourceOptions, topic: str, partition: int, what: str) -> None:
    """PipelineError, or a line in the log where data may be lost (failOnDataLoss=false)."""
    message = f"Data is lost: {what} of partition {partition} of topic {topic!r} are no longer in the cluster."
    if source.fail_on_data_loss:
        raise PipelineError(message + " Set failOnDataLoss=false to go on without it.")
    logger.warning("%s", message)
