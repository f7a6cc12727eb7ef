"""Asking the leaders of many partitions for one thing about each: those that have moved or fail are asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from penstock.client.cluster import ClusterClient, is_passing
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.messages import Refused
from penstock.client.metadata import unavailable
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

_LEADER_HAS_MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
Failures = dict[TopicPartition, ClientError | KafkaError]
Wanted = TypeVar("Wanted")
Told = TypeVar("Told")
Ask = Callable[[int, Mapping[TopicPartition, Wanted]], Awaitable[tuple[dict[TopicPartition, Told], Refused]]]
"""Asks one node about partitions that it leads: what it told, and what it refused."""


async def ask_leaders(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, Wanted], ask: Ask[Wanted, Told]
) -> dict[TopicPartition, Told]:
    """What the leaders told of each partition. Raises the failure of one that cannot be had in time."""
    search = _Search(cluster, wanted, ask)

    async def attempt() -> None:
        failed = await search.go_on()
        if failed:
            raise min(failed.values(), key=is_passing)

    if wanted:
        await cluster.retrying(attempt)
    return {partition: search.found[partition] for partition in wanted}


async def ask_leaders_that_answer(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, Wanted],
    ask: Ask[Wanted, Told],
    *,
    timeout_ms: int | None = None,
) -> tuple[dict[TopicPartition, Told], Failures]:
    """Does not wait for partitions that have no leader or do not exist; returns their errors as well. Leaders that are
    known are asked at once: those that lead no longer say so.

    Leaders that do not answer or have moved are tried again for `timeout_ms`, default.api.timeout.ms if it is None.
    """
    search = _Search(cluster, wanted, ask)
    failures: Failures = {}
    passing: Failures = {}

    def give_up(partition: TopicPartition, error: ClientError | KafkaError) -> None:
        failures[partition] = error
        del search.missing[partition]

    async def attempt() -> None:
        await search.look_up()
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


class _Search(Generic[Wanted, Told]):
    """What was asked for: what is still missing, and what was found."""

    def __init__(self, cluster: ClusterClient, wanted: Mapping[TopicPartition, Wanted], ask: Ask[Wanted, Told]) -> None:
        self._cluster = cluster
        self._ask = ask
        self.missing = dict(wanted)
        self.found: dict[TopicPartition, Told] = {}

    async def look_up(self) -> None:
        """Who leads, where that is not known."""
        known = self._cluster.metadata
        if unknown := {partition.topic for partition in self.missing if known.leader(partition) is None}:
            await self._cluster.refresh(sorted(unknown))

    async def go_on(self) -> Failures:
        """Ask all leaders for what is missing; what failed, when all have answered."""
        for name in sorted({partition.topic for partition in self.missing}):
            await self._cluster.topic(name)
        nodes = self._by_leader()
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

    def _by_leader(self) -> dict[int, dict[TopicPartition, Wanted]]:
        """By the node that leads; a KafkaError names a partition that has no leader or does not exist."""
        nodes: dict[int, dict[TopicPartition, Wanted]] = {}
        for partition, value in self.missing.items():
            nodes.setdefault(self._cluster.metadata.led(partition).leader, {})[partition] = value
        return nodes


def _says_moved(error: ClientError | KafkaError) -> bool:
    if isinstance(error, KafkaError):
        return error.code in _LEADER_HAS_MOVED
    return isinstance(error, ConnectionFailedError)
