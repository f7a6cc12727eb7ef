"""ConsumerGroupHeartbeat: a member joins, goes on, or leaves, by the epoch that it sends.

| epoch sent | what it means |
| --- | --- |
| 0 | join, or join again under the same id |
| that of the member | go on |
| the one before it | the answer was lost, and is given again, if the member says that it owns no more than it has |
| any other | FENCED_MEMBER_EPOCH |
| -1 | leave; a static member for good |
| -2 | a static member goes, and comes back: whoever brings its instance id takes its place, and its target |

What changes is written in one batch: the member, the group's epoch, targets, and what the member has from now on. The
answer goes out when that is committed, or, where nothing changes, when all that was decided before it is.
"""

from functools import partial
from typing import Final

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import assigning, fencing, leaving, reconcile, resolving, timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import CURRENT, MEMBER, TARGET
from penstock.coordinator.group.consumer.requests import check_request, refused, said_by
from penstock.coordinator.group.consumer.resolving import MayDescribe
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import (
    JOINS,
    LEAVES_FOR_NOW,
    NEWCOMER,
    STABLE,
    Current,
    Owned,
    Subscription,
)
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE
_NOBODY: Final = Subscription()

Request = ConsumerGroupHeartbeatRequest
Response = ConsumerGroupHeartbeatResponse


def heartbeat(
    house: ConsumerTable, token: Token, request: Request, caller: Caller, may_describe: MayDescribe, now_ms: int
) -> None:
    """Answered with a ConsumerGroupHeartbeatResponse."""
    group = house.find(request.group_id)
    if group is not None and _goes_on(house, group, request, caller):
        timing.touch(house, group, request.member_id, now_ms)
        answer = _answer(house, request.group_id, request.member_id, request.member_epoch)
        house.write(house.table.draft(), now_ms, token=token, answer=partial(_when_written, answer))
        return
    draft = house.table.draft()
    try:
        check_request(request, caller.api_version, house.settings.assignors)
        if request.member_epoch < JOINS:
            group, answer = leaving.leave(house, draft, request)
        else:
            group, answer = _take_part(house, draft, request, caller, may_describe, now_ms)
    except KafkaError as error:
        draft.take_back()
        refusal = refused(error.code, str(error))
        house.write(house.table.draft(), now_ms, token=token, answer=partial(_when_written, refusal))
        return
    then = partial(timing.wrote, house, group)
    house.write(draft, now_ms, then=then, token=token, answer=partial(_when_written, answer))


def _when_written(answer: Response, error: ErrorCode) -> Response:
    return answer if error is _NONE else refused(error)


def _goes_on(house: ConsumerTable, group: ConsumerGroup, request: Request, caller: Caller) -> bool:
    """Whether nothing is to be done but to note that the member lives: so it is with nearly all heartbeats."""
    state = group.state
    current = state.currents.get(request.member_id)
    if (
        current is None
        or current.epoch != request.member_epoch
        or current.state != STABLE
        or current.epoch != state.assignment.epoch
        or state.epoch != current.epoch
        or group.checked_version != house.topics.version
        or request.rebalance_timeout_ms != -1
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.member_epoch <= JOINS
        or group.is_dead
        or state.wanted_expressions
    ):
        return False
    member = state.members[request.member_id]
    return (
        member.client_id == caller.client_id
        and member.client_host == caller.client_host
        and request.instance_id in (None, member.instance_id)
        and request.rack_id in (None, member.rack_id)
    )


# -- to take part -----------------------------------------------------------------------------------------------------


def _take_part(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    request: Request,
    caller: Caller,
    may_describe: MayDescribe,
    now_ms: int,
) -> tuple[ConsumerGroup, Response]:
    """Raises KafkaError; the caller takes the draft back."""
    group = _group_for(house, draft, request)
    member_id = request.member_id or house.table.new_member_id(caller.client_id or "consumer")
    _check_room(house, group, member_id, request.instance_id)
    before = _admitted(draft, group, member_id, request)
    has_changed = _subscribe(house, draft, group, member_id, request, caller)
    spec = assigning.due(house, group, now_ms)
    is_long = spec is not None and spec.size > house.settings.assigned_at_once
    if spec is not None and not is_long:
        assigning.assign(house, draft, group, spec, now_ms)
    assigning.begin(draft, group)
    current = _reconcile(house, draft, group, member_id, request, subscription_changed=has_changed)
    # From here on nothing is refused.
    group.checked_version = house.topics.version
    if house.table.groups.get(group.group_id) is not group:
        house.table.take_place(group, now_ms)
    timing.touch(house, group, member_id, now_ms)
    timing.follow(house, group, member_id, now_ms)
    if len(group.sessions) > len(group.state.members):
        timing.settle(house, group, now_ms)  # a static member's place was taken
    if spec is not None and is_long:
        assigning.send(house, group, spec)
    resolving.resolve_if_due(house, group, may_describe, now_ms)
    answer = _answer(house, group.group_id, member_id, current.epoch)
    has_heard_all = request.member_epoch == before.epoch != JOINS
    if not has_heard_all or _is_full(request) or _partitions(before) != _partitions(current):
        answer.assignment = _assignment(current.assigned)
    return group, answer


def _group_for(house: ConsumerTable, draft: Draft[AnyRecord], request: Request) -> ConsumerGroup:
    group_id = request.group_id
    other = house.table.groups.get(group_id)
    if other is not None and other.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id} is being deleted")
    if isinstance(other, ConsumerGroup):
        return other
    if request.member_epoch != JOINS:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    if other is not None:
        if not other.may_expire:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} is no consumer group, and has members")
        for record in other.tombstones() if house.table.image.group(other.kind, group_id) is not None else ():
            draft.put(record)
    return house.new_group(group_id)


