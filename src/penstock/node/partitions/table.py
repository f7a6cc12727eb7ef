"""The partitions that this node holds, found by name or by topic id."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from penstock.node.partitions.partition import Partition
from penstock.protocol.uuids import uuid_of


class PartitionTable:
    """All partitions with a replica here. `LocalReplicas` keeps it in step with the committed metadata."""

    def __init__(self) -> None:
        self._topics: dict[str | UUID, dict[int, Partition]] = {}
        """By name and by id."""

    def __iter__(self) -> Iterator[Partition]:
        for topic, partitions in self._topics.items():
            if isinstance(topic, str):
                yield from partitions.values()

    def get(self, topic: str | UUID, index: int) -> Partition | None:
        """The partition, or None when this node does not hold it."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str | UUID) -> list[Partition]:
        """The partitions of one topic that this node holds."""
        return list(self._topics.get(topic, {}).values())

    def add(self, partition: Partition) -> None:
        """Hold a partition from now on."""
        partitions = self._topics.setdefault(partition.topic, {})
        partitions[partition.index] = partition
        self._topics[uuid_of(partition.topic_id.bytes)] = partitions  # the object that is looked up is found sooner

    def remove(self, partition: Partition) -> None:
        partitions = self._topics[partition.topic]
        del partitions[partition.index]
        if not partitions:
            del self._topics[partition.topic], self._topics[partition.topic_id]
