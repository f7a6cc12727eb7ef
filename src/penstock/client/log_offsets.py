"""Offsets in the log by time: the first, the next, the first at or after a moment. Each partition's leader is asked."""

import asyncio
from collections.abc import Mapping

from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.messages import Found, Refused, list_offsets_request, listed_offsets
from penstock.client.metadata import unavailable
from penstock.client.values import IsolationLevel, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import ListOffsetsResponse

_LEADER_HAS_MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
Failures = dict[TopicPartition, ClientError | KafkaError]


def by_leader(cluster: ClusterClient, wanted: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
    """Sort partitions by the node that leads them; a KafkaError names one that has no leader or does not exist."""
    nodes: dict[int, dict[TopicPartition, int]] = {}
    for partition, value in wanted.items():
        nodes.setdefault(cluster.metadata.led(partition).leader, {})[partition] = value
    return nodes


async def list_offsets(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Found:
    """The offset for each partition's timestamp: a time in milliseconds or LATEST, EARLIEST or another special value.

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
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> tuple[Found, Failures]:
    """Does not wait for partitions that have no leader or do not exist; returns their errors as well.

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

    def __init__(
        self, cluster: ClusterClient, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> None:
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
            *(self._ask(node_id, asked) for node_id, asked in nodes.items()),
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

    async def _ask(self, node_id: int, asked: Mapping[TopicPartition, int]) -> tuple[Found, Refused]:
        request = list_offsets_request(asked, self._isolation_level, self._cluster.settings.request_timeout_ms)
        return listed_offsets(await self._cluster.to_node(node_id, request, ListOffsetsResponse))


def _says_moved(error: ClientError | KafkaError) -> bool:
    if isinstance(error, KafkaError):
        return error.code in _LEADER_HAS_MOVED
    return isinstance(error, ConnectionFailedError)
