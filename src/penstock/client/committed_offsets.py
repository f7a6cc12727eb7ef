"""The positions that a group has committed: read, written and deleted at the group's coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ClientError, ConnectionFailedError, raise_for
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
from penstock.protocol.errors import ErrorCode, KafkaError
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
GroupFailures = dict[str, ClientError | KafkaError]
"""Why nothing is told of groups."""
Told = TypeVar("Told")
AskOfGroups = Callable[[Sequence[str]], Awaitable[tuple[dict[str, Told], GroupFailures]]]


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


async def fetch_committed_of(
    cluster: ClusterClient, group_ids: Sequence[str]
) -> tuple[dict[str, Committed], GroupFailures]:
    """All that each of these groups has committed, as `ask_of_groups` has it."""

    async def ask(part: Sequence[str]) -> tuple[dict[str, Committed], GroupFailures]:
        connection = await cluster.coordinator_connection(part[0])
        if connection.version_for(ApiKey.OFFSET_FETCH, NEWEST_BY_NAME) < OFFSETS_BY_GROUPS:
            return await _told_of_each(part, partial(fetch_committed, cluster))
        request = committed_of_groups_request(part)
        response = await connection.request(request, OffsetFetchResponse, newest=NEWEST_BY_NAME)
        return told_of({row.group_id: partial(committed_of, row, row.group_id) for row in response.groups})

    return await ask_of_groups(cluster, group_ids, ask)


async def ask_of_groups(
    cluster: ClusterClient, group_ids: Sequence[str], ask: AskOfGroups[Told]
) -> tuple[dict[str, Told], GroupFailures]:
    """What coordinators tell of many groups: `ask` asks for some of one coordinator in one request. And why nothing is
    told of the others now, as their coordinator does not answer or may not say; one that has moved is looked for once
    more. A ConnectionFailedError says that no broker answers.
    """
    found: dict[str, Told] = {}
    failures: GroupFailures = {}
    missing = list(group_ids)
    for _ in range(ROUNDS):
        by_node: dict[int, list[str]] = {}
        known = await cluster.coordinators(missing)
        for group_id in missing:
            if group_id in known:
                by_node.setdefault(known[group_id], []).append(group_id)
            else:
                failures[group_id] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id!r}")
        refused: GroupFailures = {}
        await asyncio.gather(*(_ask_one(groups, ask, found, refused) for groups in by_node.values()))
        failures |= refused
        missing = [group_id for group_id, error in refused.items() if _says_moved(error)]
        for group_id in missing:
            cluster.forget_coordinator(group_id)
        if not missing:
            break
    return found, {group_id: error for group_id, error in failures.items() if group_id not in found}


async def _ask_one(
    group_ids: Sequence[str], ask: AskOfGroups[Told], found: dict[str, Told], refused: GroupFailures
) -> None:
    """Of groups of one coordinator, one request after the other."""
    for first in range(0, len(group_ids), GROUPS_AT_ONCE):
        part = group_ids[first : first + GROUPS_AT_ONCE]
        try:
            told, failures = await ask(part)
        except (ClientError, KafkaError) as error:
            refused |= dict.fromkeys(part, error)
        else:
            found |= told
            refused |= failures


def _says_moved(error: ClientError | KafkaError) -> bool:
    return isinstance(error, ConnectionFailedError) or (
        isinstance(error, KafkaError) and error.code in COORDINATOR_MOVED
    )


def told_of(rows: Mapping[str, Callable[[], Told]]) -> tuple[dict[str, Told], GroupFailures]:
    """What is read of each group's part of an answer."""
    found: dict[str, Told] = {}
    failures: GroupFailures = {}
    for group_id, read in rows.items():
        try:
            found[group_id] = read()
        except KafkaError as error:
            failures[group_id] = error
    return found, failures


async def _told_of_each(
    group_ids: Sequence[str], ask: Callable[[str], Awaitable[Told]]
) -> tuple[dict[str, Told], GroupFailures]:
    """Of brokers that can be asked for one group at a time only."""
    found: dict[str, Told] = {}
    failures: GroupFailures = {}
    for group_id in group_ids:
        try:
            found[group_id] = await ask(group_id)
        except KafkaError as error:
            failures[group_id] = error
    return found, failures


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
            TopicPartition(topic.name, row.partition_index): ErrorCode(row.error_code)
            for topic in response.topics
            for row in topic.partitions
        }

    return await cluster.retrying(attempt)
