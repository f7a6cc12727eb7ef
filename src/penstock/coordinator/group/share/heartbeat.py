"""ShareGroupHeartbeat: a member joins, goes on, or leaves, by the epoch that it sends.

| epoch sent | what it means |
| --- | --- |
| 0 | join, or join again under the same id |
| that of the member | go on |
| the one before it | the answer was lost, and is given again |
| any other | FENCED_MEMBER_EPOCH |
| -1 | leave |

A member has its target at once: nobody has to give anything up before, for members share partitions. What changes is
written in one batch; the answer goes out when that is committed, or, where nothing changes, when all that was decided
before it is. What members read begins at the share coordinator then, and is given to them with the assignment after.
"""

from functools import partial
from typing import Final
from uuid import UUID

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.epochs import JOINS, LEAVES
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share import assigning, states, timing
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import CURRENT, MEMBER
from penstock.coordinator.group.share.requests import check_request, refused
from penstock.coordinator.group.share.table import ShareGroupTable, put
from penstock.coordinator.group.share.values import NEWCOMER, Current, Initialized, Subscription
from penstock.coordinator.machine import Continuation, Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_NONE: Final = ErrorCode.NONE
_NOBODY: Final = Subscription()

Request = ShareGroupHeartbeatRequest
Response = ShareGroupHeartbeatResponse


def heartbeat(house: ShareGroupTable, token: Token, request: Request, caller: Caller, now_ms: int) -> None:
    """Answered with a ShareGroupHeartbeatResponse."""
    group = house.find(request.group_id)
    if group is not None and _goes_on(house, group, request, caller):
        timing.touch(house, group, request.member_id, now_ms)
        answer = _answer(house, request.group_id, request.member_id, request.member_epoch)
        house.write(house.table.draft(), now_ms, token=token, answer=partial(_when_written, answer))
        return
    draft = house.table.draft()
    begins: Initialized = {}
    try:
        check_request(request)
        if request.member_epoch == LEAVES:
            group, answer = _leave(house, draft, request)
        else:
            group, answer, begins = _take_part(house, draft, request, caller, now_ms)
    except KafkaError as error:
        draft.take_back()
        refusal = refused(error.code, error.message)
        house.write(house.table.draft(), now_ms, token=token, answer=partial(_when_written, refusal))
        return
    then = _then(house, group, begins)
    house.write(draft, now_ms, then=then, token=token, answer=partial(_when_written, answer))


def _then(house: ShareGroupTable, group: ShareGroup, begins: Initialized) -> Continuation:
    def then(error: ErrorCode, now_ms: int) -> None:
        timing.wrote(house, group, error, now_ms)
        if error is _NONE and begins and states.is_there(house, group):
            states.send(house, group, begins)

    return then


def _when_written(answer: Response, error: ErrorCode) -> Response:
    return answer if error is _NONE else refused(error)


def _goes_on(house: ShareGroupTable, group: ShareGroup, request: Request, caller: Caller) -> bool:
    """Whether nothing is to be done but to note that the member lives: so it is with nearly all heartbeats."""
    state = group.state
    current = state.currents.get(request.member_id)
    if (
        current is None
        or current.epoch != request.member_epoch
        or current.epoch != state.assignment.epoch
        or state.epoch != current.epoch
        or group.checked_version != house.topics.version
        or request.subscribed_topic_names is not None
        or request.member_epoch <= JOINS
        or group.is_dead
    ):
        return False
    member = state.members[request.member_id]
    return (
        member.client_id == caller.client_id
        and member.client_host == caller.client_host
        and request.rack_id in (None, member.rack_id)
    )


def _leave(house: ShareGroupTable, draft: Draft[AnyRecord], request: Request) -> tuple[ShareGroup, Response]:
    """Raises KafkaError."""
    group = _group_for(house, request)
    _check_member(group, request.member_id)
    timing.remove(house, draft, group, request.member_id)
    return group, Response(member_id=request.member_id, member_epoch=request.member_epoch)


# -- to take part -----------------------------------------------------------------------------------------------------


