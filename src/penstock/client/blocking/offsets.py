"""Offsets: those that partitions have (earliest, latest, by time) and those that groups committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.client.blocking import BlockingCluster, TopicPartition
from penstock.client.messages import (
    check_commit,
    commit_request,
    committed_in,
    committed_request,
    list_offsets_request,
    listed_offsets,
)
from penstock.client.values import IsolationLevel, OffsetAndMetadata, OffsetAndTimestamp
from penstock.protocol.messages.list_offsets import ListOffsetsResponse
from penstock.protocol.messages.offset_commit import OffsetCommitResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchResponse
from penstock.protocol.requests.api import ApiKey


def list_offsets(
    cluster: BlockingCluster,
    timestamps_ms: Mapping[TopicPartition, int],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """At each partition's timestamp, LATEST or EARLIEST; one request per leader."""

    def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for address, partitions in cluster.leaders_of(timestamps_ms).items():
            wanted = {partition: timestamps_ms[partition] for partition in partitions}
            request = list_offsets_request(wanted, isolation, cluster.settings.request_timeout_ms)
            response = cluster.connection(address).request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
            listed, refused = listed_offsets(response)
            for error in refused.values():
                raise error
            found.update(listed.items())
        return found

    return cluster.retried(attempt)


def committed_offsets(
    cluster: BlockingCluster, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """A partition without a commit is left out."""

    def attempt() -> dict[TopicPartition, int]:
        coordinator = cluster.coordinator_of(group)
        request = committed_request(group, partitions, coordinator.version_of(ApiKey.OFFSET_FETCH))
        response = coordinator.request(ApiKey.OFFSET_FETCH, request, OffsetFetchResponse)
        return {partition: position.offset for partition, position in committed_in(response, group).items()}

    return cluster.retried(attempt)


def commit_offsets(cluster: BlockingCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """KafkaError UNKNOWN_MEMBER_ID where the group has members."""
    request = commit_request(group, {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()})

    def attempt() -> None:
        check_commit(cluster.coordinator_of(group).request(ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse))

    cluster.retried(attempt)
