"""OffsetDelete 0: delete offsets in topics that no member of the group reads (KIP-496). Waits until it is committed."""

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DELETE_GROUP, READ_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each, Whole, the_group
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.OFFSET_DELETE,
    versions=(0, 0),
    rule=(Whole(DELETE_GROUP, the_group), Each(READ_TOPIC, ("topics",), "topics")),
)
@coordinated()
async def offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """What does not exist is UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    unknown = [_refuse_unknown(broker, topic) for topic in request.topics]
    answer = shard.ask(shard.machine.delete_offsets, request)
    response: OffsetDeleteResponse = answer if isinstance(answer, OffsetDeleteResponse) else await answer
    if not response.error_code:
        response.topics = _by_topic([*response.topics, *unknown])
    return response


def _by_topic(answers: list[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """Each topic once, with all its partitions."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for answer in answers:
        topics.setdefault(answer.name, OffsetDeleteResponseTopic(name=answer.name)).partitions += answer.partitions
    return [topic for topic in topics.values() if topic.partitions]


def _refuse_unknown(broker: Broker, topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    """Take the partitions that do not exist out of the request; the answer for them."""
    known = broker.image.topics.get(topic.name)
    partitions = {} if known is None else known.partitions
    unknown = [wanted.partition_index for wanted in topic.partitions if wanted.partition_index not in partitions]
    topic.partitions = [wanted for wanted in topic.partitions if wanted.partition_index in partitions]
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in unknown],
    )
