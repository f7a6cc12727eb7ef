"""StreamsGroupHeartbeat 0-1: a member joins with its topology, lives, learns which tasks it is to run, and leaves.

Answered when what it rests on is committed; `coordinator/group/streams/heartbeat.py` has the rules. Topics that the
topology needs for itself are created as the client, which has to have the right, before the answer goes out.
"""

from collections.abc import Awaitable
from itertools import accumulate
from typing import Final

from penstock.coordinator.group.streams.requests import Heard
from penstock.coordinator.group.streams.topology import MISSING_INTERNAL_TOPICS, check_size
from penstock.coordinator.group.streams.values import InternalTopic
from penstock.metadata.features import STREAMS_VERSION
from penstock.metadata.topic_names import topic_name_error
from penstock.node.api.consumer_groups import topics_of_topology
from penstock.node.api.coordinated import caller_of, coordinated
from penstock.node.controlling.topic_creation import DEFAULT, create_all
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CREATE_IN_CLUSTER, CREATE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import is_internal
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

Request = StreamsGroupHeartbeatRequest
Response = StreamsGroupHeartbeatResponse

MOST_PARTITIONS: Final = 10_000
"""Of all topics that a heartbeat creates, as Kafka's controller takes in one request; no topic has more (MAX_TASKS)."""
_NAMED_AT_MOST: Final = 3
"""Topics in the text of a status."""


@coordinated()
def streams_group_heartbeat(
    broker: Broker, context: RequestContext, request: Request
) -> Response | Awaitable[Response]:
    if not broker.image.features.get(STREAMS_VERSION):
        return Response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    why = _what_is_wrong(request)
    if why is not None:
        return Response(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=why)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return Response(error_code=error.code)
    caller = caller_of(context)
    heard: Heard | Awaitable[Heard] = shard.ask(shard.machine.streams_heartbeat, request, caller)
    if isinstance(heard, Heard) and not heard.missing:
        return heard.response
    return _answered(broker, context, heard)


def _what_is_wrong(request: Request) -> str | None:
    """With the topology: Kafka, too, looks at the names of its topics first."""
    if request.topology is not None:
        try:
            check_size(request.topology)
        except KafkaError as refusal:
            return refusal.message
    for name in topics_of_topology(request):
        if is_internal(name):
            return f"topic {name} belongs to the cluster, and no application reads or writes it"
        error = topic_name_error(name)
        if error is not None:
            return error
    return None


async def _answered(broker: Broker, context: RequestContext, asked: Heard | Awaitable[Heard]) -> Response:
    heard = asked if isinstance(asked, Heard) else await asked
    if heard.missing:
        failed = await _create(broker, context, heard.missing)
        _tell(heard.response, failed)
    return heard.response


async def _create(broker: Broker, context: RequestContext, missing: tuple[InternalTopic, ...]) -> dict[str, str]:
    """As the client; why not, for each that could not be created."""
    failed: dict[str, str] = {}
    if not context.has(CREATE_IN_CLUSTER):
        may_not = "no right to CREATE it"
        failed = {topic.name: may_not for topic in missing if not context.allows(CREATE_TOPIC, topic.name)}
    if failed:  # of what belongs together either all is created, or nothing
        return failed
    topics = [_creatable(topic) for topic in _at_once(missing)]
    errors = await create_all(broker.controller, topics, context)
    return {name: error.name for name, error in errors.items()}


def _at_once(missing: tuple[InternalTopic, ...]) -> list[InternalTopic]:
    """The first of them; with the next heartbeat the next."""
    sums = accumulate(topic.partitions for topic in missing)
    return [topic for topic, partitions in zip(missing, sums, strict=True) if partitions <= MOST_PARTITIONS]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )


def _tell(response: Response, failed: dict[str, str]) -> None:
    if failed:
        named = ", ".join(f"{name} ({why})" for name, why in list(failed.items())[:_NAMED_AT_MOST])
        more = f" and {len(failed) - _NAMED_AT_MOST} more" if len(failed) > _NAMED_AT_MOST else ""
        for status in response.status or ():
            if status.status_code == MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; they cannot be created: {named}{more}"
