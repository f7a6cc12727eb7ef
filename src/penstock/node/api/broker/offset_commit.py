"""OffsetCommit 2-10: store how far a group has read. Waits until that is committed, and before that for a load.

A coordinator that has just taken over is not ready for some moments. librdkafka tries a commit that it refuses only a
few times, and then tells its user; nothing is lost by keeping it until the log is read.

From version 10 on topics are named by their id (KIP-848), which is stored with the offset. What does not exist is
refused partition by partition. `coordinator/group/commit.py` says from whom commits are accepted.
"""

from collections.abc import Awaitable
from typing import Final

from penstock.metadata.topics import TopicImage
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP, READ_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each, Whole, the_group, topic_of
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.requests.api import ApiKey

TOPIC_IDS_SINCE: Final = 10

Answer = OffsetCommitResponse | Awaitable[OffsetCommitResponse]


@handles(
    ApiKey.OFFSET_COMMIT,
    versions=(2, 10),
    rule=(Whole(READ_GROUP, the_group), Each(READ_TOPIC, ("topics",), "topics", topic_of)),
    parts=(("topics", "topics"),),
)
@coordinated()
def offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> Answer:
    if broker.groups.is_loading_for(request.group_id):
        return _when_loaded(broker, context, request)
    return _commit(broker, context, request)


async def _when_loaded(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    await broker.groups.loaded([request.group_id])
    answer = _commit(broker, context, request)
    return answer if isinstance(answer, OffsetCommitResponse) else await answer


def _commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> Answer:
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return OffsetCommitResponse(topics=[_refuse(topic, _indexes(topic), error.code) for topic in request.topics])
    refused = [
        refusal
        for topic in request.topics
        if (refusal := take_out_unknown(broker, topic, by_id=context.api_version >= TOPIC_IDS_SINCE)) is not None
    ]
    if refused:
        request.topics = [topic for topic in request.topics if topic.partitions]
        if not request.topics:
            return OffsetCommitResponse(topics=refused)
    answer: Answer = shard.ask(shard.machine.commit, request, context.api_version)
    return _joined(answer, refused) if refused else answer


def take_out_unknown(
    broker: Broker, topic: OffsetCommitRequestTopic, *, by_id: bool
) -> OffsetCommitResponseTopic | None:
    """Complete the topic's name; take what does not exist out of the request. The answer for that, if there is some."""
    known: TopicImage | None
    if by_id:
        known, error = broker.image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known, error = broker.image.topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        unknown, topic.partitions = _indexes(topic), []
        return _refuse(topic, unknown, error)
    topic.name = known.name
    unknown = [index for index in _indexes(topic) if index not in known.partitions]
    if not unknown:
        return None
    topic.partitions = [wanted for wanted in topic.partitions if wanted.partition_index in known.partitions]
    return _refuse(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def _joined(answer: Answer, refused: list[OffsetCommitResponseTopic]) -> OffsetCommitResponse:
    """The coordinator's answer, with the refused partitions added to their topics."""
    response = answer if isinstance(answer, OffsetCommitResponse) else await answer
    for refusal in refused:
        same = [topic for topic in response.topics if (topic.name, topic.topic_id) == (refusal.name, refusal.topic_id)]
        if same:
            same[0].partitions += refusal.partitions
        else:
            response.topics.append(refusal)
    return response


def _indexes(topic: OffsetCommitRequestTopic) -> list[int]:
    return [partition.partition_index for partition in topic.partitions]


def _refuse(topic: OffsetCommitRequestTopic, indexes: list[int], error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(partition_index=index, error_code=error) for index in indexes],
    )
