"""One share group: its timers, and what every kind of group answers.

| state | what it means |
| --- | --- |
| Empty | no members; what was read is kept |
| Stable | with members |

They follow from the records, and no event sets them. Such a group has no committed offsets: what it has read is kept by
the share coordinator. It never goes by itself.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import AnyRecord, CommittedOffset
from penstock.coordinator.group.share.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, PARTITIONS, TARGET
from penstock.coordinator.group.share.state import ShareGroupRecord, ShareGroupState, ShareGroupView
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer, Timers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest

PROTOCOL_TYPE: Final = "share"
UNCHECKED: Final = -1

_NOTHING: Final = ShareGroupState()
"""A group that has no record. Nothing is put in."""

_TOMBSTONE_ORDER: Final = (CURRENT, TARGET, ASSIGNMENT, MEMBER, PARTITIONS, GROUP)


class ShareGroup(Group):
    """`sessions` are by the ids of members; they follow from the records (`timing.py`)."""

    __slots__ = ("_is_dead", "_states", "assigning", "checked_version", "sessions")

    kind: ClassVar[str] = "share"

    def __init__(self, group_id: str, image: GroupImage) -> None:
        super().__init__(group_id)
        self._states: Mapping[str, ShareGroupState] = image.of_kind(self.kind)
        self._is_dead = False
        self.sessions: dict[str, Timer] = {}
        self.checked_version = UNCHECKED
        """Of the cluster's topics that were last compared with those that the group knows."""
        self.assigning: object | None = None
        """The errand by which targets are being worked out elsewhere."""

    @property
    def exists(self) -> bool:
        """Whether a record of it was decided."""
        return not self.state.is_empty

    @property
    def state(self) -> ShareGroupState:
        """As decided. Read only."""
        return self._states.get(self.group_id, _NOTHING)

    @property
    def committed(self) -> ShareGroupView:
        return self.state.committed

    # -- what every kind of group answers -----------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    def listed(self) -> ListedGroup | None:
        if self.committed.is_empty:
            return None
        state = self.committed.state
        return ListedGroup(group_id=self.group_id, protocol_type=PROTOCOL_TYPE, group_state=state, group_type=self.kind)

    @property
    def member_count(self) -> int:
        return len(self.committed.members)

    def is_subscribed(self, topic: str) -> bool:
        return self.state.reads(topic)

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

    def is_reading(self, topic: str) -> bool:
        return self.is_subscribed(topic)

    def idle_since_ms(self, committed: CommittedOffset) -> int:
        return committed.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        """Nor does a group of another kind take its place: what it has read would be lost."""
        return False

    def check_deletable(self) -> ErrorCode:
        if self._is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if self.state.members else ErrorCode.NONE

    def tombstones(self) -> list[AnyRecord]:
        return [
            ShareGroupRecord(self.group_id, None, key, name)
            for key in _TOMBSTONE_ORDER
            for name in self.state.names_of(key)
        ]

    def kill(self, now_ms: int) -> None:
        self._is_dead = True
        for session in self.sessions.values():
            session.deadline_ms = None
        self.sessions.clear()

    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        """Nothing waits in the group itself."""

    # -- timers -------------------------------------------------------------------------------------------------------

    def touch(self, timers: Timers, member_id: str, deadline_ms: int, expired: Callable[[int], None]) -> None:
        """The member lives: its session ends no sooner."""
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Timer(expired)
        if session.queued_ms is not None and session.queued_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
        else:
            timers.set(session, deadline_ms)

    def stop_session(self, member_id: str) -> None:
        session = self.sessions.pop(member_id, None)
        if session is not None:
            session.deadline_ms = None
