"""What administrators do to what a share group has read: begin elsewhere, forget topics, or the whole group.

The group has no members. Each goes to the next epoch where a state begins anew: the leaders that still know the one
before are shut out by that. Answers come when the share coordinators have done it, or one of them could not. What is to
begin is asked again for some seconds where a share coordinator is not there yet: before the first, its topic is made.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from penstock.coordinator.effects import Token
from penstock.coordinator.group import removal
from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share import states, timing
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import PARTITIONS
from penstock.coordinator.group.share.states import BY_STRATEGY, Errors, first_error
from penstock.coordinator.group.share.table import ShareGroupTable, put
from penstock.coordinator.group.share.values import Initialized, OfTopic
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from penstock.protocol.uuids import ZERO_UUID

AGAIN: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)
ATTEMPTS: Final = 6
"""The last one is 3 seconds after the first: whoever asks waits for it."""
NOTHING_THERE: Final = "There is no offset information to delete."


# -- to begin elsewhere -----------------------------------------------------------------------------------------------


def alter(
    house: ShareGroupTable, token: Token, request: AlterShareGroupOffsetsRequest, now_ms: int, attempt: int = 0
) -> None:
    """A group that is not there is made. Answered with an AlterShareGroupOffsetsResponse.

    It waits for what was decided before: what members read begins though they have gone, and topics are deleted.
    """
    draft = house.table.draft()
    try:
        group = _empty_group(house, request.group_id, makes=True)
    except KafkaError as error:
        refusal = partial(_refused_alteration, error.code, error.message)
        house.write(draft, now_ms, token=token, answer=refusal)
        return
    answer = AlterShareGroupOffsetsResponse()
    offsets: dict[UUID, dict[int, int]] = {}
    for topic in request.topics:
        answer.responses.append(_altered(house, group, topic, offsets))
    if attempt + 1 < ATTEMPTS and any(
        it.error_code == states.BUSY for told in answer.responses for it in told.partitions
    ):

        def again(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE:
                alter(house, token, request, now_ms, attempt + 1)
            else:
                house.table.reply(token, _unless_lost(answer, group_write_error(error)))

        house.table.pause(again, now_ms + states.pause_ms(house, attempt))
        return
    offsets = {topic: found for topic, found in offsets.items() if found}
    if not offsets:
        house.write(draft, now_ms, token=token, answer=lambda error: _unless_lost(answer, error))
        return
    house.next_epoch(draft, group)
    new = _begin_new(house, draft, group, offsets)
    if house.table.groups.get(group.group_id) is not group:
        house.table.take_place(group, now_ms)

    def then(error: ErrorCode, now_ms: int) -> None:
        timing.wrote(house, group, error, now_ms)
        if error is ErrorCode.NONE and states.is_there(house, group):
            finish = partial(_begun, house, group, new, answer, token)
            _ask_to_begin(house, group, offsets, group.committed.epoch, finish)
        else:
            house.table.reply(token, _unless_lost(answer, _lost(error)))

    house.write(draft, now_ms, then=then)


def _empty_group(house: ShareGroupTable, group_id: str, *, makes: bool) -> ShareGroup:
    """Raises KafkaError."""
    group = house.table.groups.get(group_id)
    if group is not None and group.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id} is being deleted")
    if group is None and makes:
        return house.new_group(group_id)
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id}")
    if group.state.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
    return group


def _altered(
    house: ShareGroupTable,
    group: ShareGroup,
    topic: AlterShareGroupOffsetsRequestTopic,
    offsets: dict[UUID, dict[int, int]],
) -> AlterShareGroupOffsetsResponseTopic:
    """The answer if all goes well; what can be done is added to `offsets`."""
    topic_id = house.topics.id_of(topic.topic_name)
    count = 0 if topic_id is None else house.topics.partitions([topic.topic_name])[topic_id]
    answer = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id or ZERO_UUID)
    for wanted in topic.partitions:
        error = ErrorCode.NONE
        if topic_id is None or not 0 <= wanted.partition_index < count:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic_id in group.state.partitions.deleting or topic_id in group.state.partitions.initializing:
            error = states.BUSY  # what was decided before is under way
        elif wanted.start_offset < BY_STRATEGY:
            error = ErrorCode.INVALID_REQUEST
        else:
            offsets.setdefault(topic_id, {})[wanted.partition_index] = wanted.start_offset
        answer.partitions.append(
            AlterShareGroupOffsetsResponsePartition(partition_index=wanted.partition_index, error_code=error)
        )
    return answer


def _begin_new(
    house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup, offsets: Mapping[UUID, Mapping[int, int]]
) -> Initialized:
    """What the group does not have yet begins by this; it is back where it was should that fail."""
    known = group.state.partitions
    new: dict[UUID, OfTopic] = {}
    for topic, partitions in offsets.items():
        had = set(known.initialized[topic].partitions) if topic in known.initialized else set()
        left = tuple(sorted(index for index in partitions if index not in had))
        if left:
            new[topic] = OfTopic(house.topics.name_of(topic) or "", left)
    house.put_partitions(draft, group, known.begun(new))
    waiting = group.state.partitions.initializing
    return {topic: waiting[topic] for topic in new}


def _ask_to_begin(
    house: ShareGroupTable,
    group: ShareGroup,
    offsets: states.Offsets,
    epoch: int,
    finish: states.Finish,
    attempt: int = 0,
) -> None:
    """Asked again it is for the same epoch: what was altered meanwhile stays so."""

    def asked(errors: Errors, now_ms: int) -> None:
        def again(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE and _may_still_begin(house, group, offsets):
                _ask_to_begin(house, group, offsets, epoch, finish, attempt + 1)
            else:
                finish(errors, now_ms)

        may_help = attempt + 1 < ATTEMPTS and _may_still_begin(house, group, offsets)
        if may_help and any(error in AGAIN for found in errors.values() for error in found.values()):
            house.table.pause(again, now_ms + states.pause_ms(house, attempt))
        else:
            finish(errors, now_ms)

    states.ask_to_begin(house, group, offsets, epoch, asked)


def _may_still_begin(house: ShareGroupTable, group: ShareGroup, offsets: states.Offsets) -> bool:
    """The group has no members yet, and nothing of that is to be deleted by now."""
    known = group.state.partitions
    are_known = all(topic in known.initializing or topic in known.initialized for topic in offsets)
    return are_known and states.is_there(house, group) and not group.state.members


def _begun(
    house: ShareGroupTable,
    group: ShareGroup,
    new: Initialized,
    answer: AlterShareGroupOffsetsResponse,
    token: Token,
    errors: Errors,
    now_ms: int,
) -> None:
    failed = {topic: found for topic, found in new.items() if first_error(errors[topic]) is not ErrorCode.NONE}
    for told in answer.responses:
        for partition in told.partitions:
            if not partition.error_code:
                partition.error_code = errors[told.topic_id][partition.partition_index]
            undone = failed.get(told.topic_id)
            if not partition.error_code and undone is not None and partition.partition_index in undone.partitions:
                partition.error_code = first_error(errors[told.topic_id])
    if not states.is_there(house, group):
        house.table.reply(token, answer)
        return
    done = {topic: found for topic, found in new.items() if topic not in failed}
    _write_begun(house, group, failed, done, now_ms, token, lambda error: _unless_lost(answer, error))


def _write_begun(
    house: ShareGroupTable,
    group: ShareGroup,
    failed: Initialized,
    done: Initialized,
    now_ms: int,
    token: Token | None = None,
    answer: Callable[[ErrorCode], object] = lambda _: None,
) -> None:
    """What became of it; again where that is not committed: nobody else goes on with what is about to begin. What was
    begun by somebody else meanwhile is that one's, though it looks the same. Of a new topic that has failed all goes: a
    part of it may have begun, or may do so yet.
    """
    waiting = group.state.partitions.initializing
    still = {topic: found for topic, found in done.items() if waiting.get(topic) is found}
    draft = house.table.draft()
    left = {topic: found.name for topic, found in failed.items() if waiting.get(topic) is found}
    known = group.state.partitions.undone(left).done(still)
    new = {topic: name for topic, name in left.items() if topic not in known.initialized}
    house.put_partitions(draft, group, known.given_up(new))
    group.checked_version = UNCHECKED
    or_again = states.or_again(house, group, partial(_write_begun, house, group, failed, done))

    def then(error: ErrorCode, now_ms: int) -> None:
        or_again(error, now_ms)
        if error is ErrorCode.NONE:
            states.delete_again(house, group, new, 0, now_ms)

    house.write(draft, now_ms, then=then, token=token, answer=answer)


def _refused_alteration(code: ErrorCode, why: str | None, lost: ErrorCode) -> AlterShareGroupOffsetsResponse:
    code, message = (code, why) if lost is ErrorCode.NONE else (lost, None)
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)


def _lost(error: ErrorCode) -> ErrorCode:
    """What a client hears where a write failed, or where it did not and the group is gone by now."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NONE else group_write_error(error)


