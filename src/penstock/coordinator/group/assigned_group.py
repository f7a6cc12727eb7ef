"""A group whose coordinator assigns: its records, the sessions of its members, and its answers as one kind of many."""

from collections import deque
from collections.abc import Callable, Container, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.parts import PartRecord
from penstock.coordinator.group.records import AnyRecord, CommittedOffset
from penstock.coordinator.machine import Agenda, Draft
from penstock.coordinator.timers import Timer, Timers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.value import Value

UNCHECKED: Final = -1

StateT = TypeVar("StateT")
ViewT = TypeVar("ViewT")
TargetT = TypeVar("TargetT")


def some_targets(
    left: deque[tuple[str, str | None, TargetT]], most: int, members: Container[str], static_ids: Mapping[str, str]
) -> dict[str, TargetT]:
    """Take so many of (a member, its instance, what it is to have): by who is there to have it now, which is the
    member, or who has its instance.
    """
    found: dict[str, TargetT] = {}
    for _ in range(min(len(left), most)):
        member_id, instance_id, target = left.popleft()
        heir = member_id if member_id in members else static_ids.get(instance_id or "", "")
        if heir:
            found[heir] = target
    return found


class Usual(NamedTuple):
    """A heartbeat that changes nothing, with all on which that rests: while this is the same, so is the answer."""

    rests_on: object
    timeout_ms: int
    interval_ms: int
    """In which the member is to come again."""


NOTHING_USUAL: Final = Usual(None, 0, 0)


class Session(Timer):
    """Of one member."""

    __slots__ = ("heard_ms", "usual")

    def __init__(self, fire: Callable[..., None], *of: object) -> None:
        super().__init__(fire, *of)
        self.heard_ms = -1
        """When it began, or the last heartbeat came."""
        self.usual = NOTHING_USUAL
        """Of its last heartbeat that changed nothing."""


class AssignedGroup(Group, Generic[StateT, ViewT]):
    """`sessions` are by the ids of members; they follow from the records."""

    __slots__ = ("_is_dead", "_states", "assigning", "checked_version", "late", "sessions")

    protocol_type: ClassVar[str]
    """As ListGroups calls it."""
    nothing: ClassVar[Any]
    """The state of a group that has no record. Nothing is put in."""
    record: ClassVar[type[PartRecord]]
    tombstone_order: ClassVar[tuple[int, ...]]

    def __init__(self, group_id: str, image: GroupImage) -> None:
        super().__init__(group_id)
        self._states: Mapping[str, Any] = image.of_kind(self.kind)
        self._is_dead = False
        self.sessions: dict[str, Session] = {}
        self.late: dict[str, int] = {}
        """Members that were named as they send no heartbeats, and when the last one came."""
        self.checked_version = UNCHECKED
        """Of the cluster's topics that were last compared with those that the group knows."""
        self.assigning: object | None = None
        """The errand by which targets are being worked out elsewhere."""

    @property
    def exists(self) -> bool:
        """Whether a record of it was decided."""
        return not self._any_state.is_empty

    @property
    def _any_state(self) -> Any:
        return self._states.get(self.group_id, self.nothing)

    @property
    def state(self) -> StateT:
        """As decided. Read only."""
        found: StateT = self._states.get(self.group_id, self.nothing)
        return found

    @property
    def committed(self) -> ViewT:
        view: ViewT = self._any_state.committed
        return view

    # -- what every kind of group answers -----------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    def listed(self) -> ListedGroup | None:
        view = self._any_state.committed
        if view.is_empty:
            return None
        return ListedGroup(
            group_id=self.group_id, protocol_type=self.protocol_type, group_state=view.state, group_type=self.kind
        )

    @property
    def member_count(self) -> int:
        return len(self._any_state.committed.members)

    @property
    def heard_ms(self) -> dict[str, int]:
        return {member_id: session.heard_ms for member_id, session in self.sessions.items()}

    def is_subscribed(self, topic: str) -> bool:
        found: bool = self._any_state.reads(topic)
        return found

    def is_reading(self, topic: str) -> bool:
        return self.is_subscribed(topic)

    def idle_since_ms(self, committed: CommittedOffset) -> int:
        return committed.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        return not self._is_dead and not self._any_state.members

    def check_offsets_deletable(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND if self._is_dead else ErrorCode.NONE

    def check_deletable(self) -> ErrorCode:
        if self._is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if self._any_state.members else ErrorCode.NONE

    def tombstones(self) -> list[AnyRecord]:
        names_of = self._any_state.names_of
        return [self.record(self.group_id, None, key, name) for key in self.tombstone_order for name in names_of(key)]

    def kill(self, now_ms: int) -> None:
        self._is_dead = True
        for session in self.sessions.values():
            session.deadline_ms = None
        self.sessions.clear()

    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        """Nothing waits in the group itself."""

    # -- targets ------------------------------------------------------------------------------------------------------

    def what_is_there(self, targets: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of targets that were worked out elsewhere."""
        return targets

    def put_targets(self, draft: Draft[AnyRecord], key: int, targets: Mapping[str, object]) -> None:
        """Those that are others than before, as records of this key."""
        for member_id, target in targets.items():
            if self._any_state.targets.get(member_id) != target:
                draft.put(self.record(self.group_id, target, key, member_id))

    # -- timers -------------------------------------------------------------------------------------------------------

    def touch(
        self, timers: Timers, member_id: str, now_ms: int, timeout_ms: int, expired: Callable[..., None], house: object
    ) -> None:
        """The member lives: its session ends no sooner, with `expired(house, group, member_id, now_ms)`."""
        if self.prolong(member_id, now_ms, timeout_ms):
            return
        self.late.pop(member_id, None)
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Session(expired, house, self, member_id)
        session.heard_ms = now_ms
        timers.set(session, now_ms + timeout_ms)

    def prolong(self, member_id: str, now_ms: int, timeout_ms: int) -> bool:
        """As `touch`, where no timer has to be set for it: so it is with nearly all heartbeats."""
        session, deadline_ms = self.sessions.get(member_id), now_ms + timeout_ms
        if session is None or session.queued_ms is None or session.queued_ms > deadline_ms:
            return False
        session.heard_ms = now_ms
        session.deadline_ms = deadline_ms
        if self.late:
            self.late.pop(member_id, None)
        return True

    def stop_session(self, member_id: str) -> None:
        self.late.pop(member_id, None)
        session = self.sessions.pop(member_id, None)
        if session is not None:
            session.deadline_ms = None


class Wait(Value):
    """For a member to do something, in the epoch in which it was told so."""

    timer: Timer
    epoch: int
    since_ms: int
    until_ms: int


class RevokingGroup(AssignedGroup[StateT, ViewT]):
    """What a member has is its own: it gives things up before others get them, and is waited for."""

    __slots__ = ("rebalances",)

    def __init__(self, group_id: str, image: GroupImage) -> None:
        super().__init__(group_id, image)
        self.rebalances: dict[str, Wait] = {}
        """By the ids of members that are to give something up."""

    def kill(self, now_ms: int) -> None:
        super().kill(now_ms)
        for member_id in list(self.rebalances):
            self.stop_rebalance(member_id)

    def stop_rebalance(self, member_id: str) -> None:
        stop(self.rebalances, member_id)


def stop(waits: dict[str, Wait], member_id: str) -> None:
    wait = waits.pop(member_id, None)
    if wait is not None:
        wait.timer.deadline_ms = None
