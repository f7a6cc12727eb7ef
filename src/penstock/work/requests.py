"""What a worker asks its group's coordinator on the wire, and what the answers mean to its machine."""

from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.work import PROTOCOL_TYPE
from penstock.work.effects import Beat, Join, Sync
from penstock.work.messages import decode_metadata, encode_assignment, encode_metadata
from penstock.work.plan import Member
from penstock.work.worker import Refusal, WorkerSettings

LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


def protocol_of(settings: WorkerSettings) -> str:
    """Members of a group must agree on it: it says whether tasks run on while the group rebalances."""
    return "cooperative" if settings.cooperative else "eager"


def join_request(group_id: str, settings: WorkerSettings, join: Join, member_id: str) -> JoinGroupRequest:
    """`member_id` is the coordinator's, or empty."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=protocol_of(settings), metadata=encode_metadata(join.metadata))],
    )


def sync_request(group_id: str, settings: WorkerSettings, sync: Sync) -> SyncGroupRequest:
    distinct = {id(assignment): assignment for assignment in sync.decided.values()}
    encoded = {key: encode_assignment(assignment) for key, assignment in distinct.items()}
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=sync.generation,
        member_id=sync.member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_of(settings),
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=encoded[id(assignment)])
            for member_id, assignment in sync.decided.items()
        ],
    )


def heartbeat_request(group_id: str, beat: Beat) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=beat.generation, member_id=beat.member_id)


def leave_request(group_id: str, member_id: str) -> LeaveGroupRequest:
    members = [MemberIdentity(member_id=member_id, reason="the worker stops")]
    return LeaveGroupRequest(group_id=group_id, member_id=member_id, members=members)


def members_of(joined: JoinGroupResponse) -> dict[str, Member] | None:
    """By their ids; only the leader gets them. DecodeError."""
    if joined.leader != joined.member_id:
        return None
    return {row.member_id: decode_metadata(row.metadata).member for row in joined.members}


def refusal_of(code: ErrorCode) -> Refusal | None:
    """None for an error that the machine need not know of."""
    if code in LOST:
        return Refusal.LOST
    return Refusal.REBALANCE if code == ErrorCode.REBALANCE_IN_PROGRESS else None
