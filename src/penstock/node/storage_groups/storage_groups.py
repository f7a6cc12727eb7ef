"""The storage groups of which this node has a replica, found by topic or by number."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from penstock.log.partition_log import PartitionLog
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.replica import GroupReplica


class StorageGroups:
    """`by_topic` has the topics whose partitions belong to one of the groups in `by_number`."""

    def __init__(self) -> None:
        self.by_number: dict[int, GroupReplica] = {}
        self.by_topic: dict[UUID, GroupReplica] = {}

    def group(self, number: int) -> StorageGroup | None:
        replica = self.by_number.get(number)
        return replica.group if replica is not None and replica.is_running else None

    def own_log(self, number: int) -> PartitionLog | None:
        replica = self.by_number.get(number)
        return None if replica is None else replica.own_log

    def group_of(self, topic_id: UUID) -> StorageGroup | None:
        """None if replicated by ISR, or not here. The group gets partitions a moment after the metadata."""
        replica = self.by_topic.get(topic_id)
        return replica.group if replica is not None and replica.is_running else None

    def is_member(self, log: PartitionLog) -> bool:
        """Whether a log is that of a partition of any of them, whatever the metadata say of its topic."""
        return any(
            member.log is log for replica in self.by_number.values() for member in replica.group.partitions.values()
        )
