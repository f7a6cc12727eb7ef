"""All that this broker follows: `num.replica.fetchers` fetchers for each broker that leads some of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from zlib import crc32

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition


class Fetcher(Protocol):
    """Follows partitions of one leader's broker (`ReplicaFetcher`); its length is how many."""

    def __len__(self) -> int: ...

    def follow(self, partition: IsrPartition) -> None:
        """Fetch this partition from where its log ends, in its leader's epoch as it is now."""

    def leave(self, partition: Partition) -> None: ...

    async def stop(self) -> None: ...


class ReplicaFetchers:
    """`make` makes the fetcher for a leader's broker when it is needed; it ends with the last partition it follows."""

    def __init__(self, config: BrokerConfig, make: Callable[[int], Fetcher]) -> None:
        self._make = make
        self._config = config
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[Partition, tuple[int, int]] = {}
        self._ending = Tasks()
        self._is_stopped = False

    def follow(self, partition: IsrPartition, leader_id: int) -> None:
        if self._is_stopped:
            return
        place = leader_id, _number(partition, self._config.num_replica_fetchers)
        if self._of.get(partition, place) != place:
            self.leave(partition)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._make(leader_id)
        self._of[partition] = place
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        place = self._of.pop(partition, None)
        if place is None:
            return
        fetcher = self._fetchers[place]
        fetcher.leave(partition)
        if not len(fetcher):
            del self._fetchers[place]
            self._ending.start(fetcher.stop(), f"end of following broker {place[0]}")

    async def stop(self) -> None:
        self._is_stopped = True
        for partition in list(self._of):
            self.leave(partition)
        await self._ending.settle()


def _number(partition: Partition, count: int) -> int:
    return crc32(f"{partition.topic}-{partition.index}".encode()) % max(count, 1)
