"""What the records of a partition of `__consumer_offsets` add up to: committed offsets, and what groups were last."""

from collections.abc import Mapping
from typing import Any

from penstock.coordinator.group.records import AnyRecord, CommittedOffset, OffsetRecord
from penstock.coordinator.machine import LogImage

TopicOffsets = Mapping[str, Mapping[int, CommittedOffset]]
"""Topic to partition to offset."""


class GroupImage(LogImage[AnyRecord]):
    def __init__(self) -> None:
        self.groups: dict[str, Any] = {}
        """The last record of each group. Read only."""
        self._offsets: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._readers: dict[str, dict[str, None]] = {}
        """Topic to the groups that have offsets in it."""

    def apply(self, record: AnyRecord) -> Any:
        if type(record) is not OffsetRecord:
            before = self.groups.pop(record.group_id, None)
            if record.value is not None:
                self.groups[record.group_id] = record.value
            return before
        topics = self._offsets.get(record.group_id)
        partitions = None if topics is None else topics.get(record.topic)
        if partitions is None:
            if record.value is None:
                return None
            partitions = self._begin(record)
        before = partitions.get(record.partition)
        if record.value is not None:
            partitions[record.partition] = record.value
        elif before is not None:
            del partitions[record.partition]
            if not partitions:
                self._end(record)
        return before

    def _begin(self, record: OffsetRecord) -> dict[int, CommittedOffset]:
        """Called for the first offset of a group in a topic."""
        self._readers.setdefault(record.topic, {})[record.group_id] = None
        partitions = self._offsets.setdefault(record.group_id, {})[record.topic] = {}
        return partitions

    def _end(self, record: OffsetRecord) -> None:
        """Called when the last offset of a group in a topic is gone."""
        topics, readers = self._offsets[record.group_id], self._readers[record.topic]
        del topics[record.topic], readers[record.group_id]
        if not topics:
            del self._offsets[record.group_id]
        if not readers:
            del self._readers[record.topic]

    def undoing(self, record: AnyRecord, before: Any) -> AnyRecord:
        return record.replace(value=before)

    def offsets(self, group_id: str) -> TopicOffsets:
        """Decided offsets, committed or not. Read only."""
        return self._offsets.get(group_id, {})

    def group_ids(self) -> list[str]:
        return list(dict.fromkeys([*self.groups, *self._offsets]))

    def is_known(self, group_id: str) -> bool:
        return group_id in self.groups or group_id in self._offsets

    def topics(self) -> list[str]:
        return list(self._readers)

    def readers(self, topic: str) -> list[str]:
        return list(self._readers.get(topic, {}))

    def tombstones(self, group_id: str, topic: str | None = None) -> list[AnyRecord]:
        topics = self.offsets(group_id)
        names = list(topics) if topic is None else [topic]
        return [OffsetRecord(group_id, name, partition, None) for name in names for partition in topics.get(name, {})]
