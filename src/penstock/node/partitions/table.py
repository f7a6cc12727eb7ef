"""The partitions that this node holds, found by name or by topic id.

What nobody has asked for since the start, and has no record, is known by its log alone (`untouched`): that is what most
partitions of a node with very many are. It becomes a `Partition` when something is asked of it (decision 0502).
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from penstock.log.partition_log import PartitionLog
from penstock.node.partitions.partition import Partition
from penstock.protocol.uuids import uuid_of


class PartitionTable:
    """All partitions with a replica here. `LocalReplicas` keeps it in step with the committed metadata."""

    def __init__(self) -> None:
        self._topics: dict[str | UUID, dict[int, Partition]] = {}
        """By name and by id."""
        self._untouched: dict[UUID, dict[int, PartitionLog]] = {}

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

    def add_untouched(self, topic_id: UUID, log: PartitionLog) -> None:
        """Know of a partition that nobody needs yet."""
        self._untouched.setdefault(topic_id, {})[log.partition] = log

    def untouched(self) -> list[tuple[UUID, PartitionLog]]:
        """The logs of all partitions that nobody has needed yet, with the ids of their topics."""
        return [(topic_id, log) for topic_id, logs in self._untouched.items() for log in logs.values()]

    def untouched_of(self, topic_id: UUID) -> list[PartitionLog]:
        """The logs of those of one topic."""
        return list(self._untouched.get(topic_id, {}).values())

    def get_untouched(self, topic_id: UUID, index: int) -> PartitionLog | None:
        """The log of one of them; None where something was asked of the partition, or this node does not hold it."""
        logs = self._untouched.get(topic_id)
        return None if logs is None else logs.get(index)

    def forget_untouched(self, topic_id: UUID, index: int) -> None:
        """A partition is needed now, or gone."""
        logs = self._untouched.get(topic_id)
        if logs is not None:
            logs.pop(index, None)
            if not logs:
                del self._untouched[topic_id]

    def add(self, partition: Partition) -> None:
        """Hold a partition from now on."""
        self.forget_untouched(partition.topic_id, partition.index)
        partitions = self._topics.setdefault(partition.topic, {})
        partitions[partition.index] = partition
        self._topics[uuid_of(partition.topic_id.bytes)] = partitions  # the object that is looked up is found sooner

    def remove(self, partition: Partition) -> None:
        partitions = self._topics[partition.topic]
        del partitions[partition.index]
        if not partitions:
            del self._topics[partition.topic], self._topics[partition.topic_id]
