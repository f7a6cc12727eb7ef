"""SyncGroup, Heartbeat and LeaveGroup: what members do between two joins."""

from typing import Final

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic import rebalance
from penstock.coordinator.group.classic.answers import sync_error
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState, find_classic
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.records import GroupMetadataValue
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.requests.own_apis import What

# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE
_PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE


def sync_group(table: GroupTable, token: Token, request: SyncGroupRequest, now_ms: int) -> None:
    """Answer a member with its assignment, now or once the leader's is stored."""
    group = find_classic(table.groups, request.group_id)
    error = _check_sync(group, request)
    if error is not ErrorCode.NONE or group is None:
        table.reply(token, sync_error(error))
        return
    member = group.members[request.member_id]
    group.unsynced.pop(member.member_id, None)
    if group.state is GroupState.STABLE:
        member.heard(table.timers, now_ms)
        table.reply(token, _sync_answer(group, member))
        return
    rebalance.answer_sync(table, member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
    member.sync_token = token
    member.heard(table.timers, now_ms)
    if member.member_id == group.leader_id and not _is_stored(table, group):
        _store_assignment(table, group, request, now_ms)


def _check_sync(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    error = _check(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE or group is None:
        return error
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _is_stored(table: GroupTable, group: ClassicGroup) -> bool:
    """Whether an assignment of this generation is under way: there is to be one only."""
    stored: GroupMetadataValue | None = table.image.group(group.kind, group.group_id)
    return stored is not None and stored.generation == group.generation and stored.unsettled is None


def _store_assignment(table: GroupTable, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
    """Members hear of the leader's assignment only when it is persisted."""
    generation = group.generation
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}

    def then(error: ErrorCode, now_ms: int) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return  # Another rebalance came between: the members have their answers.
        if error is not ErrorCode.NONE:
            rebalance.fail_assignment(table, group, group_write_error(error), now_ms)
            return
        group.transition_to(GroupState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            rebalance.answer_sync(table, member, _sync_answer(group, member), now_ms)
        rebalance.finish(table, group, now_ms)

    # A write that is late counts as failed: should it be committed after all, another rebalance has come between.
    rebalance.append_group(table, group, assignments, then, now_ms, when_late=then)


def heartbeat(table: GroupTable, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Note that a member lives, and tell it whether it is called back."""
    group = find_classic(table.groups, request.group_id)
    error = _check(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not _NONE or group is None:
        return error
    member = group.members[request.member_id]
    member.heard(table.timers, now_ms)
    member.commits_when_asked = request.commits_when_asked
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING_REBALANCE else _NONE


def leave_group(table: GroupTable, token: Token, request: LeaveGroupRequest, api_version: int, now_ms: int) -> None:
    """Static members go, too (KIP-345). Up to version 2 a request names one member, the answer has one error."""
    batched = api_version >= 3
    leavers = request.members if batched else [MemberIdentity(member_id=request.member_id)]
    group = find_classic(table.groups, request.group_id)
    if group is not None and group.is_dead:
        table.reply(token, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    causes: list[str] = []
    results = [
        MemberResponse(
            member_id=leaver.member_id,
            group_instance_id=leaver.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID if group is None else _take_out(table, group, leaver, causes),
        )
        for leaver in leavers
    ]
    if batched:
        table.reply(token, LeaveGroupResponse(members=results))
    else:
        table.reply(token, LeaveGroupResponse(error_code=results[0].error_code))
    if group is None:
        return
    if causes:
        rebalance.begin_or_go_on(table, group, "; ".join(causes), now_ms)
    else:
        rebalance.go_on(table, group, now_ms)  # A member that had only an id may be gone.


def _take_out(table: GroupTable, group: ClassicGroup, leaver: MemberIdentity, causes: list[str]) -> ErrorCode:
    member_id, instance_id = leaver.member_id, leaver.group_instance_id
    if instance_id is None and member_id in group.pending:
        rebalance.drop_pending(group, member_id)
        return ErrorCode.NONE
    if not member_id and instance_id is not None:
        member_id = group.static_ids.get(instance_id, "")  # An administrator removes it: no id is needed.
    error = group.check_member(member_id, instance_id)
    if error is ErrorCode.NONE:
        by_itself = bool(leaver.member_id)
        rebalance.drop_member(table, group, group.members[member_id], What.LEFT if by_itself else What.PUT_OUT)
        reason = f" (client: {leaver.reason})" if leaver.reason else ""
        causes.append(f"member {member_id} left{reason}")
    return error


def _sync_answer(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _check(group: ClassicGroup | None, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """The first check of SyncGroup and Heartbeat: is it a member, and of this generation?"""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(member_id, instance_id)
    if error is _NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error
