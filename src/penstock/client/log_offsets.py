"""Offsets in the log by time: the first, the next, the first at or after a moment. Each partition's leader is asked."""

import asyncio
from collections.abc import Mapping
from typing import Final

from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.metadata import error_code, unavailable
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
Failures = dict[TopicPartition, ClientError | KafkaError]


def by_leader(cluster: ClusterClient, wanted: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
    """Sort partitions by the node that leads them; a KafkaError names one that has no leader or does not exist."""
    nodes: dict[int, dict[TopicPartition, int]] = {}
    for partition, value in wanted.items():
        error = unavailable(cluster.metadata, partition)
        if error is not None:
            raise error
        row = cluster.metadata.leader(partition)
        assert row is not None
        nodes.setdefault(row.leader, {})[partition] = value
    return nodes


async def list_offsets(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> Found:
    """The offset for each partition's timestamp: a time in milliseconds or one of the special values above.

    A time after the last record's finds offset -1. READ_COMMITTED makes LATEST the last stable offset.
    """
    search = _Search(cluster, wanted, isolation_level)

    async def attempt() -> None:
        failed = await search.go_on()
        if failed:
            raise min(failed.values(), key=is_passing)

    if wanted:
        await cluster.retrying(attempt)
    return {partition: search.found[partition] for partition in wanted}


async def list_offsets_that_can_be_had(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> tuple[Found, Failures]:
    """The same without waiting for partitions that have no leader or do not exist; what failed, and with what.

    Leaders that do not answer or have moved are tried again for `timeout_ms`, default.api.timeout.ms if it is None.
    """
    search = _Search(cluster, wanted, isolation_level)
    failures: Failures = {}
    passing: Failures = {}

    def give_up(partition: TopicPartition, error: ClientError | KafkaError) -> None:
        failures[partition] = error
        del search.missing[partition]

    async def attempt() -> None:
        await cluster.refresh(sorted({partition.topic for partition in search.missing}))
        for partition in list(search.missing):
            error = unavailable(cluster.metadata, partition)
            if error is not None:
                give_up(partition, error)
        passing.clear()
        for partition, failure in (await search.go_on()).items():
            if is_passing(failure):
                passing[partition] = failure
            else:
                give_up(partition, failure)
        if passing:
            raise next(iter(passing.values()))

    if wanted:
        try:
            await cluster.retrying(attempt, timeout_ms=timeout_ms)
        except (ClientError, KafkaError) as error:
            failures |= {partition: passing.get(partition, error) for partition in search.missing}
    return dict(sorted(search.found.items())), dict(sorted(failures.items()))


class _Search:
    """The offsets that were asked for: those that are still missing, and those that were found."""

    def __init__(self, cluster: ClusterClient, wanted: Mapping[TopicPartition, int], isolation_level: int) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self.missing = dict(wanted)
        self.found: Found = {}

    async def go_on(self) -> Failures:
        """Ask all leaders for what is missing; what failed, when all have answered."""
        for name in sorted({partition.topic for partition in self.missing}):
            await self._cluster.topic(name)
        nodes = by_leader(self._cluster, self.missing)
        answers = await asyncio.gather(
            *(_ask(self._cluster, node_id, asked, self._isolation_level) for node_id, asked in nodes.items()),
            return_exceptions=True,
        )
        failed: Failures = {}
        for asked, answer in zip(nodes.values(), answers, strict=True):
            if isinstance(answer, ClientError | KafkaError):
                failed |= dict.fromkeys(asked, answer)
                continue
            if isinstance(answer, BaseException):
                raise answer
            found, refused = answer
            failed |= refused
            self.found |= found
            for partition in found:
                self.missing.pop(partition, None)
        if any(_says_moved(error) for error in failed.values()):
            await self._cluster.refresh(sorted({partition.topic for partition in self.missing}))
        return failed


def _says_moved(error: ClientError | KafkaError) -> bool:
    if isinstance(error, KafkaError):
        return error.code in _LEADER_HAS_MOVED
    return isinstance(error, ConnectionFailedError)


async def _ask(
    cluster: ClusterClient, node_id: int, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> tuple[Found, Failures]:
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
    refused: Failures = {}
    for answered in response.topics:
        for row in answered.partitions:
            partition = TopicPartition(answered.name, row.partition_index)
            if row.error_code:
                refused[partition] = KafkaError(error_code(row.error_code), f"offsets of {partition}")
            else:
                found[partition] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
    return found, refused
