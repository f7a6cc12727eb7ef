"""DescribeLogDirs 1-5: the log directories of this node, how full they are, and the size of each replica in them.

The log of a storage group is a replica of a partition of `__storage_group`. A field of our own says how much others,
consumers and replicas, have read of a replica since it is here, or since the node started.
"""

import logging
import os.path
from collections.abc import Iterator

from penstock.log.directories.description import DirectoryDescription
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.requests.api import ApiKey

logger = logging.getLogger(__name__)

REPLICAS_A_STEP = 50


@handles(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    """No list of topics means all replicas."""
    directories = {directory.path: directory for directory in broker.moves.describe_directories()}
    yield None
    told: dict[str, dict[str, DescribeLogDirsTopic]] = {path: {} for path in directories}
    failed: dict[str, KafkaError] = {path: one.failure for path, one in directories.items() if one.failure is not None}
    pace = Pace(REPLICAS_A_STEP)
    for held in _replicas(broker, request):
        if pace.is_due():
            yield None
        if held is None:
            continue
        log, partition = held
        future = None if partition is None else broker.moves.future_of(partition)
        for replica in ((log, partition, None), (log, partition, future)) if future else ((log, partition, None),):
            path = (replica[2] or log).parent
            if path in told and path not in failed:
                try:
                    _add(told[path], *replica)
                except KafkaError as error:
                    failed[path] = error
    return DescribeLogDirsResponse(
        results=[_result(one, list(told[path].values()), failed.get(path)) for path, one in directories.items()]
    )


def _replicas(
    broker: Broker, request: DescribeLogDirsRequest
) -> Iterator[tuple[PartitionLog, Partition | None] | None]:
    """None for each that is not here."""
    table, groups = broker.partitions, broker.storage_groups
    if request.topics is None:
        yield from ((partition.log, partition) for partition in table)
        yield from ((log, None) for _, log in table.untouched())
        yield from ((replica.own_log, None) for replica in list(groups.by_number.values()))
        return
    for name, index in ((topic.topic, index) for topic in request.topics for index in topic.partitions):
        known, held = broker.image.topics.get(name), table.get(name, index)
        log = table.get_untouched(known.topic_id, index) if held is None and known is not None else None
        if name == STORAGE_GROUPS:
            log = groups.own_log(index)
        if held is not None:
            yield held.log, held
        else:
            yield None if log is None else (log, None)


def _add(
    topics: dict[str, DescribeLogDirsTopic], log: PartitionLog, partition: Partition | None, future: PartitionLog | None
) -> None:
    """A log, its partition if a request has asked for it, its copy on the way to another directory if that is meant."""
    topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
    topic.partitions.append(
        DescribeLogDirsPartition(
            partition_index=log.partition,
            partition_size=(future or log).size_bytes,
            offset_lag=_lag(log, partition, future),
            is_future_key=future is not None,
            bytes_read=partition.bytes_read if partition is not None and future is None else 0,
        )
    )


def _result(
    directory: DirectoryDescription, topics: list[DescribeLogDirsTopic], failure: KafkaError | None
) -> DescribeLogDirsResult:
    """One directory; where anything in it cannot be read, the error stands for all of it."""
    path = os.path.abspath(directory.path)
    if failure is not None:
        logger.error("the log directory %s cannot be described: %s", path, failure.message)
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, is_cordoned=directory.is_cordoned
        )
    return DescribeLogDirsResult(
        log_dir=path,
        topics=topics,
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )


def _lag(log: PartitionLog, partition: Partition | None, future: PartitionLog | None) -> int:
    """How many records a copy lacks, or a replica of those that are committed, as its leader told it; -1 for now if the
    log waits for its disk.
    """
    if log.is_lent or (future is not None and future.is_lent):
        return -1
    if future is not None:
        return max(0, log.log_end_offset - future.log_end_offset)
    if partition is None:
        return 0
    follower = partition.follower
    committed = partition.high_watermark if follower is None else follower.leader_high_watermark
    return max(0, committed - log.log_end_offset)
