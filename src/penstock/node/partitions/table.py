"""The partitions that this node holds, found by name or by topic id.

A partition that no client has asked for since the start, and that has no record, is known by its log alone
(`untouched`): most partitions of a node with very many are. It becomes a `Partition` once asked for (decision 0502).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from uuid import UUID

from penstock.log.partition_log import PartitionLog
from penstock.node.metrics.counts import TopicCounts
from penstock.node.partitions.partition import Partition
from penstock.protocol.uuids import uuid_of


class PartitionTable:
    """`LocalReplicas` keeps it in step with the committed metadata."""

    def __init__(self, counts: TopicCounts | None = None) -> None:
        """`counts` are of the topics of which something is held."""
        self._counts = counts or TopicCounts()
        self._topics: dict[str | UUID, dict[int, Partition]] = {}
        """By ids, and by the names that they have."""
        self._by_id: dict[UUID, dict[int, Partition]] = {}
        self._untouched: dict[UUID, dict[int, PartitionLog]] = {}

    def __iter__(self) -> Iterator[Partition]:
        """Those that there are now: who looks at them in steps is not disturbed by those that come and go meanwhile."""
        return iter(list(chain.from_iterable(map(dict.values, self._by_id.values()))))

    def by_topic(self) -> list[dict[int, Partition]]:
        """The same, of each topic its own, which may come to change."""
        return list(self._by_id.values())

    def get(self, topic: str | UUID, index: int) -> Partition | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str | UUID) -> list[Partition]:
        return list(self._topics.get(topic, {}).values())

    def add_untouched(self, topic_id: UUID, log: PartitionLog) -> None:
        self._untouched.setdefault(topic_id, {})[log.partition] = log

    def untouched(self) -> list[tuple[UUID, PartitionLog]]:
        return [(topic_id, log) for topic_id, logs in self._untouched.items() for log in logs.values()]

    def untouched_counts(self) -> list[tuple[UUID, int]]:
        """How many of each topic."""
        return [(topic_id, len(logs)) for topic_id, logs in self._untouched.items()]

    def untouched_of(self, topic_id: UUID) -> list[PartitionLog]:
        return list(self._untouched.get(topic_id, {}).values())

    def get_untouched(self, topic_id: UUID, index: int) -> PartitionLog | None:
        logs = self._untouched.get(topic_id)
        return None if logs is None else logs.get(index)

    def forget_untouched(self, topic_id: UUID, index: int) -> None:
        logs = self._untouched.get(topic_id)
        if logs is not None:
            logs.pop(index, None)
            if not logs:
                del self._untouched[topic_id]

    def add(self, partition: Partition) -> None:
        """Its topic has its name from now on: of a removed one of that name some may still be held, by their id."""
        self.forget_untouched(partition.topic_id, partition.index)
        partitions = self._topics[partition.topic] = self._by_id.setdefault(partition.topic_id, {})
        partitions[partition.index] = partition
        partition.traffic = self._counts.enter(partition.topic)
        self._topics[uuid_of(partition.topic_id.bytes)] = partitions  # the object that is looked up is found sooner

    def forget_name(self, topic_id: UUID) -> None:
        """The topic was removed: what is still held of it is found by its id alone."""
        partitions = self._topics.get(topic_id)
        for partition in (partitions or {}).values():
            if self._topics.get(partition.topic) is partitions:
                del self._topics[partition.topic]
            return

    def remove(self, partition: Partition) -> None:
        partitions = self._topics[partition.topic_id]
        if len(partitions) == 1:
            self.forget_name(partition.topic_id)
            del self._topics[partition.topic_id], self._by_id[partition.topic_id]
        del partitions[partition.index]
        self._counts.leave(partition.topic, partition.traffic)