def _unless_lost(answer: AlterShareGroupOffsetsResponse, error: ErrorCode) -> AlterShareGroupOffsetsResponse:
    return answer if error is ErrorCode.NONE else AlterShareGroupOffsetsResponse(error_code=error)


# -- to forget topics -------------------------------------------------------------------------------------------------


def delete(house: ShareGroupTable, token: Token, request: DeleteShareGroupOffsetsRequest, now_ms: int) -> None:
    """Answered with a DeleteShareGroupOffsetsResponse."""
    draft = house.table.draft()
    try:
        group = _empty_group(house, request.group_id, makes=False)
    except KafkaError as error:
        refusal = partial(_refused_deletion, error.code, error.message)
        house.write(draft, now_ms, token=token, answer=refusal)
        return
    answer = DeleteShareGroupOffsetsResponse()
    topics: dict[UUID, str] = {}
    known = group.state.partitions
    for name in (topic.topic_name for topic in request.topics):
        topic_id = house.topics.id_of(name)
        told = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id or ZERO_UUID)
        answer.responses.append(told)
        if topic_id is not None and (topic_id in known.initialized or topic_id in known.deleting):
            topics[topic_id] = name
        else:
            told.error_code, told.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_THERE
    house.put_partitions(draft, group, known.given_up(topics))
    if not topics:
        house.write(draft, now_ms, token=token, answer=lambda error: _unless_failed(answer, error))
        return

    def finish(errors: Errors, now_ms: int) -> None:
        for told in answer.responses:
            if not told.error_code:
                told.error_code = first_error(errors.get(told.topic_id, {}))
        states.forget_deleted(house, group, errors, now_ms, token, lambda error: _unless_failed(answer, error))

    def lost(error: ErrorCode) -> None:
        house.table.reply(token, _unless_failed(answer, error))

    _write_deletion(house, draft, group, topics, finish, lost, now_ms)


