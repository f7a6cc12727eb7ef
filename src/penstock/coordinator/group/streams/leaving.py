"""Members leave, for good or, if they are static, for now."""

from functools import partial

from penstock.coordinator.effects import Token
from penstock.coordinator.group.epochs import LEAVES_FOR_NOW
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.streams import timing
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.records import CURRENT
from penstock.coordinator.group.streams.requests import Heard, Request, Response, when_written
from penstock.coordinator.group.streams.table import StreamsTable, put
from penstock.coordinator.group.streams.values import Held
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import What


def leave(house: StreamsTable, token: Token, request: Request, now_ms: int) -> None:
    """Raises KafkaError."""
    group, member_id, instance_id = house.find(request.group_id), request.member_id, request.instance_id
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no streams group {request.group_id}")
    if group.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {request.group_id} is being deleted")
    if instance_id is not None:
        check_instance(group.state.static_ids.get(instance_id), member_id, instance_id)
    elif member_id not in group.state.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {request.group_id}")
    if request.shutdown_application:
        shut_down(house, group, member_id)
    draft = house.table.draft()
    if instance_id is not None and request.member_epoch == LEAVES_FOR_NOW:
        _go_for_now(draft, group, member_id)
    else:
        house.table.historian.because(group.group_id, member_id, What.LEFT)
        house.remove(draft, group, member_id)
    left = Heard(Response(member_id=member_id, member_epoch=request.member_epoch, status=[]))
    then, answer = partial(timing.wrote, house, group), partial(when_written, left)
    house.write(draft, now_ms, then=then, token=token, answer=answer)


def check_instance(holder: str | None, member_id: str, instance_id: str) -> None:
    """Raises KafkaError if the static member is not the one that asks."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"the instance {instance_id} is the member {holder} by now")


def shut_down(house: StreamsTable, group: StreamsGroup, member_id: str) -> None:
    """All members are told to end, until none is left."""
    if not group.shut_down_by:
        group.shut_down_by = member_id
        house.table.note(f"group {group.group_id}: member {member_id} wants the whole application to end")


def _go_for_now(draft: Draft[AnyRecord], group: StreamsGroup, member_id: str) -> None:
    """It keeps its place until its session ends; what it was to give up it has given up by going. Whoever comes back
    has another id, and no epoch of the one before counts for it.
    """
    current = group.state.current(member_id)
    assigned = current.assigned
    since_ever = {subtopology: dict.fromkeys(since, 0) for subtopology, since in assigned.active.items()}
    away = current.replace(epoch=LEAVES_FOR_NOW, assigned=assigned.replace(active=since_ever), revoking=Held())
    put(draft, group.group_id, CURRENT, member_id, away)
    group.stop_rebalance(member_id)
