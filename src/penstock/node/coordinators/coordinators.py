"""What this node coordinates: hosts of machines, found by the topic on which these live, or by the type of a key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.partitions.partition import Partition
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.node.coordinators.departure import Departure


class Later(Value):
    """A host that is not made before its topic is there, or a key of its type is asked for: many nodes need none."""

    topic_name: str
    key_type: int
    image: ClusterImage
    make: Callable[[], CoordinatorHost[Any]]


class Coordinators:
    """Tell them of metadata after the partition table has heard of it."""

    def __init__(self, *hosts: CoordinatorHost[Any] | Later) -> None:
        made = [host for host in hosts if not isinstance(host, Later)]
        self._hosts = {host.topic_name: host for host in made}
        self._by_key_type = {host.key_type: host for host in made}
        self._later = {host.key_type: host for host in hosts if isinstance(host, Later)}
        self._is_running = False

    def for_keys(self, key_type: int) -> CoordinatorHost[Any] | None:
        """Of keys of this type, as FindCoordinator counts the types; None if nothing coordinates them here."""
        if key_type in self._later:
            self._make(self._later.pop(key_type))
        return self._by_key_type.get(key_type)

    def _make(self, later: Later) -> None:
        host = self._hosts[later.topic_name] = self._by_key_type[later.key_type] = later.make()
        if self._is_running:
            host.start()

    def _make_those_needed(self) -> None:
        for later in list(self._later.values()):
            if later.topic_name in later.image.topics:
                self._make(self._later.pop(later.key_type))

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._make_those_needed()
        self._is_running = True
        for host in self._hosts.values():
            host.start()

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        self._make_those_needed()
        for host in self._hosts.values():
            host.on_metadata(records)

    def on_new_image(self) -> None:
        self._make_those_needed()
        for host in self._hosts.values():
            host.on_new_image()

    def follow(self) -> None:
        """Lead what the metadata says and the partition table has, and nothing else."""
        for host in self._hosts.values():
            host.follow()

    async def stop(self) -> None:
        self._later.clear()
        self._is_running = False
        await asyncio.gather(*(host.stop() for host in self._hosts.values()))

    # -- handing over -------------------------------------------------------------------------------------------------

    async def before_departure(self, partition: Partition) -> None:
        host = self._hosts.get(partition.topic)
        if host is not None:
            await host.before_departure(partition)

    def departure_from(self, partition: Partition, connect: Callable[[], Awaitable[Connection]]) -> Departure | None:
        """None if nothing goes with the partition. Raises KafkaError where it cannot go, as it is being read."""
        host = self._hosts.get(partition.topic)
        return None if host is None else host.departure_from(partition, connect)
