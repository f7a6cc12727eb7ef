"""What a share group has at the share coordinator: begun before any member gets it, deleted before it begins again.

Each step is in a record first, and then carried out, again and again until it succeeds; a coordinator that takes over
finds it in the records, and goes on with that. All that is asked is right if it is asked twice: a state that began in
this epoch of the group does not begin anew. Of one topic one thing is asked at a time (`_ask`): what overtakes another
would delete what has begun since, and an answer would be taken for one to something else.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from penstock.coordinator.effects import AtShareCoordinators, Token
from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share import timing
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.table import ShareGroupTable
from penstock.coordinator.group.share.values import Initialized, OfTopic
from penstock.coordinator.machine import Continuation, Draft
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest as DeleteRequest
from penstock.protocol.messages.delete_share_group_state import DeleteShareGroupStateResponse as DeleteResponse
from penstock.protocol.messages.delete_share_group_state import DeleteStateData
from penstock.protocol.messages.delete_share_group_state import PartitionData as DeletedPartition
from penstock.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest as BeginRequest
from penstock.protocol.messages.initialize_share_group_state import InitializeShareGroupStateResponse as BeginResponse
from penstock.protocol.messages.initialize_share_group_state import InitializeStateData
from penstock.protocol.messages.initialize_share_group_state import PartitionData as BegunPartition

RETRY_MS: Final = 100
"""The first pause before something that failed is tried again; it doubles up to `initialize_retry_ms`."""
BUSY: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""What is told of a topic about which something else is asked."""
FENCED: Final = ErrorCode.FENCED_STATE_EPOCH
LAST_EPOCH: Final = (1 << 31) - 2
"""There is no other to go on to."""
LEAP: Final = 10
"""Where it is not told how far ahead the state is, the group goes to so many times its epoch."""
BY_STRATEGY: Final = -1
"""The start offset of a partition whose leader is to find it by the group's share.auto.offset.reset."""

Offsets = Mapping[UUID, Mapping[int, int]]
"""Topic to partition to the offset at which the group begins."""
Errors = dict[UUID, dict[int, ErrorCode]]
"""Of all partitions that were asked about."""
Finish = Callable[[Errors, int], None]
"""Called with what became of it, and the time."""


# -- to begin ---------------------------------------------------------------------------------------------------------


def begin(house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup) -> Initialized:
    """Write that what members read, and the group does not have yet, is about to begin: `send` it once that is
    committed. A topic that has grown waits until its other partitions have begun: so it is known which are new.
    """
    state, topics = group.state, house.topics
    known = state.partitions
    found: dict[UUID, OfTopic] = {}
    for topic, count in topics.partitions(state.topics).items():
        had = frozenset(known.initialized[topic].partitions if topic in known.initialized else ())
        if len(had) < count and topic not in known.initializing and topic not in known.deleting:
            left = tuple(index for index in range(count) if index not in had)
            found[topic] = OfTopic(topics.name_of(topic) or "", left)
    if found:
        house.put_partitions(draft, group, known.begun(found))
    return found


def send(house: ShareGroupTable, group: ShareGroup, topics: Initialized, attempt: int = 0) -> None:
    """Have them begin: a new topic where the group's strategy says, new partitions of one that it reads at once."""
    had = group.state.partitions.initialized
    offsets = {
        topic: dict.fromkeys(found.partitions, 0 if topic in had else BY_STRATEGY) for topic, found in topics.items()
    }
    if offsets:
        epoch = group.committed.epoch  # one that fails yet may come again, and would say nothing new then
        ask_to_begin(house, group, offsets, epoch, partial(_begun, house, group, topics, attempt))


