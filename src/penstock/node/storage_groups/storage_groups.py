"""The storage groups of which this node has a replica, as those find them who are asked about a topic or a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.replica import GroupReplica

GROUPS_TOPIC: Final = "__storage_group"
"""Its partition N is storage group N."""


class StorageGroups:
    """See the module. `by_topic` has the topics whose partitions belong to one of the groups in `by_number`."""

    def __init__(self) -> None:
        self.by_number: dict[int, GroupReplica] = {}
        self.by_topic: dict[UUID, GroupReplica] = {}

    def group_of(self, topic_id: UUID, index: int) -> StorageGroup | None:
        """The group that a partition belongs to; None if it is replicated by ISR, or its group does not run here.

        The partition itself is among the group's a moment later than in the metadata.
        """
        replica = self.by_topic.get(topic_id)
        return replica.group if replica is not None and replica.is_running else None
