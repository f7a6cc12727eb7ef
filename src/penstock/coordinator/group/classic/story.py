"""How groups of the classic protocol are told of: a generation is told when its assignment is written, in one epoch.

Who came and went is what sets its members off against those of the generation that was written before. Why, and how
long each took, its coordinator remembers (`history.py`); where it hands the group over in the middle of a rebalance,
what has happened so far is written as an epoch that has not ended, and goes on with the next coordinator.
"""

import struct
from collections.abc import Mapping
from itertools import islice
from typing import Final

from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from penstock.coordinator.group.group_log import (
    RECKONED,
    GroupLog,
    Moves,
    Place,
    change,
    of_instance,
    put_moves,
    slowest,
)
from penstock.coordinator.group.historian import Story, Written
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import GroupMetadataValue, MemberMetadata
from penstock.coordinator.group.settings import patience_ms
from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.requests.own_apis import A_HEARTBEAT, Awaited, GroupChange, GroupEpoch, What

AWAITED: Final = 100
"""Members that are named as awaited."""
READ_BYTES: Final = 32 * 1024
"""Of assignments that are others than before: more are not read."""
COMPARED: Final = 200
"""Members whose subscriptions are looked at."""
NEWEST_ASSIGNMENT: Final = 3

_VERSION: Final = struct.Struct(">h")
_NOBODY: Final = GroupMetadataValue()


class ClassicStory(Story):
    kind = ClassicGroup.kind

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups

    def tell(self, log: GroupLog, written: Written, now_ms: int) -> int | None:
        before, value = written[0][1] or _NOBODY, written[-1][0].value
        if value is None:
            return None
        last = log.last()
        is_open = last is not None and last.kind == self.kind and last.ended_ms < 0
        changes = _who(log, before, value)
        if value.unsettled is not None:
            if not (is_open or changes or value.unsettled.phase):
                return None
        elif not is_open and _is_told(last, before, value):
            return None
        epoch = last if is_open and last is not None else log.begin(self.kind, value.generation, now_ms)
        epoch.epoch, epoch.members = value.generation, len(value.members)
        epoch.changes += changes
        log.change(epoch)
        self._remember(log.group_id, epoch)
        if value.unsettled is not None:
            return None
        if not log.were_members:  # of another kind: what its members had, they have
            _move(epoch, before, value)
        epoch.ended_ms = now_ms
        return now_ms - epoch.started_ms

    def seal(self, log: GroupLog) -> None:
        """It is told with the record by which the group itself is handed over."""

    def taken_back(self, group_id: str) -> None:
        """What is told next is read from the records."""

    def were_members(self, written: Written) -> dict[str, str | None]:
        before = written[0][1]
        is_gone = written[-1][0].value is None and before is not None
        return {one.member_id: one.group_instance_id for one in before.members} if is_gone else {}

    def _remember(self, group_id: str, epoch: GroupEpoch) -> None:
        group = self._groups.get(group_id)
        rebalance = group.rebalance if isinstance(group, ClassicGroup) else None
        if not isinstance(group, ClassicGroup) or rebalance is None:
            return
        if not epoch.cause:
            epoch.started_ms = rebalance.began_ms
        epoch.cause = "; ".join(dict.fromkeys([*filter(None, epoch.cause.split("; ")), *rebalance.causes]))
        epoch.formed_ms = rebalance.formed_ms
        joined = ((one.member_id, one.joined_ms - epoch.started_ms) for one in group.members.values())
        epoch.times = slowest({name: (took, took) for name, took in joined if took >= 0})

    # -- now ----------------------------------------------------------------------------------------------------------

    def awaited(self, group: Group, now_ms: int) -> list[Awaited]:
        assert isinstance(group, ClassicGroup)
        return [*_of_rebalance(group), *_silent(group)][:AWAITED]


def _of_rebalance(group: ClassicGroup) -> list[Awaited]:
    rebalance = group.rebalance
    if rebalance is None or group.initial_delay:
        return []
    members = list(group.members.values())
    if group.state is GroupState.PREPARING_REBALANCE:
        what, missing = "to join again", [one for one in members if one.join_token is None]
    else:
        what, missing = "to ask for its assignment", [one for one in members if one.member_id in group.unsynced]
    if not missing:
        what, missing = "to assign", [one for one in members if one.member_id == group.leader_id]
    return [
        Awaited(
            member_id=one.member_id,
            what=what,
            since_ms=rebalance.started_ms,
            until_ms=rebalance.until_ms if one.instance_id is None else _session_ends_ms(one),
        )
        for one in missing[:AWAITED]
    ]