def ask_to_begin(house: ShareGroupTable, group: ShareGroup, offsets: Offsets, epoch: int, finish: Finish) -> None:
    """In that epoch of the group, which is committed, or in one to which it had to go instead (`_pass`)."""
    if group.passed[0] == epoch:
        epoch = group.passed[1]

    def job(topics: Offsets) -> AtShareCoordinators:
        begin = [
            InitializeStateData(
                topic_id=topic,
                partitions=[
                    BegunPartition(partition=index, state_epoch=epoch, start_offset=offset, heeds_deletions=True)
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in topics.items()
        ]
        return AtShareCoordinators(BeginRequest(group_id=group.group_id, topics=begin), BeginResponse)

    def asked(errors: Errors, answer: Any, now_ms: int) -> None:
        newest = _newest_epoch(answer, epoch)
        if newest is not None and epoch == group.committed.epoch and is_there(house, group):
            busy: Errors = {
                topic: {index: BUSY if error is FENCED else error for index, error in found.items()}
                for topic, found in errors.items()
            }
            _pass(house, group, epoch, newest, partial(finish, busy), now_ms)
        else:
            finish(errors, now_ms)

    _ask(house, group, job, offsets, asked)


def _newest_epoch(answer: Any, epoch: int) -> int | None:
    """What is ahead of the group, which asked in this epoch, at the share coordinators, if it can be passed. Kafka's do
    not tell.
    """
    topics = () if answer is None else answer.results
    refused = [it.newest_epoch for topic in topics for it in topic.partitions if it.error_code == FENCED]
    newest = max(refused, default=LAST_EPOCH)
    if newest < epoch:
        newest = min(LEAP * epoch, LAST_EPOCH) - 1
    return newest if newest < LAST_EPOCH else None


def _pass(
    house: ShareGroupTable, group: ShareGroup, epoch: int, newest: int, finish: Callable[[int], None], now_ms: int
) -> None:
    """Go to an epoch in which the group may begin: a group of that name was there before, and what it had begun was
    deleted, or came to the share coordinator after its deletion. Only who can write for the group knows that it is not
    behind itself.
    """

    def then(error: ErrorCode, now_ms: int) -> None:
        timing.wrote(house, group, error, now_ms)
        if error is ErrorCode.NONE:
            asked_first = group.passed[0] if group.passed[1] == epoch else epoch
            group.passed = asked_first, group.committed.epoch
        finish(now_ms)

    draft = house.table.draft()
    house.next_epoch(draft, group, at_least=newest + 1)
    house.write(draft, now_ms, then=then)


def _begun(
    house: ShareGroupTable, group: ShareGroup, topics: Initialized, attempt: int, errors: Errors, now_ms: int
) -> None:
    if not is_there(house, group):
        return
    failed = {topic: found for topic, found in topics.items() if first_error(errors[topic]) is not ErrorCode.NONE}
    again = partial(_begin_again, house, group)
    if failed:
        later(house, partial(again, failed, attempt + 1), attempt, now_ms)
    done = {topic: found for topic, found in topics.items() if topic not in failed}
    finish_begun(house, group, done, now_ms, partial(again, done, attempt + 1))


def finish_begun(
    house: ShareGroupTable,
    group: ShareGroup,
    done: Initialized,
    now_ms: int,
    again: Callable[[int], None],
    token: Token | None = None,
    answer: Callable[[ErrorCode], object] = lambda _: None,
) -> None:
    """From now on members may get them. Should that not be committed, do it `again`."""
    draft = house.table.draft()
    house.put_partitions(draft, group, group.state.partitions.done(done))
    group.checked_version = UNCHECKED
    house.write(draft, now_ms, then=or_again(house, group, again), token=token, answer=answer)


def _begin_again(house: ShareGroupTable, group: ShareGroup, topics: Initialized, attempt: int, now_ms: int) -> None:
    forget_gone(house, group, now_ms)
    waiting = group.state.partitions.initializing
    if is_there(house, group):
        send(house, group, {topic: found for topic, found in topics.items() if topic in waiting}, attempt)


# -- to delete --------------------------------------------------------------------------------------------------------


def delete(
    house: ShareGroupTable,
    group: ShareGroup,
    topics: Mapping[UUID, str],
    finish: Finish,
    attempt: int = 0,
) -> None:
    """Have all that was read of these topics deleted; that they are to be is written. Of one that is gone nothing is
    left, nor of one that was deleted meanwhile: that may have begun again.
    """
    waiting = group.state.partitions.deleting
    counts = {
        topic: house.topics.partitions([name]).get(topic, 0) if topic in waiting else 0
        for topic, name in topics.items()
    }
    then = partial(_deleted, house, group, topics, attempt, finish)
    asked = {topic: range(count) for topic, count in counts.items()}
    _ask(house, group, partial(_deletion, group), asked, lambda errors, _, now_ms: then(errors, now_ms))


def _deletion(group: ShareGroup, partitions: Mapping[UUID, Iterable[int]]) -> AtShareCoordinators:
    topics = [
        DeleteStateData(
            topic_id=topic,
            partitions=[DeletedPartition(partition=index, group_epoch=group.committed.epoch) for index in indexes],
        )
        for topic, indexes in partitions.items()
        if indexes
    ]
    return AtShareCoordinators(DeleteRequest(group_id=group.group_id, topics=topics), DeleteResponse)


def _deleted(
    house: ShareGroupTable,
    group: ShareGroup,
    topics: Mapping[UUID, str],
    attempt: int,
    finish: Finish,
    errors: Errors,
    now_ms: int,
) -> None:
    failed = {
        topic: name
        for topic, name in topics.items()
        if first_error(errors[topic]) is not ErrorCode.NONE and topic not in group.deleted_later
    }
    if failed and is_there(house, group):
        group.deleted_later |= dict.fromkeys(failed)
        later(house, partial(delete_again, house, group, failed, attempt + 1), attempt, now_ms)
    finish(errors, now_ms)


def delete_again(
    house: ShareGroupTable, group: ShareGroup, topics: Mapping[UUID, str], attempt: int, now_ms: int
) -> None:
    waiting = group.state.partitions.deleting
    left = {topic: name for topic, name in topics.items() if topic in waiting}
    for topic in topics:
        group.deleted_later.pop(topic, None)
    if left and is_there(house, group):
        delete(house, group, left, partial(forget_deleted, house, group), attempt)


def forget_deleted(
    house: ShareGroupTable,
    group: ShareGroup,
    errors: Errors,
    now_ms: int,
    token: Token | None = None,
    answer: Callable[[ErrorCode], object] = lambda _: None,
) -> None:
    """They may begin again."""
    draft = house.table.draft()
    if is_there(house, group):
        waiting = group.state.partitions.deleting
        done = [topic for topic in waiting if topic in errors and first_error(errors[topic]) is ErrorCode.NONE]
        again = partial(delete_again, house, group, {topic: waiting[topic] for topic in done}, 1)
        house.put_partitions(draft, group, group.state.partitions.without(done))
        group.checked_version = UNCHECKED
        house.write(draft, now_ms, then=or_again(house, group, again), token=token, answer=answer)
    else:
        house.write(draft, now_ms, token=token, answer=answer)


# -- after a load, and when topics go ---------------------------------------------------------------------------------


def go_on(house: ShareGroupTable, group: ShareGroup, now_ms: int) -> None:
    """With what is under way by the records."""
    forget_gone(house, group, now_ms)
    known = group.state.partitions
    send(house, group, known.initializing)
    delete_again(house, group, known.deleting, 0, now_ms)


def forget_gone(house: ShareGroupTable, group: ShareGroup, now_ms: int) -> None:
    """Topics that are not there any more: the share coordinators find out by themselves."""
    gone = [topic for topic in group.state.partitions.topics() if house.topics.name_of(topic) is None]
    if gone and is_there(house, group):
        draft = house.table.draft()
        house.put_partitions(draft, group, group.state.partitions.without(gone))
        house.write(draft, now_ms, then=partial(timing.wrote, house, group))


# -- what both have in common -----------------------------------------------------------------------------------------


def is_there(house: ShareGroupTable, group: ShareGroup) -> bool:
    return not group.is_dead and house.table.groups.get(group.group_id) is group


def first_error(partitions: Mapping[int, ErrorCode]) -> ErrorCode:
    return next((error for error in partitions.values() if error is not ErrorCode.NONE), ErrorCode.NONE)


def later(house: ShareGroupTable, what: Callable[[int], None], attempt: int, now_ms: int) -> None:
    house.table.start_timer(what, now_ms + pause_ms(house, attempt))


def pause_ms(house: ShareGroupTable, attempt: int) -> int:
    """Before the next one."""
    longest_ms: int = house.settings.initialize_retry_ms
    return min(RETRY_MS << min(attempt, 20), longest_ms)


def or_again(house: ShareGroupTable, group: ShareGroup, again: Callable[[int], None]) -> Continuation:
    def then(error: ErrorCode, now_ms: int) -> None:
        timing.wrote(house, group, error, now_ms)
        if error is not ErrorCode.NONE and is_there(house, group):
            later(house, again, 0, now_ms)

    return then


def _ask(
    house: ShareGroupTable,
    group: ShareGroup,
    job: Callable[[Any], AtShareCoordinators],
    asked: Mapping[UUID, Any],
    finish: Callable[[Errors, Any, int], None],
) -> None:
    """`job` is made of the topics about which nothing is asked yet. The others fail, and whoever asks tries again. What
    was not answered has failed as the errand has, or for a reason that nobody gave.
    """
    free = {topic: indexes for topic, indexes in asked.items() if indexes and topic not in group.asked}
    group.asked |= free.keys()

    def answered(answer: Any, error: ErrorCode, now_ms: int) -> None:
        group.asked -= free.keys()
        other = ErrorCode.UNKNOWN_SERVER_ERROR if error is ErrorCode.NONE else error
        told: dict[UUID, dict[int, int]] = {}
        for topic in () if answer is None else answer.results:
            told.setdefault(topic.topic_id, {}).update({it.partition: it.error_code for it in topic.partitions})
        finish(
            {
                topic: _errors(told.get(topic, {}), indexes, other if topic in free else BUSY)
                for topic, indexes in asked.items()
            },
            answer,
            now_ms,
        )

    house.table.send(job(free), answered)


def _errors(told: Mapping[int, int], indexes: Iterable[int], other: ErrorCode) -> dict[int, ErrorCode]:
    codes = {code: ErrorCode(code) for code in dict.fromkeys(told.values())}  # there are few, of many partitions
    return {index: codes[told[index]] if index in told else other for index in indexes}
