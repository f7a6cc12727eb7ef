"""The positions that a group has committed: read, written and deleted at the group's coordinator."""

from collections.abc import Collection, Mapping
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.metadata import error_code
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.value import Value

NEWEST_BY_NAME: Final = 9  # from version 10 on topics go by their ids
FETCH_BY_GROUPS: Final = 8  # the first version of OffsetFetch that asks for several groups
COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
Committed = dict[TopicPartition, OffsetAndMetadata]


class Membership(Value):
    """Who commits: a member of a generation, or (the default) somebody outside of the group's machinery."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


OUTSIDER: Final = Membership()


def raise_for(cluster: ClusterClient, group_id: str, code: int, message: str | None = None) -> None:
    """Raise the KafkaError of an answer about a group, if it is one; a coordinator that moved is forgotten."""
    if code:
        error = error_code(code)
        if error in COORDINATOR_MOVED:
            cluster.forget_coordinator(group_id)
        raise KafkaError(error, message or f"group {group_id!r}")


async def fetch_committed(
    cluster: ClusterClient,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Committed:
    """What the group has committed for these partitions, or for all (None); one without an offset is left out."""
    topics = None if partitions is None else _numbers_by_topic(partitions)

    async def attempt() -> Committed:
        connection = await cluster.coordinator_connection(group_id)
        batched = connection.version_for(ApiKey.OFFSET_FETCH, NEWEST_BY_NAME) >= FETCH_BY_GROUPS
        request = (_fetch_batched if batched else _fetch_single)(group_id, topics, require_stable)
        response = await cluster.to_coordinator(group_id, request, OffsetFetchResponse, NEWEST_BY_NAME)
        answer = response.groups[0] if batched else response
        raise_for(cluster, group_id, answer.error_code)
        committed: Committed = {}
        for topic in answer.topics:
            for row in topic.partitions:
                raise_for(cluster, group_id, row.error_code, f"offset of {topic.name}-{row.partition_index}")
                if row.committed_offset >= 0:
                    committed[TopicPartition(topic.name, row.partition_index)] = OffsetAndMetadata(
                        row.committed_offset, row.metadata or "", row.committed_leader_epoch
                    )
        return committed

    return await cluster.retrying(attempt)


async def commit(
    cluster: ClusterClient,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    membership: Membership = OUTSIDER,
) -> None:
    """Commit, once: the caller decides whether to try again. The first partition that was refused is raised."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for partition, position in offsets.items():
        topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=list(topics.values()),
    )
    response = await cluster.to_coordinator(group_id, request, OffsetCommitResponse, NEWEST_BY_NAME)
    for answered in response.topics:
        for row in answered.partitions:
            raise_for(cluster, group_id, row.error_code, f"commit of {answered.name}-{row.partition_index}")


async def delete_committed(
    cluster: ClusterClient, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Forget the group's offsets of these partitions; each partition's outcome."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
            )
            for name, numbers in _numbers_by_topic(partitions).items()
        ],
    )

    async def attempt() -> dict[TopicPartition, ErrorCode]:
        response = await cluster.to_coordinator(group_id, request, OffsetDeleteResponse)
        raise_for(cluster, group_id, response.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): error_code(row.error_code)
            for topic in response.topics
            for row in topic.partitions
        }

    return await cluster.retrying(attempt)


def _numbers_by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _fetch_batched(group_id: str, topics: dict[str, list[int]] | None, require_stable: bool) -> OffsetFetchRequest:
    rows = topics and [OffsetFetchRequestTopics(name=name, partition_indexes=mine) for name, mine in topics.items()]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None if topics is None else rows or [])
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _fetch_single(group_id: str, topics: dict[str, list[int]] | None, require_stable: bool) -> OffsetFetchRequest:
    rows = topics and [OffsetFetchRequestTopic(name=name, partition_indexes=mine) for name, mine in topics.items()]
    return OffsetFetchRequest(
        group_id=group_id, topics=None if topics is None else rows or [], require_stable=require_stable
    )
