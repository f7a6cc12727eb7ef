"""One group of the classic protocol: its members, and the rules that need nothing else.

| state | what it means | may come from |
| --- | --- | --- |
| Empty | no members; offsets may be there | PreparingRebalance |
| PreparingRebalance | members are called back: JoinGroup requests are parked | Empty, CompletingRebalance, Stable |
| CompletingRebalance | a generation has formed; SyncGroups are parked till it is assigned | PreparingRebalance |
| Stable | every member can have its assignment | CompletingRebalance |
| Dead | deleted, expired or moved away | each of the others |

`rebalance.py` says when it goes from one to the next.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar, Final

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.answers import join_error, sync_error
from penstock.coordinator.group.classic.history import Rebalance
from penstock.coordinator.group.classic.leading import elect_leader
from penstock.coordinator.group.classic.member import Member, Protocols, Said, said_in
from penstock.coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, all_topics
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import (
    AnyRecord,
    CommittedOffset,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
)
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponseMember
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest


class GroupState(Enum):
    """Values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE
_DEAD: Final = GroupState.DEAD

MAY_COME_FROM: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState) - {GroupState.DEAD},
}


class ClassicGroup(Group):
    """Members keep the order in which they joined."""

    __slots__ = (
        "_knows_topics",
        "_leader_id",
        "_topics",
        "generation",
        "initial_delay",
        "join_timer",
        "joined",
        "members",
        "new_member_added",
        "pending",
        "protocol_name",
        "protocol_type",
        "rebalance",
        "said",
        "state",
        "state_since_ms",
        "static_ids",
        "support",
        "sync_timer",
        "unsynced",
    )

    kind: ClassVar[str] = "classic"

    def __init__(self, group_id: str, now_ms: int) -> None:
        super().__init__(group_id)
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        """None for a group that only ever committed offsets."""
        self.protocol_name: str | None = None
        self._leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, Timer] = {}
        """Ids that were handed out with MEMBER_ID_REQUIRED and not yet used."""
        self.static_ids: dict[str, str] = {}
        """Group instance id to member id."""
        self.support: dict[str, int] = {}
        """Protocol name to the number of members that support it."""
        self.said = Said()
        self.joined = 0
        """The number of members whose JoinGroup is parked."""
        self.initial_delay = False
        """Whether the rebalance under way is the first of an empty group, which waits for other members to arrive."""
        self.new_member_added = False
        self.unsynced: dict[str, None] = {}
        """Members that have not asked for their assignment in this generation."""
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.rebalance: Rebalance | None = None
        self._topics: frozenset[str] | None = None
        """None if the members do not name them in a protocol that we know."""
        self._knows_topics = False

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Anything else than the table allows is a defect of ours."""
        assert self.state in MAY_COME_FROM[state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in MAY_COME_FROM[GroupState.PREPARING_REBALANCE]

    # -- members ------------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """The first member brings the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        member.protocols = self.said.take(member.protocols)
        self._count_support(member.protocols, 1)

    def remove(self, member: Member) -> None:
        """The member waits for nothing. When it led, another one leads, which is elected when it is asked for: of very
        many members that go one after the other, each may have led.
        """
        assert member.join_token is None
        assert member.sync_token is None
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        self._count_support(member.protocols, -1)
        self.said.give_back(member.protocols)
        self.unsynced.pop(member.member_id, None)
        if self._leader_id == member.member_id:
            self._leader_id = None

    @property
    def leader_id(self) -> str | None:
        """None of an empty group."""
        if self._leader_id is None:
            self._leader_id = self._elected(self.members.values())
        return self._leader_id

    def led_by(self, member_id: str | None) -> None:
        """As the log says, if it names a member."""
        if member_id in self.members:
            self._leader_id = member_id

    def rename_static_member(self, member: Member, member_id: str) -> None:
        """It takes the old id's place, its lead as well (KIP-345)."""
        assert member.instance_id is not None
        old_id = member.member_id
        self.members = {member_id if key == old_id else key: value for key, value in self.members.items()}
        member.member_id = member_id
        self.static_ids[member.instance_id] = member_id
        self.unsynced.pop(old_id, None)
        if self._leader_id == old_id:
            self._leader_id = member_id

    def take_back_static_member(self, member: Member, stored: GroupMetadataValue) -> None:
        """The new id could not be stored: the member is again as in an earlier record."""
        item = next(item for item in stored.members if item.group_instance_id == member.instance_id)
        self.set_protocols(member, said_in(item, stored.protocol))
        member.rebalance_timeout_ms, member.session_timeout_ms = item.rebalance_timeout, item.session_timeout
        self.rename_static_member(member, item.member_id)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        before = member.protocols
        self._count_support(before, -1)
        member.protocols = self.said.take(protocols)
        self._count_support(member.protocols, 1)
        self.said.give_back(before)

    def park_join(self, member: Member, token: Token, now_ms: int) -> None:
        """The caller has seen to one that waited before."""
        assert member.join_token is None
        member.join_token = token
        member.joined_ms = now_ms
        self.joined += 1

    def take_join(self, member: Member) -> Token | None:
        """The JoinGroup that waits, if one does; it waits no longer."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.joined -= 1
        return token

    @property
    def all_joined(self) -> bool:
        """Whether every known member has rejoined and no handed out id is unused."""
        return self.joined == len(self.members) and not self.pending

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for an instance that has a newer member id (KIP-345)."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return _NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Make sure that a member which has rejoined leads. False if none has."""
        leader_id = self._elected(member for member in self.members.values() if member.join_token is not None)
        if leader_id is not None:
            self._leader_id = leader_id
        return leader_id is not None

    def _elected(self, candidates: Iterable[Member]) -> str | None:
        return elect_leader(self.protocol_type, self._leader_id, candidates)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- protocols ----------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a joiner fits: the group's type, and a protocol that all members share."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(self.support.get(name, 0) == size for name, _ in protocols)

    def select_protocol(self) -> str | None:
        """The vote: of the protocols that all support, the one that most members name first; None without members."""
        size = len(self.members)
        candidates = dict.fromkeys(name for name, count in self.support.items() if count == size)
        if len(candidates) == 1:
            return next(iter(candidates))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__, default=None)

    def next_generation(self, now_ms: int) -> None:
        """Form the next generation out of the members that have joined; Empty if none has."""
        self.generation += 1
        self.unsynced = {}
        self.protocol_name = self.select_protocol()
        self._knows_topics = False
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    # -- what every kind of group answers -----------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        return self.state is _DEAD

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type=self.kind,
        )

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def heard_ms(self) -> dict[str, int]:
        return {one.member_id: max(one.heard_ms, one.joined_ms) for one in self.members.values()}

    def is_subscribed(self, topic: str) -> bool:
        if self.state is GroupState.EMPTY:
            return False
        if self.protocol_name is None:
            return True
        if not self._knows_topics:
            self._topics = all_topics(member.metadata(self.protocol_name) for member in self.members.values())
            self._knows_topics = True
        return self._topics is None or topic in self._topics

    def check_pending_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        names_member = bool(request.member_id) or request.group_instance_id is not None
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if request.generation_id_or_member_epoch < 0 and (self.state is GroupState.EMPTY or not names_member):
            return ErrorCode.NONE
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and request.generation_id_or_member_epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Members of this protocol say nothing of themselves."""
        return ErrorCode.NONE

    def check_commit(
        self, request: OffsetCommitRequest, api_version: int, agenda: Agenda[AnyRecord], now_ms: int
    ) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.members[request.member_id].heard(agenda.timers, now_ms)
        return ErrorCode.NONE

    def check_deletable(self) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def check_offsets_deletable(self) -> ErrorCode:
        error = self.check_deletable()
        is_consumer = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return ErrorCode.NONE if error is ErrorCode.NON_EMPTY_GROUP and is_consumer else error

    def is_reading(self, topic: str) -> bool:
        if self.state is GroupState.STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return self.is_subscribed(topic)
        return not self.may_expire

    def idle_since_ms(self, committed: CommittedOffset) -> int:
        """While a group with a protocol is Empty, from then on at least."""
        since_ms = committed.commit_timestamp_ms
        if self.protocol_type is None or self.state is not GroupState.EMPTY:
            return since_ms
        return max(since_ms, self.state_since_ms)

    @property
    def may_expire(self) -> bool:
        return self.state is GroupState.EMPTY and not self.pending

    def tombstones(self) -> list[AnyRecord]:
        return [GroupRecord(self.group_id, None)]

    def kill(self, now_ms: int) -> None:
        if self.state is not GroupState.DEAD:
            self.transition_to(GroupState.DEAD, now_ms)
        for timer in (self.join_timer, self.sync_timer, *self.pending.values()):
            if timer is not None:
                timer.deadline_ms = None
        for member in self.members.values():
            member.end_session()
        self.said.let_go()
        self.join_timer = self.sync_timer = None
        self.pending.clear()

    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        for member in self.members.values():
            agenda.reply(self.take_join(member), join_error(error, member.member_id))
            agenda.reply(member.take_sync(), sync_error(error))

    # -- views --------------------------------------------------------------------------------------------------------

    def member_list(self) -> list[JoinGroupResponseMember]:
        """For the group's leader, metadata untouched."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def to_value(self, assignments: dict[str, bytes] | None = None) -> GroupMetadataValue:
        """The persisted form, with the members' present assignments or the given ones."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def _count_support(self, protocols: Protocols, change: int) -> None:
        self._knows_topics = False
        for name in dict.fromkeys(name for name, _ in protocols):
            count = self.support.get(name, 0) + change
            if count:
                self.support[name] = count
            else:
                del self.support[name]


def find_classic(groups: Mapping[str, Group], group_id: str) -> ClassicGroup | None:
    """None if there is none, or it is of another kind."""
    group = groups.get(group_id)
    return group if type(group) is ClassicGroup else None  # isinstance takes ten times as long for an abstract class