def _take_part(
    house: ShareGroupTable, draft: Draft[AnyRecord], request: Request, caller: Caller, now_ms: int
) -> tuple[ShareGroup, Response, Initialized]:
    """With what is about to begin at the share coordinator. Raises KafkaError; the caller takes the draft back."""
    group, member_id = _group_for(house, request), request.member_id
    before = _admitted(house, group, request)
    has_changed = _subscribe(house, draft, group, request, caller)
    spec = assigning.due(house, group, now_ms)
    is_long = spec is not None and spec.size > house.settings.assigned_at_once
    if spec is not None and not is_long:
        assigning.assign(house, draft, group, spec, now_ms)
    assigning.begin(draft, group)
    current = _reconcile(house, draft, group, member_id, subscription_changed=has_changed)
    begins = states.begin(house, draft, group)
    # From here on nothing is refused.
    group.checked_version = house.topics.version
    if house.table.groups.get(group.group_id) is not group:
        house.table.take_place(group, now_ms)
    timing.touch(house, group, member_id, now_ms)
    if spec is not None and is_long:
        assigning.send(house, group, spec)
    answer = _answer(house, group.group_id, member_id, current.epoch)
    has_heard_all = request.member_epoch == before.epoch != JOINS
    if not has_heard_all or request.subscribed_topic_names is not None or before.assigned != current.assigned:
        answer.assignment = _assignment(current.assigned)
    return group, answer, begins


def _group_for(house: ShareGroupTable, request: Request) -> ShareGroup:
    """A new one where a member joins. A group of another kind stays what it is."""
    group_id = request.group_id
    other = house.table.groups.get(group_id)
    if other is not None and other.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id} is being deleted")
    if isinstance(other, ShareGroup):
        return other
    if other is not None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} is no share group")
    if request.member_epoch != JOINS:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id}")
    return house.new_group(group_id)


def _check_member(group: ShareGroup, member_id: str) -> None:
    if member_id not in group.state.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {group.group_id}")


def _admitted(house: ShareGroupTable, group: ShareGroup, request: Request) -> Current:
    """What the member has before this heartbeat."""
    state, member_id, sent = group.state, request.member_id, request.member_epoch
    if member_id not in state.members:
        if sent != JOINS:
            _check_member(group, member_id)
        most = house.settings.max_size
        if len(state.members) >= most:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group.share.max.size={most} lets no more members in")
        return NEWCOMER
    current = state.current(member_id)
    if sent not in (JOINS, current.epoch, current.previous_epoch) or sent > current.epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"epoch {sent} is not {current.epoch}: give up all partitions, and join again",
        )
    return current


def _subscribe(
    house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup, request: Request, caller: Caller
) -> bool:
    """Write what the member says, and the group's next epoch if something calls for one. Whether the member reads
    other topics.
    """
    state, member_id = group.state, request.member_id
    before = state.members.get(member_id, _NOBODY)
    names = request.subscribed_topic_names
    member = Subscription(
        before.rack_id if request.rack_id is None else request.rack_id,
        caller.client_id,
        caller.client_host,
        before.topics if names is None else tuple(sorted(set(names))),
    )
    if member != before or member_id not in state.members:
        put(draft, group.group_id, MEMBER, member_id, member)
    has_changed = member.topics != before.topics
    if has_changed or _is_other_than_known(house, group):
        house.next_epoch(draft, group)
    return has_changed


def _is_other_than_known(house: ShareGroupTable, group: ShareGroup) -> bool:
    """Whether topics that are read have come, gone, or changed, or something has begun that nobody has yet."""
    state = group.state
    if group.checked_version == house.topics.version:
        return False
    if state.assignment.epoch >= state.epoch and assigning.is_pending(house, group):
        return True
    known = state.group.metadata_hash
    return house.topics.hash_of(state.topics, known) != known


def _reconcile(
    house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup, member_id: str, *, subscription_changed: bool
) -> Current:
    """It has its target, as far as it reads that."""
    state = group.state
    current, epoch = state.current(member_id), state.assignment.epoch
    if not subscription_changed and current.epoch == epoch:
        return current
    names, name_of = frozenset(state.members[member_id].topics), house.topics.name_of
    assigned = {topic: indexes for topic, indexes in state.target(member_id).items() if name_of(topic) in names}
    previous = current.previous_epoch if current.epoch == epoch else current.epoch
    following = current.replace(epoch=epoch, previous_epoch=previous, assigned=assigned)
    if following != current:
        put(draft, group.group_id, CURRENT, member_id, following)
    return following


# -- answers ----------------------------------------------------------------------------------------------------------


def _answer(house: ShareGroupTable, group_id: str, member_id: str, epoch: int) -> Response:
    return Response(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=house.heartbeat_interval_ms(group_id)
    )


def _assignment(assigned: Target) -> Assignment:
    return Assignment(
        topic_partitions=[_of_topic(topic, indexes) for topic, indexes in assigned.items()],
    )


def _of_topic(topic: UUID, indexes: tuple[int, ...]) -> TopicPartitions:
    return TopicPartitions(topic_id=topic, partitions=list(indexes))
