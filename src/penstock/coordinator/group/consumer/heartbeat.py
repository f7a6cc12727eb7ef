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

from penstock.coordinator.effects import Token
from penstock.coordinator.group.assigned_group import Usual
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import fencing, leaving, pace, reconcile, resolving, taking_part, timing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.requests import check_request, refused, said_by, when_written
from penstock.coordinator.group.consumer.resolving import MayDescribe
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.upgrade import upgrade
from penstock.coordinator.group.consumer.values import NEWCOMER, STABLE, Current, Owned, Subscription
from penstock.coordinator.group.epochs import JOINS, LEAVES_FOR_NOW
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

Request = ConsumerGroupHeartbeatRequest
Response = ConsumerGroupHeartbeatResponse


def heartbeat(
    house: ConsumerTable, token: Token, request: Request, caller: Caller, may_describe: MayDescribe, now_ms: int
) -> None:
    """Answered with a ConsumerGroupHeartbeatResponse."""
    group = house.find(request.group_id)
    if group is not None and _goes_on(house, group, request, caller):
        timing.touch(house, group, request.member_id, now_ms)
        interval_ms = pace.next_heartbeat_ms(house, group, now_ms)
        answer = _answer(request.member_id, request.member_epoch, interval_ms)
        house.write(house.table.draft(), now_ms, token=token, answer=partial(when_written, answer))
        return
    draft = house.table.draft()
    try:
        check_request(request, caller.api_version, house.settings.assignors)
        if request.member_epoch < JOINS:
            leaving.leave(house, token, request, now_ms)
            return
        group, answer = _take_part(house, draft, request, caller, may_describe, now_ms)
    except KafkaError as error:
        draft.take_back()
        refusal = refused(error.code, str(error))
        house.write(house.table.draft(), now_ms, token=token, answer=partial(when_written, refusal))
        return
    then = partial(timing.wrote, house, group)
    house.write(draft, now_ms, then=then, token=token, answer=partial(when_written, answer))


def goes_on(house: ConsumerTable, request: Request, caller: Caller, now_ms: int) -> int | None:
    """In how many milliseconds the member is to come again, if nothing is to be done but to note that it lives, and all
    is committed on which that rests: its answer has its id and epoch beside it. None for any other heartbeat.
    """
    group = house.find(request.group_id)
    session = None if group is None else group.sessions.get(request.member_id)
    if group is None or session is None or house.table.is_writing:
        return None
    state, topics = group.state, house.topics
    configs = topics.configs_of(group.group_id)
    rests_on = request, caller, state, state.changes, topics.version, configs, house.settings
    usual = session.usual
    if usual.rests_on != rests_on:
        if not _goes_on(house, group, request, caller):
            return None
        interval_ms = pace.next_heartbeat_ms(house, group, now_ms)
        usual = Usual(rests_on, timing.silence_ms(house, group, request.member_id), interval_ms)
        is_short = request.topic_partitions is None  # what a member says of its partitions may be of any length
        if is_short and pace.stays(house, group, interval_ms, now_ms):
            session.usual = usual
    return usual.interval_ms if group.prolong(request.member_id, now_ms, usual.timeout_ms) else None


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
    taking_part.check_room(house, group, member_id, request.instance_id)
    before = _admitted(draft, group, member_id, request)
    member = _said(group.state.members.get(member_id, taking_part.NOBODY), request, caller)
    decided = taking_part.decide(house, draft, group, member_id, member, said_by(request), now_ms)
    # From here on nothing is refused.
    taking_part.take_effect(house, group, member_id, decided, now_ms)
    current = decided.current
    resolving.resolve_if_due(house, group, may_describe, now_ms)
    answer = _answer(member_id, current.epoch, pace.next_heartbeat_ms(house, group, now_ms))
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
        if isinstance(other, ClassicGroup) and other.members:
            return _upgraded(house, draft, other, request)
        house.make_room(draft, other, "consumer")
    return house.new_group(group_id)


def _upgraded(house: ConsumerTable, draft: Draft[AnyRecord], classic: ClassicGroup, request: Request) -> ConsumerGroup:
    """Where members were joining, what they have is no assignment of them all. Whoever joins opens an epoch, and so the
    targets are worked out; who takes the place of a static member does not.
    """
    group = upgrade(house, draft, classic)
    if classic.state is not GroupState.STABLE and request.instance_id in group.state.static_ids:
        fencing.next_epoch(house, draft, group)
    return group


def _admitted(draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str, request: Request) -> Current:
    """What the member has before this heartbeat; a static one that was away has its place under its new id."""
    state, instance_id = group.state, request.instance_id
    is_joining = request.member_epoch == JOINS
    if instance_id is not None:
        holder = state.static_ids.get(instance_id)
        if is_joining and holder is not None:
            _check_released(group, holder, instance_id)
            return taking_part.take_over(draft, group, holder, member_id)
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


def _check_released(group: ConsumerGroup, holder: str, instance_id: str) -> None:
    """A classic member never says that it goes for a while: whoever brings its instance id has its place."""
    state = group.state
    if state.members[holder].classic is None and state.current(holder).epoch != LEAVES_FOR_NOW:
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance {instance_id} is in use by {holder}")


def _is_within(said: reconcile.Said | None, assigned: Owned) -> bool:
    return said is not None and all(
        partition in assigned.get(topic, ()) for topic, partitions in said.items() for partition in partitions
    )


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


# -- answers ----------------------------------------------------------------------------------------------------------


def _answer(member_id: str, epoch: int, interval_ms: int) -> Response:
    return Response(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms)


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