def _refused_deletion(code: ErrorCode, why: str | None, lost: ErrorCode) -> DeleteShareGroupOffsetsResponse:
    code, message = (code, why) if lost is ErrorCode.NONE else (lost, None)
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)


def _unless_failed(answer: DeleteShareGroupOffsetsResponse, error: ErrorCode) -> DeleteShareGroupOffsetsResponse:
    return answer if error is ErrorCode.NONE else DeleteShareGroupOffsetsResponse(error_code=error)


def _write_deletion(
    house: ShareGroupTable,
    draft: Draft[AnyRecord],
    group: ShareGroup,
    topics: Mapping[UUID, str],
    finish: states.Finish,
    lost: Callable[[ErrorCode], None],
    now_ms: int,
) -> None:
    """That these are to go is written, also where it was before, for that may fail yet; then they go."""

    def then(error: ErrorCode, now_ms: int) -> None:
        timing.wrote(house, group, error, now_ms)
        if error is ErrorCode.NONE and states.is_there(house, group):
            states.delete(house, group, topics, finish)
        else:
            lost(_lost(error))

    if not draft.records:
        put(draft, group.group_id, PARTITIONS, ONE, group.state.partitions)
    house.write(draft, now_ms, then=then)


# -- to forget the group ----------------------------------------------------------------------------------------------


def delete_group(house: ShareGroupTable, token: Token, group_id: str, now_ms: int) -> bool:
    """First all that it has read goes, then the group. Answered with an ErrorCode; not at all where it is no share
    group, has read nothing, or may not be deleted, which is False.
    """
    group = house.find(group_id)
    if group is None or group.check_deletable() is not ErrorCode.NONE or group.state.partitions.is_empty:
        return False
    known, draft = group.state.partitions, house.table.draft()
    topics = {topic: found.name for topic, found in (*known.initializing.items(), *known.initialized.items())}
    house.put_partitions(draft, group, known.given_up(topics))

    def lost(error: ErrorCode) -> None:
        house.table.reply(token, error)

    def finish(errors: Errors, now_ms: int) -> None:
        error = first_error({number: first_error(found) for number, found in enumerate(errors.values())})
        if error is ErrorCode.NONE:
            error = _why_it_stays(house, group, errors)
        if error is ErrorCode.NONE:
            removal.remove_group(house.table, group, now_ms, token)
            return
        states.forget_deleted(
            house, group, errors, now_ms, token, lambda lost: error if lost is ErrorCode.NONE else lost
        )

    _write_deletion(house, draft, group, group.state.partitions.deleting, finish, lost, now_ms)
    return True


def _why_it_stays(house: ShareGroupTable, group: ShareGroup, deleted: Errors) -> ErrorCode:
    """NONE if all that it has read is deleted, and nobody came for it meanwhile."""
    if not states.is_there(house, group):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state.members:
        return ErrorCode.NON_EMPTY_GROUP
    has_all = deleted.keys() >= set(group.state.partitions.topics())
    return ErrorCode.NONE if has_all else states.BUSY  # an alteration began in another topic
