"""DescribeLogDirs 1-5: the log directories of this node, how full they are, and the size of each replica in them."""

from __future__ import annotations

import os.path

from penstock.node.broker import Broker
from penstock.node.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5))
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe every directory, with the replicas that were asked for; no list of topics means all of them."""
    if request.topics is None:
        partitions = list(broker.partitions)
    else:
        wanted = [(topic.topic, index) for topic in request.topics for index in topic.partitions]
        partitions = [held for name, index in wanted if (held := broker.partitions.get(name, index)) is not None]
    results = {
        described.path: DescribeLogDirsResult(
            log_dir=os.path.abspath(described.path),
            total_bytes=described.total_bytes,
            usable_bytes=described.usable_bytes,
        )
        for described in broker.replicas.describe_directories()
    }
    topics: dict[tuple[str, str], DescribeLogDirsTopic] = {}
    for partition in partitions:
        path = partition.log.parent
        topic = topics.get((path, partition.topic))
        if topic is None:
            topic = topics[path, partition.topic] = DescribeLogDirsTopic(name=partition.topic)
            results[path].topics.append(topic)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
            )
        )
    return DescribeLogDirsResponse(results=list(results.values()))
