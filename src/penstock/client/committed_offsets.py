"""The positions that a group has committed: read, written and deleted at the group's coordinator."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.client.messages import (
    OUTSIDER,
    Committed,
    Membership,
    check_commit,
    commit_request,
    committed_in,
    committed_request,
)
from penstock.client.values import OffsetAndMetadata, TopicPartition, numbers_by_topic
from penstock.protocol.errors import ErrorCode, KafkaError, error_code
from penstock.protocol.messages.offset_commit import OffsetCommitResponse
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.messages.offset_fetch import OffsetFetchResponse
from penstock.protocol.requests.api import ApiKey

NEWEST_BY_NAME: Final = 9  # from version 10 on topics go by their ids
COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@contextmanager
def noticing(cluster: ClusterClient, group_id: str) -> Iterator[None]:
    """A refusal within, because the coordinator has moved, makes the client forget it."""
    try:
        yield
    except KafkaError as error:
        if error.code in COORDINATOR_MOVED:
            cluster.forget_coordinator(group_id)
        raise


def check_group(cluster: ClusterClient, group_id: str, code: int, message: str | None = None) -> None:
    """Raises the KafkaError of an error code; a coordinator that moved is forgotten."""
    with noticing(cluster, group_id):
        raise_for(code, message, f"group {group_id!r}")


async def fetch_committed(
    cluster: ClusterClient,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Committed:
    """For these partitions, or for all (None); one without an offset is left out."""

    async def attempt() -> Committed:
        connection = await cluster.coordinator_connection(group_id)
        version = connection.version_for(ApiKey.OFFSET_FETCH, NEWEST_BY_NAME)
        request = committed_request(group_id, partitions, version, require_stable=require_stable)
        response = await cluster.to_coordinator(group_id, request, OffsetFetchResponse, NEWEST_BY_NAME)
        with noticing(cluster, group_id):
            return committed_in(response, group_id)

    return await cluster.retrying(attempt)


async def commit(
    cluster: ClusterClient,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    membership: Membership = OUTSIDER,
) -> None:
    """Tries once: the caller decides whether to try again. The first partition that was refused is raised."""
    request = commit_request(group_id, offsets, membership)
    response = await cluster.to_coordinator(group_id, request, OffsetCommitResponse, NEWEST_BY_NAME)
    with noticing(cluster, group_id):
        check_commit(response)


async def delete_committed(
    cluster: ClusterClient, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Returns each partition's outcome."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
            )
            for name, numbers in numbers_by_topic(partitions)
        ],
    )

    async def attempt() -> dict[TopicPartition, ErrorCode]:
        response = await cluster.to_coordinator(group_id, request, OffsetDeleteResponse)
        check_group(cluster, group_id, response.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): error_code(row.error_code)
            for topic in response.topics
            for row in topic.partitions
        }

    return await cluster.retrying(attempt)