def _check_room(house: ConsumerTable, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    state, most = group.state, house.settings.max_size
    is_known = member_id in state.members or (instance_id is not None and instance_id in state.static_ids)
    if not is_known and len(state.members) >= most:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group.consumer.max.size={most} lets no more members in")


def _admitted(draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str, request: Request) -> Current:
    """What the member has before this heartbeat; a static one that was away has its place under its new id."""
    state, instance_id = group.state, request.instance_id
    is_joining = request.member_epoch == JOINS
    if instance_id is not None:
        holder = state.static_ids.get(instance_id)
        if is_joining and holder is not None:
            return _take_over(draft, group, holder, member_id, instance_id)
        if not is_joining:
            leaving.check_instance(holder, member_id, instance_id)
    if member_id not in state.members:
        if is_joining:
            return NEWCOMER
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {group.group_id}")
    current = state.current(member_id)
    _check_epoch(current, request)
    return current


def _check_epoch(current: Current, request: Request) -> None:
    sent, known = request.member_epoch, current.epoch
    if sent in (JOINS, known):
        return
    if sent == current.previous_epoch and sent < known and _is_within(said_by(request), current.assigned):
        return  # the answer with the newer epoch was lost
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH, f"epoch {sent} is not {known}: give up all partitions, and join again"
    )


def _is_within(said: reconcile.Said | None, assigned: Owned) -> bool:
    return said is not None and all(
        partition in assigned.get(topic, ()) for topic, partitions in said.items() for partition in partitions
    )


def _take_over(draft: Draft[AnyRecord], group: ConsumerGroup, holder: str, member_id: str, instance_id: str) -> Current:
    state, group_id = group.state, group.group_id
    current = state.current(holder)
    if current.epoch != LEAVES_FOR_NOW:
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance {instance_id} is in use by {holder}")
    member, target = state.members[holder], state.target(holder)
    fencing.take_out(draft, group, holder)
    taken = current.replace(epoch=JOINS, previous_epoch=JOINS)
    put(draft, group_id, MEMBER, member_id, member)
    put(draft, group_id, TARGET, member_id, target)
    put(draft, group_id, CURRENT, member_id, taken)
    return taken


# -- what changes -----------------------------------------------------------------------------------------------------


def _subscribe(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    member_id: str,
    request: Request,
    caller: Caller,
) -> bool:
    """Write what the member says, and the group's next epoch if that calls for one. Whether it reads other topics."""
    state = group.state
    before = state.members.get(member_id, _NOBODY)
    assignor = state.preferred_assignor(house.settings.assignors)
    member = _said(before, request, caller)
    names_changed, expression_changed = member.topics != before.topics, member.pattern != before.pattern
    is_resolved = False
    if expression_changed:
        is_resolved = _check_expression(group, before, member)
    if member != before or member_id not in state.members:
        put(draft, group.group_id, MEMBER, member_id, member)
        if expression_changed:
            fencing.drop_unread_expressions(draft, group)
    state = group.state
    if (
        names_changed
        or is_resolved
        or state.preferred_assignor(house.settings.assignors) != assignor
        or (group.checked_version != house.topics.version and _are_other_topics(house, group))
    ):
        fencing.next_epoch(house, draft, group)
    return names_changed or expression_changed


def _are_other_topics(house: ConsumerTable, group: ConsumerGroup) -> bool:
    """Whether some that are read have come, gone, or have other partitions or racks."""
    return house.topics.hash_of(group.state.topics) != group.state.group.metadata_hash


def _check_expression(group: ConsumerGroup, before: Subscription, member: Subscription) -> bool:
    """Whether it is known already what the new one matches. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if not member.pattern:
        return bool(before.pattern)
    if not group.state.readers(member.pattern):
        resolving.check(member.pattern)
    return member.pattern in group.state.expressions


def _said(before: Subscription, request: Request, caller: Caller) -> Subscription:
    """What a request leaves out stays as it was."""
    names = request.subscribed_topic_names
    return Subscription(
        _or(request.instance_id, before.instance_id),
        _or(request.rack_id, before.rack_id),
        caller.client_id,
        caller.client_host,
        before.topics if names is None else tuple(sorted(set(names))),
        _or(request.subscribed_topic_regex, before.pattern),
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        _or(request.server_assignor, before.assignor),
    )


def _or(said: str | None, before: str | None) -> str | None:
    return before if said is None else said


def _reconcile(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    member_id: str,
    request: Request,
    *,
    subscription_changed: bool,
) -> Current:
    state = group.state
    current, epoch = state.current(member_id), state.assignment.epoch
    if not subscription_changed and current.is_reconciled_to(epoch):
        return current
    names, name_of = state.topics_of(state.members[member_id]), house.topics.name_of
    wanted = reconcile.Wanted(
        epoch,
        state.target(member_id),
        lambda topic: name_of(topic) in names,
        lambda topic, partition: (topic, partition) in state.owners,
    )
    following = reconcile.reconciled(current, wanted, said_by(request), subscription_changed=subscription_changed)
    if following != current or member_id not in state.currents:
        put(draft, group.group_id, CURRENT, member_id, following)
    return following


# -- answers ----------------------------------------------------------------------------------------------------------


def _answer(house: ConsumerTable, group_id: str, member_id: str, epoch: int) -> Response:
    return Response(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=house.heartbeat_interval_ms(group_id)
    )


def _is_full(request: Request) -> bool:
    """Whether it says all that a member says of itself, as it does after an error: then the answer says all, too."""
    names_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and names_topics and request.topic_partitions is not None


def _partitions(current: Current) -> dict[object, frozenset[int]]:
    return {topic: frozenset(epochs) for topic, epochs in current.assigned.items()}


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=sorted(epochs))
            for topic, epochs in assigned.items()
        ]
    )
