"""JoinGroup, SyncGroup and Heartbeat of classic members in a consumer group.

The coordinator assigns. A classic member comes to its target by rejoining: its subscription says what it has, as a
heartbeat of the other protocol does; its generation is its epoch.

| request | what follows |
| --- | --- |
| JoinGroup | what the member has from now on is decided; it follows, nobody leads; it is to sync in time |
| SyncGroup | what it has, at its epoch |
| Heartbeat | REBALANCE_IN_PROGRESS where it is to rejoin: there is a new target, something to give up, or to take |

Whoever is told to rejoin, or has joined and is to sync, has its rebalance timeout for that (`ConsumerGroup.calls`).
"""

from functools import partial
from uuid import UUID

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.answers import join_error, sync_error
from penstock.coordinator.group.classic.join import Join, check_request, join_group
from penstock.coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.group.consumer import downgrade, embedded, taking_part, timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.leaving import check_instance
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.upgrade import classic_metadata
from penstock.coordinator.group.consumer.values import (
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Current,
    Subscription,
)
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.settings import MigrationPolicy
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
"""The version of JoinGroup from which on a newcomer is told its id first (KIP-394)."""


# -- JoinGroup --------------------------------------------------------------------------------------------------------


def join(house: ConsumerTable, group: ConsumerGroup, join: Join, now_ms: int) -> None:
    """Answered with a JoinGroupResponse."""
    request, draft = join.request, house.table.draft()
    prefix = request.group_instance_id or join.caller.client_id
    member_id = request.member_id or house.table.new_member_id(prefix)
    try:
        said = _check(house, group, member_id, join)
        before = _admitted(draft, group, member_id, said, join)
        epoch = group.state.epoch
        member = _subscription(said, before, join)
        decided = taking_part.decide(house, draft, group, member_id, member, _by_topic(said), now_ms)
    except KafkaError as error:
        draft.take_back()
        house.refuse(join.token, partial(join_error, member_id=member_id), error.code, now_ms)
        return
    if before.instance_id is not None and before.classic is None and downgrade.is_due(house, group):
        _go_down(house, draft, group, member_id, join, epoch, now_ms)
        return
    house.write(
        draft,
        now_ms,
        then=partial(timing.wrote, house, group),
        token=join.token,
        answer=partial(_joined, member_id, decided.current.epoch, join),
    )
    taking_part.take_effect(house, group, member_id, decided, now_ms)
    timing.call(house, group, member_id, now_ms)


def _check(house: ConsumerTable, group: ConsumerGroup, member_id: str, join: Join) -> embedded.Said:
    """Raises KafkaError."""
    request, names = join.request, [name for name, _ in join.protocols]
    error = check_request(house.table, request)
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
    if group.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if house.settings.migration_policy is MigrationPolicy.DISABLED:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    taking_part.check_room(house, group, member_id, request.group_instance_id)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.state.supports(names):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    has_id = bool(request.member_id) or request.group_instance_id is not None
    if not has_id and join.caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
        raise KafkaError(ErrorCode.MEMBER_ID_REQUIRED)
    try:
        return embedded.read_subscription(join.protocols[0][1], house.topics)
    except DecodeError as cause:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from cause


def _admitted(
    draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str, said: embedded.Said, join: Join
) -> Subscription:
    """What is known of the member: an instance that comes back without its id takes the place that it has."""
    state, instance_id = group.state, join.request.group_instance_id
    if instance_id is None:
        if member_id not in state.members and said.owned:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)  # it was put out, and has not heard: others may read that
        return state.members.get(member_id, taking_part.NOBODY)
    holder = state.static_ids.get(instance_id)
    if join.request.member_id:
        return state.members[check_instance(holder, member_id, instance_id)]
    if holder is None:
        return taking_part.NOBODY
    before = state.members[holder]
    taking_part.take_over(draft, group, holder, member_id)
    return before


def _subscription(said: embedded.Said, before: Subscription, join: Join) -> Subscription:
    return Subscription(
        join.request.group_instance_id or before.instance_id,
        said.rack or before.rack_id,
        join.caller.client_id,
        join.caller.client_host,
        said.topics,
        None,
        join.rebalance_timeout_ms,
        before.assignor,
        classic_metadata(join.request.session_timeout_ms, join.protocols),
    )


