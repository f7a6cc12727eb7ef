"""OffsetFetch 1-10: how far groups have read. Answered at once, but for a load under way, which it waits for.

Up to version 7 one group, from version 8 on several (KIP-709); from version 10 on topics are named by their id. No list
of topics at all asks for everything that the group committed. No offset, or no such group, is offset -1 and no error.
A member of a consumer group says who it is from version 9 on, and in which epoch (KIP-848).
With `require_stable` (KIP-447) an offset in an open transaction is refused until that ends (UNSTABLE_OFFSET_COMMIT).
"""

from collections.abc import Awaitable
from typing import Final
from uuid import UUID

from penstock.coordinator.group.image import TopicOffsets
from penstock.coordinator.group.records import CommittedOffset
from penstock.coordinator.shards.groups import GroupShard
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Within
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
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

NO_OFFSET: Final = CommittedOffset(-1, -1, "", -1)


def groups_asked_for(request: OffsetFetchRequest) -> list[str]:
    return [group.group_id for group in request.groups] or [request.group_id]


RULE: Final = (
    Within(DESCRIBE_GROUP, "for each"),
    Within(DESCRIBE_TOPIC, "for each; of all topics what is without it is left out"),
)


@handles(ApiKey.OFFSET_FETCH, versions=(1, 10), rule=RULE, parts=(("groups", "groups"), ("topics", "topics")))
@coordinated(groups_asked_for)
def offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    group_ids = groups_asked_for(request)
    if any(map(broker.groups.is_loading_for, group_ids)):
        return _when_loaded(broker, context, request, group_ids)
    return _look_up(broker, context, request)


async def _when_loaded(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest, group_ids: list[str]
) -> OffsetFetchResponse:
    await broker.groups.loaded(group_ids)
    return _look_up(broker, context, request)


def _look_up(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    stable = request.require_stable
    if context.api_version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=[_fetch(broker, context, group, stable) for group in request.groups])
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    return _as_one_group(_fetch(broker, context, group, stable))


def _fetch(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=group.group_id)
    try:
        if not context.allows(DESCRIBE_GROUP, group.group_id):
            raise DESCRIBE_GROUP.refused()
        shard = broker.groups.find(group.group_id)
    except KafkaError as error:
        answer.error_code = error.code
        if context.api_version < GROUP_ERROR_SINCE:
            answer.topics = [_refuse(topic, error.code) for topic in group.topics or []]
        return answer
    refusal = shard.machine.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if refusal is not ErrorCode.NONE:
        answer.error_code = refusal
        return answer
    offsets = shard.machine.offsets(group.group_id)
    topics = _all_topics(broker, context, offsets) if group.topics is None else group.topics
    answer.topics = [_fetch_topic(broker, context, topic, offsets) for topic in topics]
    if require_stable:
        _refuse_unstable(answer, shard.machine)
    return answer


def _refuse_unstable(answer: OffsetFetchResponseGroup, groups: GroupShard) -> None:
    for topic in answer.topics:
        for told in topic.partitions:
            if groups.is_pending(answer.group_id, topic.name, told.partition_index):
                told.error_code, told.committed_offset = ErrorCode.UNSTABLE_OFFSET_COMMIT, -1
                told.committed_leader_epoch, told.metadata = -1, ""


def _all_topics(broker: Broker, context: RequestContext, offsets: TopicOffsets) -> list[OffsetFetchRequestTopics]:
    """A request for everything that may be told. Topics without an id any more cannot be named in version 10."""
    return [
        OffsetFetchRequestTopics(name=name, topic_id=_topic_id(broker, name), partition_indexes=list(partitions))
        for name, partitions in offsets.items()
        if (context.api_version < TOPIC_IDS_SINCE or name in broker.image.topics)
        and context.shows(DESCRIBE_TOPIC, name)
    ]


def _fetch_topic(
    broker: Broker, context: RequestContext, topic: OffsetFetchRequestTopics, offsets: TopicOffsets
) -> OffsetFetchResponseTopics:
    name, topic_id = topic.name, topic.topic_id
    if context.api_version >= TOPIC_IDS_SINCE:
        known = broker.image.topics_by_id.get(topic_id)
        if known is None:
            return _refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        name = known.name
    else:
        topic_id = _topic_id(broker, name)
    if not context.allows(DESCRIBE_TOPIC, name):
        return _refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    committed = offsets.get(name, {})
    answer = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
    for index in topic.partition_indexes:
        found = committed.get(index, NO_OFFSET)
        if ZERO_UUID not in (found.topic_id, topic_id) and found.topic_id != topic_id:
            found = NO_OFFSET  # It belongs to a deleted topic of the same name.
        answer.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
            )
        )
    return answer


def _topic_id(broker: Broker, name: str) -> UUID:
    known = broker.image.topics.get(name)
    return ZERO_UUID if known is None else known.topic_id


def _refuse(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=error)
            for index in topic.partition_indexes
        ],
    )


def _as_one_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The layout of versions up to 7."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
