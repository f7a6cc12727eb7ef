"""CreateTopics, versions 2 to 7: creates topics, or says what would happen (`validate_only`). The controller decides.

The answer goes out when the topics can be used on this node, or with REQUEST_TIMED_OUT. Where another node is the
controller, this one may be a moment behind: clients ask again then.

Not done: topics of several replicas in a cluster of several brokers. They are refused with INVALID_REPLICATION_FACTOR.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from penstock.node.api.commands import CREATE, handed_on
from penstock.node.broker import Broker
from penstock.node.controlling.topic_creation import replication_problem
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


@handles(
    ApiKey.CREATE_TOPICS,
    versions=(2, 7),
    needs=CREATE,
)
def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> Awaitable[CreateTopicsResponse]:
    """Answers when the topics are committed."""
    refused = {topic.name: problem for topic in request.topics if (problem := replication_problem(broker, topic))}
    if not refused:
        return handed_on(broker, context, request, CreateTopicsResponse)
    return _others_only(broker, context, request, refused)


async def _others_only(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest, refused: Mapping[str, KafkaError]
) -> CreateTopicsResponse:
    """Answers for the topics that are refused here, in their places among those that the controller decides on."""
    names = [topic.name for topic in request.topics]
    others = [topic for topic in request.topics if topic.name not in refused]
    response = CreateTopicsResponse()
    if others:
        response = await handed_on(broker, context, request.replace(topics=others), CreateTopicsResponse)
    response.topics += [
        CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)
        for name, error in refused.items()
    ]
    response.topics.sort(key=lambda result: names.index(result.name))
    return response
