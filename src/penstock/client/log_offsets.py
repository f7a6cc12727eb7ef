"""Offsets in the log by time: the first, the next, the first at or after a moment. Each partition's leader is asked."""

import asyncio
from collections.abc import Mapping
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ConnectionFailedError
from penstock.client.metadata import error_code
from penstock.client.values import OffsetAndTimestamp, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_LEADER_HAS_MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
Found = dict[TopicPartition, OffsetAndTimestamp]


def by_leader(cluster: ClusterClient, wanted: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
    """Sort partitions by the node that leads them; a KafkaError names one that has no leader or does not exist."""
    nodes: dict[int, dict[TopicPartition, int]] = {}
    for partition, value in wanted.items():
        row = cluster.metadata.leader(partition)
        if row is None:
            topic = cluster.metadata.topics.get(partition.topic)
            if topic is None or (topic.partitions and partition.partition not in topic.partitions):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition} does not exist")
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader now")
        nodes.setdefault(row.leader, {})[partition] = value
    return nodes


async def list_offsets(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> Found:
    """The offset for each partition's timestamp: a time in milliseconds or one of the special values above.

    A time after the last record's finds offset -1. READ_COMMITTED makes LATEST the last stable offset.
    """
    missing = dict(wanted)
    found: Found = {}

    async def attempt() -> None:
        for name in sorted({partition.topic for partition in missing}):
            await cluster.topic(name)
        nodes = by_leader(cluster, missing)
        answers = await asyncio.gather(
            *(_ask(cluster, node_id, asked, isolation_level) for node_id, asked in nodes.items()),
            return_exceptions=True,
        )
        failure: BaseException | None = None
        for answer in answers:
            if isinstance(answer, BaseException):
                failure = failure or answer
                continue
            values, error = answer
            failure = failure or error
            found.update(values)
            for partition in values:
                missing.pop(partition, None)
        if failure is not None:
            if isinstance(failure, ConnectionFailedError) or (
                isinstance(failure, KafkaError) and failure.code in _LEADER_HAS_MOVED
            ):
                await cluster.refresh(sorted({partition.topic for partition in missing}))
            raise failure

    if missing:
        await cluster.retrying(attempt)
    return {partition: found[partition] for partition in wanted}


async def _ask(
    cluster: ClusterClient, node_id: int, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> tuple[Found, KafkaError | None]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, timestamp_ms in wanted.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp_ms, current_leader_epoch=-1)
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    response = await cluster.to_node(node_id, request, ListOffsetsResponse)
    found: Found = {}
    failure: KafkaError | None = None
    for answered in response.topics:
        for row in answered.partitions:
            partition = TopicPartition(answered.name, row.partition_index)
            if row.error_code:
                failure = KafkaError(error_code(row.error_code), f"offsets of {partition}")
            else:
                found[partition] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
    return found, failure
