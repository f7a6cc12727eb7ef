"""StreamsGroupTopologyDescriptionUpdate: a member sends what its application looks like (KIP-1331), and it is kept.

The record of the description and the group's record of which topology it is of are one batch: so no member is asked for
what is there, and what is not there is asked for. Of what can never be kept that is written instead.
"""

from functools import partial

from penstock.coordinator.effects import Token
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.streams import timing
from penstock.coordinator.group.streams.description import DESCRIPTION, stored
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.records import GROUP
from penstock.coordinator.group.streams.table import StreamsTable, put
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

Request = StreamsGroupTopologyDescriptionUpdateRequest
Response = StreamsGroupTopologyDescriptionUpdateResponse


def update(house: StreamsTable, token: Token, request: Request, now_ms: int) -> None:
    """Answered with a StreamsGroupTopologyDescriptionUpdateResponse."""
    answer = partial(_answer, ErrorCode.NONE, None)
    draft = house.table.draft()
    try:
        group = _checked(house, request)
        known, epoch = group.state.group, request.topology_epoch
        try:
            value = stored(epoch, request.topology_description)
        except KafkaError as refusal:
            if refusal.code is not ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED:
                raise
            answer = partial(_answer, refusal.code, refusal.message)
            put(draft, group.group_id, GROUP, ONE, known.replace(failed_description_epoch=epoch))
        else:
            if known.stored_description_epoch != epoch:
                put(draft, group.group_id, DESCRIPTION, ONE, value)
                put(draft, group.group_id, GROUP, ONE, known.replace(stored_description_epoch=epoch))
    except KafkaError as refusal:
        house.write(draft, now_ms, token=token, answer=partial(_answer, refusal.code, refusal.message))
        return
    then = partial(timing.wrote, house, group)
    house.write(draft, now_ms, then=then, token=token, answer=answer)


def _checked(house: StreamsTable, request: Request) -> StreamsGroup:
    """Raises KafkaError."""
    group, member_id = house.find(request.group_id), request.member_id
    if group is None or not group.exists:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no streams group {request.group_id}")
    if group.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {request.group_id} is being deleted")
    if member_id not in group.state.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {request.group_id}")
    if request.topology_epoch != group.state.topology_epoch:
        why = f"the group has the topology of epoch {group.state.topology_epoch}, not of {request.topology_epoch}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return group


def _answer(code: ErrorCode, why: str | None, lost: ErrorCode) -> Response:
    if lost is not ErrorCode.NONE:
        return Response(error_code=lost)
    return Response(error_code=code, error_message=why or None)
