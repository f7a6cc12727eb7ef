"""A group is handed over in the middle of something: what its next coordinator needs beside what is always written.

What is parked is no part of it: such requests are sent on, and park there again. Time-outs begin anew.
"""

from typing import Final

from penstock.coordinator.group.classic import join, rebalance
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.records import (
    GroupRecord,
    MemberProtocol,
    PendingMember,
    Unsettled,
)
from penstock.coordinator.group.table import GroupTable

NOTHING: Final = 0
JOINING: Final = 1
SYNCING: Final = 2
PHASES: Final = {GroupState.PREPARING_REBALANCE: JOINING, GroupState.COMPLETING_REBALANCE: SYNCING}


def unsettled_record(group: ClassicGroup, now_ms: int) -> GroupRecord | None:
    """None where the last record about the group says all. No write of it is under way."""
    is_settled = group.state not in PHASES and not group.pending
    return None if is_settled else kept_record(group, now_ms)


def kept_record(group: ClassicGroup, now_ms: int) -> GroupRecord:
    """All that is to be kept of a group. Of one that is settled, the log has the protocol that was chosen alone."""
    value = group.to_value()
    for item, member in zip(value.members, group.members.values(), strict=True):
        item.protocols = [MemberProtocol(name=name, metadata=metadata) for name, metadata in member.protocols]
        item.is_new = member.is_new
    phase = PHASES.get(group.state, NOTHING)
    if phase == NOTHING and not group.pending:
        return GroupRecord(group.group_id, value)
    value.unsettled = Unsettled(
        phase=phase,
        is_first=group.initial_delay,
        cause="" if group.rebalance is None else group.rebalance.cause,
        pending=[
            PendingMember(member_id=member_id, left_ms=(timer.deadline_ms or now_ms) - now_ms)
            for member_id, timer in group.pending.items()
        ],
    )
    return GroupRecord(group.group_id, value)


def go_on(table: GroupTable, group: ClassicGroup, unsettled: Unsettled, now_ms: int) -> None:
    """Go on in the group, whose members are there, where another coordinator has left it."""
    for pending in unsettled.pending:
        join.promise(table, group, pending.member_id, now_ms + pending.left_ms)
    if unsettled.phase == JOINING:
        group.state = GroupState.PREPARING_REBALANCE
        rebalance.go_on_joining(table, group, unsettled.cause, now_ms, is_first=unsettled.is_first)
    elif unsettled.phase == SYNCING:
        group.state = GroupState.COMPLETING_REBALANCE
        rebalance.go_on_syncing(table, group, unsettled.cause, now_ms)
