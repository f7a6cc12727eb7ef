"""Members leave: by a heartbeat of their own, or put out by an administrator's LeaveGroup."""

from functools import partial

from penstock.coordinator.effects import Token
from penstock.coordinator.group.consumer import timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import CURRENT
from penstock.coordinator.group.consumer.requests import when_written
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import Owned
from penstock.coordinator.group.epochs import LEAVES_FOR_NOW
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from penstock.protocol.requests.own_apis import What

BATCHED_SINCE = 3


def leave(house: ConsumerTable, token: Token, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> None:
    """Raises KafkaError."""
    group, member_id = house.find(request.group_id), request.member_id
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
    state, instance_id = group.state, request.instance_id
    if group.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {request.group_id} is being deleted")
    if instance_id is not None:
        member_id = check_instance(state.static_ids.get(instance_id), member_id, instance_id)
    elif member_id not in state.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {request.group_id}")
    left = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    answer = partial(when_written, left)
    if instance_id is not None and request.member_epoch == LEAVES_FOR_NOW:
        draft = house.table.draft()
        _go_for_now(draft, group, member_id)
        house.write(draft, now_ms, then=partial(timing.wrote, house, group), token=token, answer=answer)
    else:
        cause = f"member {member_id} left"
        timing.put_out(house, group, {member_id: What.LEFT}, cause, now_ms, token=token, answer=answer)


def check_instance(holder: str | None, member_id: str, instance_id: str) -> str:
    """The id of the static member. Raises KafkaError if it is not the one that asks."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"the instance {instance_id} is the member {holder} by now")
    return holder


def _go_for_now(draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str) -> None:
    """It keeps its place until its session ends; what it was to give up it has given up by going."""
    current = group.state.current(member_id)
    away = current.replace(epoch=LEAVES_FOR_NOW, assigned=_since_ever(current.assigned), revoking={})
    put(draft, group.group_id, CURRENT, member_id, away)
    group.stop_rebalance(member_id)


def _since_ever(owned: Owned) -> Owned:
    """Whoever comes back has another id, and no epoch of the one before counts for it."""
    return {topic: dict.fromkeys(epochs, 0) for topic, epochs in owned.items()}


def leave_group(
    house: ConsumerTable, token: Token, group: ConsumerGroup, request: LeaveGroupRequest, api_version: int, now_ms: int
) -> None:
    """As an administrator asks it; up to version 2 a request names one member, and the answer has one error."""
    is_batched = api_version >= BATCHED_SINCE
    leavers = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
    going: dict[str, What] = {}
    results = []
    for leaver in leavers:
        error = ErrorCode.NONE
        try:
            member_id = _found(group, leaver)
            going[member_id] = _why(group, member_id, leaver)
        except KafkaError as refusal:
            error = refusal.code
        results.append(
            MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)
        )

    def answer(error: ErrorCode) -> LeaveGroupResponse:
        if error is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=error)
        return (
            LeaveGroupResponse(members=results) if is_batched else LeaveGroupResponse(error_code=results[0].error_code)
        )

    if going:
        cause = f"members left: {', '.join(going)}"
        timing.put_out(house, group, going, cause, now_ms, token=token, answer=answer)
    else:
        house.write(house.table.draft(), now_ms, token=token, answer=answer)


def _found(group: ConsumerGroup, leaver: MemberIdentity) -> str:
    """The id of the member. Raises KafkaError."""
    state, instance_id = group.state, leaver.group_instance_id
    if instance_id is None:
        if group.is_dead or leaver.member_id not in state.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return leaver.member_id
    holder = state.static_ids.get(instance_id)
    return check_instance(holder, leaver.member_id or holder or "", instance_id)


def _why(group: ConsumerGroup, member_id: str, leaver: MemberIdentity) -> What:
    """A classic member that leaves names itself, as nobody else does by this request."""
    by_itself = group.state.members[member_id].classic is not None and bool(leaver.member_id)
    return What.LEFT if by_itself else What.PUT_OUT
