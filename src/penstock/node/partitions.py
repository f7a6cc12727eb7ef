"""The partitions that this node holds, found by name or by topic id."""

from __future__ import annotations

from uuid import UUID

from penstock.node.partition import Partition


class PartitionTable:
    """All partitions with a replica here. It follows the committed metadata (`on_metadata`)."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[UUID, dict[int, Partition]] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when this node does not hold it."""
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def get_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        """The partition, or None when this node does not hold it."""
        partitions = self._by_id.get(topic_id)
        return None if partitions is None else partitions.get(index)

    def on_log_start_moved(self, partition: Partition) -> None:
        """Remember to write the log start offset down."""
