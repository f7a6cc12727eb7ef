"""The offsets that groups have committed: what the records of a partition of `__consumer_offsets` add up to."""

from penstock.coordinator.group.records import CommittedOffset, OffsetRecord

TopicOffsets = dict[str, dict[int, CommittedOffset]]
"""Topic to partition to offset."""


class Offsets:
    """Committed offsets by group. `apply` is the only mutation; call it once a record is committed."""

    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}
        self._readers: dict[str, dict[str, None]] = {}
        """Topic to the groups that have offsets in it."""
        self._under_way: dict[str, int] = {}

    def apply(self, record: OffsetRecord) -> None:
        """Set an offset, or take it away."""
        if record.value is not None:
            topics = self._groups.setdefault(record.group_id, {})
            if record.topic not in topics:
                topics[record.topic] = {}
                self._readers.setdefault(record.topic, {})[record.group_id] = None
            topics[record.topic][record.partition] = record.value
            return
        topics = self._groups.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions and topics.pop(record.topic, None) is not None:
            readers = self._readers[record.topic]
            del readers[record.group_id]
            if not readers:
                del self._readers[record.topic]
        if not topics:
            self._groups.pop(record.group_id, None)

    def of_group(self, group_id: str) -> TopicOffsets:
        """All offsets of a group. Read only."""
        return self._groups.get(group_id, {})

    def group_ids(self) -> list[str]:
        """The groups that have offsets."""
        return list(self._groups)

    def topics(self) -> list[str]:
        """The topics that some group has offsets in."""
        return list(self._readers)

    def readers(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        return list(self._readers.get(topic, {}))

    def tombstones(self, group_id: str, topic: str | None = None) -> list[OffsetRecord]:
        """The records that take away the offsets of a group, or those of one of its topics."""
        topics = self.of_group(group_id)
        names = list(topics) if topic is None else [topic]
        return [OffsetRecord(group_id, name, partition, None) for name in names for partition in topics.get(name, {})]

    def begin_write(self, group_id: str) -> None:
        """A commit of this group is under way: retention leaves the group alone."""
        self._under_way[group_id] = self._under_way.get(group_id, 0) + 1

    def end_write(self, group_id: str) -> None:
        """One commit of this group is committed or has failed."""
        count = self._under_way.pop(group_id) - 1
        if count:
            self._under_way[group_id] = count

    def is_written(self, group_id: str) -> bool:
        """Whether a commit of this group is under way."""
        return group_id in self._under_way
