"""One group of the consumer protocol: its timers, and what every kind of group answers.

| state | what it means |
| --- | --- |
| Empty | no members; offsets may be there |
| Assigning | the group's epoch is ahead of the assignment's: targets are to be worked out |
| Reconciling | some member has not come to its target |
| Stable | all members have what they are to have |

They follow from the records, and no event sets them.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, LEGACY, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState, GroupView
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import AnyRecord, CommittedOffset
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer, Timers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.value import Value

PROTOCOL_TYPE: Final = "consumer"
UNCHECKED: Final = -1
MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which on a member of such a group may commit."""

_NOTHING: Final = ConsumerState()
"""A group that has no record. Nothing is put in."""

_TOMBSTONE_ORDER: Final = (CURRENT, TARGET, ASSIGNMENT, MEMBER, EXPRESSION, LEGACY, GROUP)


class Wait(Value):
    """For a member to give something up, or to join or sync, in the epoch in which it was told so."""

    timer: Timer
    epoch: int
    since_ms: int
    until_ms: int


class ConsumerGroup(Group):
    """`sessions`, `rebalances` and `calls` are by the ids of members; they follow from the records (`timing.py`)."""

    __slots__ = (
        "_is_dead",
        "_states",
        "_topics",
        "assigning",
        "calls",
        "checked_version",
        "is_resolving",
        "late",
        "rebalances",
        "sessions",
    )

    kind: ClassVar[str] = "consumer"

    def __init__(self, group_id: str, image: GroupImage, topics: Topics) -> None:
        super().__init__(group_id)
        self._states: Mapping[str, ConsumerState] = image.of_kind(self.kind)
        self._topics = topics
        self._is_dead = False
        self.sessions: dict[str, Timer] = {}
        self.late: dict[str, int] = {}
        """Members that were named as they send no heartbeats, and when the last one came."""
        self.rebalances: dict[str, Wait] = {}
        self.calls: dict[str, Wait] = {}
        """Of classic members that are to join, or to sync when they have joined."""
        self.checked_version = UNCHECKED
        """Of the cluster's topics that were last compared with those that the group knows."""
        self.assigning: object | None = None
        """The errand by which targets are being worked out elsewhere."""
        self.is_resolving = False
        """Whether expressions are being matched elsewhere."""

    @property
    def exists(self) -> bool:
        """Whether a record of it was decided."""
        return not self.state.is_empty

    @property
    def state(self) -> ConsumerState:
        """As decided. Read only."""
        return self._states.get(self.group_id, _NOTHING)

    @property
    def committed(self) -> GroupView:
        return self.state.committed

    # -- what every kind of group answers -----------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    def listed(self) -> ListedGroup | None:
        if self.committed.is_empty:
            return None
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=PROTOCOL_TYPE,
            group_state=self.committed.state,
            group_type=self.kind,
        )

    @property
    def member_count(self) -> int:
        return len(self.committed.members)

    def is_subscribed(self, topic: str) -> bool:
        return self.state.reads(topic)

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

    def check_offsets_deletable(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND if self._is_dead else ErrorCode.NONE

    def is_reading(self, topic: str) -> bool:
        return self.is_subscribed(topic)

    def idle_since_ms(self, committed: CommittedOffset) -> int:
        return committed.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        return not self._is_dead and not self.state.members

    def check_deletable(self) -> ErrorCode:
        if self._is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if self.state.members else ErrorCode.NONE

    def tombstones(self) -> list[AnyRecord]:
        return [
            ConsumerRecord(self.group_id, None, key, name)
            for key in _TOMBSTONE_ORDER
            for name in self.state.names_of(key)
        ]

    def kill(self, now_ms: int) -> None:
        self._is_dead = True
        waits = (*self.rebalances.values(), *self.calls.values())
        for timer in (*self.sessions.values(), *(wait.timer for wait in waits)):
            timer.deadline_ms = None
        self.sessions.clear()
        self.calls.clear()
        self.rebalances.clear()

    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        """Nothing waits in the group itself."""

    # -- timers -------------------------------------------------------------------------------------------------------

    def touch(self, timers: Timers, member_id: str, deadline_ms: int, expired: Callable[[int], None]) -> None:
        """The member lives: its session ends no sooner."""
        if self.late:
            self.late.pop(member_id, None)
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Timer(expired)
        if session.queued_ms is not None and session.queued_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
        else:
            timers.set(session, deadline_ms)

    def stop_session(self, member_id: str) -> None:
        self.late.pop(member_id, None)
        session = self.sessions.pop(member_id, None)
        if session is not None:
            session.deadline_ms = None

    def stop_rebalance(self, member_id: str) -> None:
        _stop(self.rebalances, member_id)

    def stop_call(self, member_id: str) -> None:
        _stop(self.calls, member_id)


def _stop(waits: dict[str, Wait], member_id: str) -> None:
    wait = waits.pop(member_id, None)
    if wait is not None:
        wait.timer.deadline_ms = None


def _is_at_another(member: Subscription) -> ErrorCode:
    """What a member is told whose epoch is not the one that it says: a classic one calls it a generation."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
