"""One share group: its timers, and what every kind of group answers.

| state | what it means |
| --- | --- |
| Empty | no members; what was read is kept |
| Stable | with members |

They follow from the records, and no event sets them. Such a group has no committed offsets: what it has read is kept by
the share coordinator. It never goes by itself.
"""

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from penstock.coordinator.group.assigned_group import AssignedGroup
from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, PARTITIONS, TARGET
from penstock.coordinator.group.share.state import ShareGroupRecord, ShareGroupState, ShareGroupView
from penstock.coordinator.machine import Agenda
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import OffsetCommitRequest


class ShareGroup(AssignedGroup[ShareGroupState, ShareGroupView]):
    """Its sessions are kept by `timing.py`."""

    __slots__ = ("asked", "deleted_later", "passed")

    kind: ClassVar[str] = "share"
    protocol_type: ClassVar[str] = "share"
    nothing = ShareGroupState()
    record = ShareGroupRecord
    tombstone_order = (CURRENT, TARGET, ASSIGNMENT, MEMBER, PARTITIONS, GROUP)

    def __init__(self, group_id: str, image: GroupImage) -> None:
        super().__init__(group_id, image)
        self.asked: set[UUID] = set()
        """Topics about which share coordinators are asked just now."""
        self.deleted_later: dict[UUID, None] = {}
        """Topics whose deletion is to be tried again, however often it was asked for."""
        self.passed = (-1, -1)
        """An epoch in which the share coordinators did not let it begin, and the one to which it went instead."""

    def what_is_there(self, targets: Mapping[str, Target]) -> Mapping[str, Target]:
        """What is initialized: a topic may have gone meanwhile."""
        initialized = self.state.partitions.assignable
        return {
            member_id: {topic: indexes for topic, indexes in target.items() if topic in initialized}
            for member_id, target in targets.items()
        }

    def check_pending_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_commit(
        self, request: OffsetCommitRequest, api_version: int, agenda: Agenda[AnyRecord], now_ms: int
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offsets_deletable(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @property
    def may_expire(self) -> bool:
        """Nor does a group of another kind take its place: what it has read would be lost."""
        return False