def _by_topic(said: embedded.Said) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic, index in said.owned:
        topics.setdefault(topic, []).append(index)
    return topics


def _joined(member_id: str, epoch: int, join: Join, error: ErrorCode) -> JoinGroupResponse:
    if error is not ErrorCode.NONE:
        return join_error(error, member_id)
    return JoinGroupResponse(
        generation_id=epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=join.protocols[0][0],
        member_id=member_id,
    )


def _go_down(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    member_id: str,
    join: Join,
    epoch: int,
    now_ms: int,
) -> None:
    """The last consumer is replaced: the member has joined if all are where they are to be, or joins the classic group
    that calls them back.
    """
    state = group.state
    is_settled = state.epoch == epoch and all(
        state.current(one).is_reconciled_to(state.assignment.epoch) for one in state.members
    )
    cause = f"static member {join.request.group_instance_id} speaks the classic protocol now, as all others do"
    downgrade.downgrade(house, draft, group, epoch, cause, now_ms, is_settled=is_settled)
    then = partial(downgrade.wrote, house, group.group_id)
    if is_settled:
        answer = partial(_joined, member_id, epoch, join)
        house.write(draft, now_ms, then=then, token=join.token, answer=answer)
        downgrade.take_effect(house, group, now_ms)
    else:
        house.write(draft, now_ms, then=then)
        downgrade.take_effect(house, group, now_ms)
        join_group(house.table, join.token, join.request.replace(member_id=member_id), join.caller, now_ms)


# -- SyncGroup and Heartbeat ------------------------------------------------------------------------------------------


def sync(house: ConsumerTable, token: Token, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> None:
    member_id = request.member_id
    error = _check_sync(group, request)
    if error is ErrorCode.NONE and _has_new_target(group, group.state.current(member_id)):
        timing.call_if_not(house, group, member_id, now_ms)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE:
        house.refuse(token, sync_error, error, now_ms)
        return
    metadata = group.state.members[member_id].classic.supported_protocols[0].metadata
    assignment = embedded.write_assignment(group.state.current(member_id).assigned, bytes(metadata), house.topics)
    group.stop_call(member_id)
    timing.touch(house, group, member_id, now_ms)

    def answer(error: ErrorCode) -> SyncGroupResponse:
        if error is not ErrorCode.NONE:
            return sync_error(error)
        return SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )

    house.write(house.table.draft(), now_ms, token=token, answer=answer)


def _check_sync(group: ConsumerGroup, request: SyncGroupRequest) -> ErrorCode:
    error = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    name = group.state.members[request.member_id].classic.supported_protocols[0].name
    is_type = request.protocol_type in (None, CONSUMER_PROTOCOL_TYPE)
    return (
        ErrorCode.NONE if is_type and request.protocol_name in (None, name) else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


def heartbeat(house: ConsumerTable, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    error = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    member_id = request.member_id
    timing.touch(house, group, member_id, now_ms)
    current = group.state.current(member_id)
    if (
        _has_new_target(group, current)
        or current.state == UNREVOKED_PARTITIONS
        or (current.state == UNRELEASED_PARTITIONS and _is_all_free(group, member_id, current))
    ):
        timing.call_if_not(house, group, member_id, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    state = group.state
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is not None:
        holder = state.static_ids.get(instance_id)
        if holder is not None and holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    member = state.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if generation == state.current(member_id).epoch else ErrorCode.ILLEGAL_GENERATION


def _has_new_target(group: ConsumerGroup, current: Current) -> bool:
    """A member that is to give something up has rejoined for that already: it comes again by itself."""
    return group.state.assignment.epoch > current.epoch and current.state != UNREVOKED_PARTITIONS


def _is_all_free(group: ConsumerGroup, member_id: str, current: Current) -> bool:
    """Whether nobody has what the member still waits for."""
    owners = group.state.owners
    return not any(
        partition not in current.assigned.get(topic, ()) and (topic, partition) in owners
        for topic, partitions in group.state.target(member_id).items()
        for partition in partitions
    )
