"""The partitions that this node holds, found by name or by topic id."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from penstock.node.partitions.partition import Partition
from penstock.protocol.uuids import uuid_of


class PartitionTable:
    """All partitions with a replica here. `LocalReplicas` keeps it in step with the committed metadata."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[UUID, dict[int, Partition]] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_name.values():
            yield from partitions.values()

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when this node does not hold it."""
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def get_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        """The partition, or None when this node does not hold it."""
        partitions = self._by_id.get(topic_id)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str) -> list[Partition]:
        """The partitions of one topic that this node holds."""
        return list(self._by_name.get(topic, {}).values())

    def of_topic_id(self, topic_id: UUID) -> list[Partition]:
        """The partitions of one topic that this node holds."""
        return list(self._by_id.get(topic_id, {}).values())

    def add(self, partition: Partition) -> None:
        """Hold a partition from now on."""
        partitions = self._by_name.setdefault(partition.topic, {})
        partitions[partition.index] = partition
        self._by_id[uuid_of(partition.topic_id.bytes)] = partitions  # the object that is looked up is found sooner

    def remove(self, partition: Partition) -> None:
        partitions = self._by_name[partition.topic]
        del partitions[partition.index]
        if not partitions:
            del self._by_name[partition.topic]
            del self._by_id[partition.topic_id]
