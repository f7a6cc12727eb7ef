"""Offsets: those that partitions have (earliest, latest, by time) and those that groups committed."""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from penstock.client.blocking import BlockingCluster, TopicPartition, by_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.value import Value

LATEST, EARLIEST = -1, -2
"""Instead of a timestamp: the end of the log (under READ_COMMITTED: the last stable offset), its start."""
NO_OFFSET = -1


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are seen (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TimestampedOffset(Value):
    """The first record at or after a time; both -1 where there is none."""

    offset: int
    timestamp_ms: int


def list_offsets(
    cluster: BlockingCluster,
    timestamps_ms: Mapping[TopicPartition, int],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, TimestampedOffset]:
    """The offset at each partition's timestamp, LATEST or EARLIEST; one request per leader."""
    return cluster.retried(lambda: _list_offsets(cluster, timestamps_ms, isolation))


def _list_offsets(
    cluster: BlockingCluster, timestamps_ms: Mapping[TopicPartition, int], isolation: IsolationLevel
) -> dict[TopicPartition, TimestampedOffset]:
    found: dict[TopicPartition, TimestampedOffset] = {}
    for address, partitions in cluster.leaders_of(timestamps_ms).items():
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=at) for index, at in indexes.items()],
            )
            for topic, indexes in by_topic({partition: timestamps_ms[partition] for partition in partitions}).items()
        ]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        response = cluster.connection(address).request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
        for topic in response.topics:
            for partition in topic.partitions:
                _raise_for(partition.error_code, topic.name, partition.partition_index)
                place = TimestampedOffset(partition.offset, partition.timestamp)
                found[topic.name, partition.partition_index] = place
    return found


def committed_offsets(
    cluster: BlockingCluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """What the group committed; a partition without a commit is left out."""
    nested = by_topic(dict.fromkeys(partitions))
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes)) for name, indexes in nested.items()]
    request = OffsetFetchRequest(group_id=group, topics=topics)
    return cluster.retried(lambda: _committed_offsets(cluster, group, request))


def _committed_offsets(cluster: BlockingCluster, group: str, request: OffsetFetchRequest) -> dict[TopicPartition, int]:
    response = cluster.coordinator_of(group).request(ApiKey.OFFSET_FETCH, request, OffsetFetchResponse)
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), f"group {group!r}")
    found: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            _raise_for(partition.error_code, topic.name, partition.partition_index)
            if partition.committed_offset != NO_OFFSET:
                found[topic.name, partition.partition_index] = partition.committed_offset
    return found


def commit_offsets(cluster: BlockingCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group that has no members now; KafkaError UNKNOWN_MEMBER_ID where it has some."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                for index, offset in indexes.items()
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    cluster.retried(lambda: _commit_offsets(cluster, group, request))


def _commit_offsets(cluster: BlockingCluster, group: str, request: OffsetCommitRequest) -> None:
    response = cluster.coordinator_of(group).request(ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse)
    for topic in response.topics:
        for partition in topic.partitions:
            _raise_for(partition.error_code, topic.name, partition.partition_index)


def _raise_for(error_code: int, topic: str, partition: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code), f"partition {partition} of topic {topic!r}")
