"""StreamsGroupDescribe 0-1: the epochs of streams groups, their topologies, and which tasks each member runs.

What is told is committed. A group with a topic that the client may not describe is refused.
"""

from collections.abc import Iterator
from functools import partial

from penstock.metadata.features import STREAMS_VERSION
from penstock.node.api.coordinated import coordinated, each_once, with_ages, with_operations
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


@coordinated(lambda request: request.group_ids)
def streams_group_describe(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Steps[StreamsGroupDescribeResponse]:
    describe = partial(_describe, broker, context, with_description=request.include_topology_description)
    groups = yield from each_once(request.group_ids, describe)
    yield from with_operations(context, request, groups)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, context: RequestContext, group_id: str, *, with_description: bool) -> DescribedGroup:
    if not broker.image.features.get(STREAMS_VERSION):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    ages_ms = shard.machine.heartbeat_ages_ms(group_id, broker.groups.now_ms())
    group = with_ages(shard.machine.describe_streams_group(group_id, with_description=with_description), ages_ms)
    if all(context.allows(DESCRIBE_TOPIC, topic) for topic in dict.fromkeys(_topics(group))):
        return group
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The topology has topics that the client may not describe.",
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    topology = group.topology
    for sub in () if topology is None else topology.subtopologies or ():
        yield from sub.source_topics
        yield from sub.repartition_sink_topics
        yield from (topic.name for topic in sub.repartition_source_topics)
        yield from (topic.name for topic in sub.state_changelog_topics)
