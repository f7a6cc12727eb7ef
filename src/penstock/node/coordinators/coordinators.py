"""What this node coordinates: hosts of machines, found by the topic on which these live, or by the type of a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.metadata.records import MetadataRecord
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.partitions.partition import Partition

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.node.coordinators.departure import Departure


class Coordinators:
    """Tell them of metadata after the partition table has heard of it."""

    def __init__(self, *hosts: CoordinatorHost[Any]) -> None:
        self._hosts = {host.topic_name: host for host in hosts}
        self._by_key_type = {host.key_type: host for host in hosts}

    def for_keys(self, key_type: int) -> CoordinatorHost[Any] | None:
        """Of keys of this type, as FindCoordinator counts the types; None if nothing coordinates them here."""
        return self._by_key_type.get(key_type)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for host in self._hosts.values():
            host.start()

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        for host in self._hosts.values():
            host.on_metadata(records)

    def on_new_image(self) -> None:
        for host in self._hosts.values():
            host.on_new_image()

    def follow(self) -> None:
        """Lead what the metadata says and the partition table has, and nothing else."""
        for host in self._hosts.values():
            host.follow()

    async def stop(self) -> None:
        for host in self._hosts.values():
            await host.stop()

    # -- handing over -------------------------------------------------------------------------------------------------

    async def before_departure(self, partition: Partition) -> None:
        host = self._hosts.get(partition.topic)
        if host is not None:
            await host.before_departure(partition)

    def departure_from(self, partition: Partition, connect: Callable[[], Awaitable[Connection]]) -> Departure | None:
        """None if nothing goes with the partition. Raises KafkaError where it cannot go, as it is being read."""
        host = self._hosts.get(partition.topic)
        return None if host is None else host.departure_from(partition, connect)
