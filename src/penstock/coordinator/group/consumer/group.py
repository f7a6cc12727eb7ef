"""One group of the consumer protocol: its timers, and what every kind of group answers.

| state | what it means |
| --- | --- |
| Empty | no members; offsets may be there |
| Assigning | the group's epoch is ahead of the assignment's: targets are to be worked out |
| Reconciling | some member has not come to its target |
| Stable | all members have what they are to have |

They follow from the records, and no event sets them.
"""

from typing import ClassVar, Final

from penstock.coordinator.group.assigned_group import RevokingGroup, Wait, stop
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, LEGACY, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState, GroupView
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Agenda
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import OffsetCommitRequest

MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which on a member of such a group may commit."""


class ConsumerGroup(RevokingGroup[ConsumerState, GroupView]):
    """Its timers are by the ids of members; they follow from the records (`timing.py`)."""

    __slots__ = ("_topics", "calls", "is_resolving")

    kind: ClassVar[str] = "consumer"
    protocol_type: ClassVar[str] = "consumer"
    nothing = ConsumerState()
    record = ConsumerRecord
    tombstone_order = (CURRENT, TARGET, ASSIGNMENT, MEMBER, EXPRESSION, LEGACY, GROUP)

    def __init__(self, group_id: str, image: GroupImage, topics: Topics) -> None:
        super().__init__(group_id, image)
        self._topics = topics
        self.calls: dict[str, Wait] = {}
        """Of classic members that are to join, or to sync when they have joined."""
        self.is_resolving = False
        """Whether expressions are being matched elsewhere."""

    def check_pending_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        names_member = bool(request.member_id) or request.group_instance_id is not None
        if not self._is_dead and request.generation_id_or_member_epoch < 0 and not names_member:
            return ErrorCode.NONE
        return self._check(request)

    def check_commit(
        self, request: OffsetCommitRequest, api_version: int, agenda: Agenda[AnyRecord], now_ms: int
    ) -> ErrorCode:
        error = self._check(request)
        member = self.state.members.get(request.member_id)
        is_checked = error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH)
        if is_checked and member is not None and member.classic is None and api_version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return error

    def _check(self, request: OffsetCommitRequest) -> ErrorCode:
        """An older epoch is good for what the member has had since then (KIP-1251)."""
        epoch = request.generation_id_or_member_epoch
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.state.members:
            return ErrorCode.NONE
        member = self.state.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        current = self.state.current(request.member_id)
        if epoch == current.epoch:
            return ErrorCode.NONE
        is_held = epoch < current.epoch and all(
            self._held_since(current, topic.name, partition.partition_index) <= epoch
            for topic in request.topics
            for partition in topic.partitions
        )
        return ErrorCode.NONE if is_held else _is_at_another(member)

    def _held_since(self, current: Current, topic: str, partition: int) -> float:
        topic_id = self._topics.id_of(topic)
        if topic_id is not None:
            for owned in (current.assigned, current.revoking):
                if partition in owned.get(topic_id, ()):
                    return owned[topic_id][partition]
        return float("inf")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = None if member_id is None else self.committed.members.get(member_id)
        if member_id is None or member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_current = self.committed.current(member_id).epoch == member_epoch
        return ErrorCode.NONE if is_current else _is_at_another(member)

    def kill(self, now_ms: int) -> None:
        super().kill(now_ms)
        for member_id in list(self.calls):
            self.stop_call(member_id)

    def stop_call(self, member_id: str) -> None:
        stop(self.calls, member_id)


def _is_at_another(member: Subscription) -> ErrorCode:
    """What a member is told whose epoch is not the one that it says: a classic one calls it a generation."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
