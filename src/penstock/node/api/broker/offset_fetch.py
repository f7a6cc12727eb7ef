"""OffsetFetch 1-10: how far groups have read. Answered at once, but for a load under way, which it waits for.

Up to version 7 one group, from version 8 on several (KIP-709); from version 10 on topics are named by their id. No list
of topics at all asks for everything that the group committed. No offset, or no such group, is offset -1 and no error.
A member of a consumer group says who it is from version 9 on, and in which epoch (KIP-848).
With `require_stable` (KIP-447) an offset in an open transaction is refused until that ends (UNSTABLE_OFFSET_COMMIT).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, cast
from uuid import UUID

from penstock.coordinator.group.image import TopicOffsets
from penstock.coordinator.group.records import CommittedOffset
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import NAMES_A_STEP, named_once
from penstock.node.serving.rules import Within
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import ZERO_UUID

TOPIC_IDS_SINCE: Final = 10
GROUPS_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2
PARTITIONS_A_STEP: Final = 100

Named = tuple[str, UUID]
"""A topic, by its name or by its id."""
Topics = dict[Named, dict[int, None]]
Told = Callable[[int], OffsetFetchResponsePartitions]
"""What is told of a partition."""

NO_OFFSET: Final = CommittedOffset(-1, -1, "", -1)


def groups_asked_for(request: OffsetFetchRequest) -> list[str]:
    return [group.group_id for group in request.groups] or [request.group_id]


RULE: Final = (
    Within(DESCRIBE_GROUP, "for each"),
    Within(DESCRIBE_TOPIC, "for each; of all topics what is without it is left out"),
)


@handles(ApiKey.OFFSET_FETCH, versions=(1, 10), rule=RULE)
@coordinated(groups_asked_for)
def offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """It may wait for a load, so it is not taken for an answer that is long before it is one."""
    steps = _of_groups if context.api_version >= GROUPS_SINCE else _of_one_group
    return broker.slices.answer(steps(broker, context, request))


def _of_groups(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    groups = yield from _each_once(request.groups)
    yield from _when_loaded(broker, groups)
    answer, pace = OffsetFetchResponse(), Pace(PARTITIONS_A_STEP)
    for wanted in groups.values():
        answer.groups.append((yield from _fetch(broker, context, wanted, request.require_stable, pace)))
    return answer


def _of_one_group(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    """Up to version 7."""
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=cast("Any", request.topics))
    groups = yield from _each_once([group])
    yield from _when_loaded(broker, groups)
    pace = Pace(PARTITIONS_A_STEP)
    found = yield from _fetch(broker, context, groups[request.group_id], request.require_stable, pace)
    return (yield from _as_one_group(found, pace))


class _Wanted:
    """Of one group; None: everything."""

    __slots__ = ("group", "topics")

    def __init__(self, group: OffsetFetchRequestGroup) -> None:
        """Who asks, says the first that names the group."""
        self.group = group
        self.topics: Topics | None = {}


def _each_once(groups: Iterable[OffsetFetchRequestGroup]) -> Steps[dict[str, _Wanted]]:
    found: dict[str, _Wanted] = {}
    pace = Pace(NAMES_A_STEP)
    for group in groups:
        wanted = found.get(group.group_id)
        if wanted is None:
            wanted = found[group.group_id] = _Wanted(group)
        if group.topics is None:
            wanted.topics = None
        elif wanted.topics is not None:
            yield from named_once(group.topics, _named, lambda topic: topic.partition_indexes, wanted.topics, pace)
        if pace.is_due():
            yield None
    return found


def _named(topic: OffsetFetchRequestTopics | OffsetFetchRequestTopic) -> Named:
    return topic.name, getattr(topic, "topic_id", ZERO_UUID)


def _when_loaded(broker: Broker, groups: dict[str, _Wanted]) -> Steps[None]:
    loading, pace = list[str](), Pace(PARTITIONS_A_STEP)
    for group_id in groups:
        if broker.groups.is_loading_for(group_id):
            loading.append(group_id)
        if pace.is_due():
            yield None
    if loading:
        yield broker.groups.loaded(loading)


def _fetch(
    broker: Broker, context: RequestContext, wanted: _Wanted, require_stable: bool, pace: Pace
) -> Steps[OffsetFetchResponseGroup]:
    group_id = wanted.group.group_id
    answer = OffsetFetchResponseGroup(group_id=group_id)
    if pace.is_due():
        yield None
    try:
        if not context.allows(DESCRIBE_GROUP, group_id):
            raise DESCRIBE_GROUP.refused()
        machine = broker.groups.find(group_id).machine
        refusal = machine.check_fetch(group_id, wanted.group.member_id, wanted.group.member_epoch)
        if refusal is not ErrorCode.NONE:
            raise KafkaError(refusal)
    except KafkaError as error:
        answer.error_code = error.code
        if context.api_version < GROUP_ERROR_SINCE:
            for (name, topic_id), indexes in (wanted.topics or {}).items():
                topic = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
                answer.topics.append(topic)
                yield from _tell(topic, indexes, partial(_refused, error.code), pace)
        return answer
    offsets = machine.offsets(group_id)
    is_pending = partial(machine.is_pending, group_id) if require_stable else _never
    for named in _all_topics(broker, context, offsets) if wanted.topics is None else wanted.topics.items():
        if named is not None:
            topic, told = _fetched(broker, context, named[0], offsets, is_pending)
            answer.topics.append(topic)
            yield from _tell(topic, named[1], told, pace)
        elif pace.is_due():
            yield None
    return answer


def _tell(topic: OffsetFetchResponseTopics, indexes: Iterable[int], told: Told, pace: Pace) -> Steps[None]:
    if pace.is_due():
        yield None
    for index in indexes:
        topic.partitions.append(told(index))
        if pace.is_due():
            yield None


def _never(topic: str, index: int) -> bool:
    return False


def _all_topics(
    broker: Broker, context: RequestContext, offsets: TopicOffsets
) -> Iterator[tuple[Named, Iterable[int]] | None]:
    """Everything that may be told. Topics without an id any more cannot be named in version 10."""
    for name in list(offsets):
        is_named = context.api_version < TOPIC_IDS_SINCE or name in broker.image.topics
        may_be_told = is_named and context.shows(DESCRIBE_TOPIC, name)
        yield ((name, _topic_id(broker, name)), list(offsets.get(name, ()))) if may_be_told else None


def _fetched(
    broker: Broker,
    context: RequestContext,
    asked: Named,
    offsets: TopicOffsets,
    is_pending: Callable[[str, int], bool],
) -> tuple[OffsetFetchResponseTopics, Told]:
    """A topic without its partitions, and what is told of each."""
    name, topic_id = asked
    if context.api_version >= TOPIC_IDS_SINCE:
        known = broker.image.topics_by_id.get(topic_id)
        if known is None:
            return OffsetFetchResponseTopics(topic_id=topic_id), partial(_refused, ErrorCode.UNKNOWN_TOPIC_ID)
        name = known.name
    else:
        topic_id = _topic_id(broker, name)
    if not context.allows(DESCRIBE_TOPIC, name):
        refused = partial(_refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return OffsetFetchResponseTopics(name=asked[0], topic_id=asked[1]), refused
    committed = offsets.get(name, {})

    def told(index: int) -> OffsetFetchResponsePartitions:
        found = committed.get(index, NO_OFFSET)
        if ZERO_UUID not in (found.topic_id, topic_id) and found.topic_id != topic_id:
            found = NO_OFFSET  # It belongs to a deleted topic of the same name.
        if is_pending(name, index):
            return _refused(ErrorCode.UNSTABLE_OFFSET_COMMIT, index)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
        )

    return OffsetFetchResponseTopics(name=name, topic_id=topic_id), told


def _topic_id(broker: Broker, name: str) -> UUID:
    known = broker.image.topics.get(name)
    return ZERO_UUID if known is None else known.topic_id


def _refused(error: ErrorCode, index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=error)


def _as_one_group(group: OffsetFetchResponseGroup, pace: Pace) -> Steps[OffsetFetchResponse]:
    """The layout of versions up to 7."""
    answer = OffsetFetchResponse(error_code=group.error_code)
    for topic in group.topics:
        told = OffsetFetchResponseTopic(name=topic.name)
        answer.topics.append(told)
        for partition in topic.partitions:
            told.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
            if pace.is_due():
                yield None
    return answer
