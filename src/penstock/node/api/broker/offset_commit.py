"""OffsetCommit 2-10: store how far a group has read. Waits until that is committed, and before that for a load.

A coordinator that has just taken over is not ready for some moments. librdkafka tries a commit that it refuses only a
few times, and then tells its user; nothing is lost by keeping it until the log is read.

From version 10 on topics are named by their id (KIP-848), which is stored with the offset. What does not exist is
refused partition by partition. `coordinator/group/commit.py` says from whom commits are accepted.
"""

from collections.abc import Awaitable
from typing import Final

from penstock.node.api.coordinated import coordinated, indexes_of, refused_partitions, take_out_unknown
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP, READ_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each, Whole, the_group, topic_of
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
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
        return OffsetCommitResponse(
            topics=[refused_partitions(topic, indexes_of(topic), error.code) for topic in request.topics]
        )
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
