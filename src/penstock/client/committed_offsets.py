"""The positions that a group has committed: read, written and deleted at the group's coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ClientError, raise_for
from penstock.client.messages import (
    OFFSETS_BY_GROUPS,
    OUTSIDER,
    Committed,
    Membership,
    check_commit,
    commit_request,
    committed_in,
    committed_of,
    committed_of_groups_request,
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
GROUPS_AT_ONCE: Final = 100
"""Of which one request asks."""
ROUNDS: Final = 2
"""A coordinator that has moved is looked for once more."""
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


async def fetch_committed_of(cluster: ClusterClient, group_ids: Sequence[str]) -> dict[str, Committed]:
    """All that each of these groups has committed: a request asks for many of them.

    A group of which nothing is told now, as its coordinator does not answer or may not say, is left out. A
    ConnectionFailedError says that no broker answers.
    """
    found: dict[str, Committed] = {}
    missing = list(group_ids)
    for _ in range(ROUNDS):
        by_node: dict[int, list[str]] = {}
        for group_id, node_id in (await cluster.coordinators(missing)).items():
            by_node.setdefault(node_id, []).append(group_id)
        moved = await asyncio.gather(*(_fetch_at_one(cluster, groups, found) for groups in by_node.values()))
        missing = [group_id for groups in moved for group_id in groups]
        if not missing:
            break
    return found


async def _fetch_at_one(cluster: ClusterClient, group_ids: Sequence[str], found: dict[str, Committed]) -> list[str]:
    """Of groups of one coordinator, one request after the other; those that it coordinates no longer."""
    moved: list[str] = []
    for first in range(0, len(group_ids), GROUPS_AT_ONCE):
        part = group_ids[first : first + GROUPS_AT_ONCE]
        try:
            found |= await _fetch_part(cluster, part, moved)
        except ClientError:
            for group_id in part:
                cluster.forget_coordinator(group_id)
            moved += part
    return moved


async def _fetch_part(cluster: ClusterClient, group_ids: Sequence[str], moved: list[str]) -> dict[str, Committed]:
    found: dict[str, Committed] = {}
    connection = await cluster.coordinator_connection(group_ids[0])
    if connection.version_for(ApiKey.OFFSET_FETCH, NEWEST_BY_NAME) < OFFSETS_BY_GROUPS:
        for group_id in group_ids:
            with suppress(KafkaError):
                found[group_id] = await fetch_committed(cluster, group_id)
        return found
    request = committed_of_groups_request(group_ids)
    response = await connection.request(request, OffsetFetchResponse, newest=NEWEST_BY_NAME)
    for row in response.groups:
        try:
            with noticing(cluster, row.group_id):
                found[row.group_id] = committed_of(row, row.group_id)
        except KafkaError as error:
            moved += [row.group_id] if error.code in COORDINATOR_MOVED else []
    return found


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