def _silent(group: ClassicGroup) -> list[Awaited]:
    late = islice((one for one in group.members.values() if one.is_late), AWAITED)
    found = []
    for one in late:
        until_ms = _session_ends_ms(one)
        since_ms = until_ms - one.session_timeout_ms
        found.append(Awaited(member_id=one.member_id, what=A_HEARTBEAT, since_ms=since_ms, until_ms=until_ms))
    return found


def _session_ends_ms(member: Member) -> int:
    deadline_ms = member.session.deadline_ms
    if deadline_ms is None:
        return -1
    timeout_ms = member.session_timeout_ms
    return deadline_ms if member.is_late else deadline_ms + timeout_ms - patience_ms(timeout_ms)


# -- what a record says -----------------------------------------------------------------------------------------------


def _is_told(last: GroupEpoch | None, before: GroupMetadataValue, value: GroupMetadataValue) -> bool:
    """Whether it is not a new generation: a static member is written again with its new id."""
    if last is not None and (last.kind, last.epoch) == (ClassicGroup.kind, value.generation):
        return True
    return before is not _NOBODY and before.unsettled is None and before.generation == value.generation


def _who(log: GroupLog, before: GroupMetadataValue, value: GroupMetadataValue) -> list[GroupChange]:
    were = {one.member_id: one for one in before.members}
    now = {one.member_id: one for one in value.members}
    known = {**log.were_members, **{name: one.group_instance_id for name, one in were.items()}}
    instances = {instance: name for name, instance in known.items() if instance is not None}
    replaced = {
        instances[one.group_instance_id]
        for one in value.members
        if one.group_instance_id in instances and one.member_id not in known
    }
    found = [
        change(_why(log, name, instance), name, instance)
        for name, instance in known.items()
        if name not in now and name not in replaced
    ]
    for name, one in now.items():
        if name not in known:
            is_back = one.group_instance_id in instances
            found.append(change(What.REPLACED if is_back else What.JOINED, name, one.group_instance_id))
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    stayed = [(were[name], one) for name, one in now.items() if name in were]
    return found + [
        change(What.SUBSCRIPTION if is_consumer else What.METADATA, new.member_id, new.group_instance_id)
        for old, new in stayed[:COMPARED]
        if bytes(old.subscription) != bytes(new.subscription) and not (is_consumer and _read_same(old, new))
    ]


def _why(log: GroupLog, name: str, instance: str | None) -> What:
    """One with an instance may have had another id when it went, and that was not written."""
    found = log.why(name)
    if found is None and instance is not None:
        found = log.why(of_instance(instance))
    return What.GONE if found is None else found


def _read_same(old: MemberMetadata, new: MemberMetadata) -> bool:
    """Consumers say more in their subscription than what they read."""
    return subscribed_topics(bytes(old.subscription)) == subscribed_topics(bytes(new.subscription))


def _move(epoch: GroupEpoch, before: GroupMetadataValue, value: GroupMetadataValue) -> None:
    had = {one.member_id: bytes(one.assignment) for one in before.members}
    has = {one.member_id: bytes(one.assignment) for one in value.members}
    others = [name for name in dict.fromkeys([*had, *has]) if had.get(name, b"") != has.get(name, b"")]
    size = sum(len(had.get(name, b"")) + len(has.get(name, b"")) for name in others)
    epoch.moved = -1
    if value.protocol_type != CONSUMER_PROTOCOL_TYPE or size > READ_BYTES:
        return
    try:
        before_and_after = [{name: _places(each.get(name, b"")) for name in others} for each in (had, has)]
    except DecodeError:
        return
    if sum(len(places) for each in before_and_after for places in each.values()) > RECKONED:
        return
    lost, given = ({place: name for name in others for place in each[name]} for each in before_and_after)
    moves: Moves = {
        place: (lost.get(place, ""), given.get(place, ""))
        for place in dict.fromkeys([*lost, *given])
        if lost.get(place) != given.get(place)
    }
    put_moves(epoch, moves)


def _places(assignment: bytes) -> list[Place]:
    """DecodeError if these bytes are no assignment."""
    if not assignment:
        return []
    if len(assignment) < _VERSION.size or (version := _VERSION.unpack_from(assignment)[0]) < 0:
        raise DecodeError("an assignment without a version")
    found = decode(ConsumerProtocolAssignment, min(version, NEWEST_ASSIGNMENT), assignment, _VERSION.size)[0]
    return [(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions]
