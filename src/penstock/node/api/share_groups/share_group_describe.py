"""ShareGroupDescribe 1: the epochs of share groups, and what each member reads and has.

What is told is committed. A group with a topic that the client may not describe is refused.
"""

from functools import partial

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.coordinated import coordinated, each_once, with_ages, with_operations
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@coordinated(lambda request: request.group_ids)
def share_group_describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> Steps[ShareGroupDescribeResponse]:
    describe = partial(_describe, broker, context)
    groups = yield from each_once(request.group_ids, describe)
    yield from with_operations(context, request, groups)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, context: RequestContext, group_id: str) -> DescribedGroup:
    if not broker.image.features.get(SHARE_VERSION):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    ages_ms = shard.machine.heartbeat_ages_ms(group_id, broker.groups.now_ms())
    group = with_ages(shard.machine.describe_share_group(group_id), ages_ms)
    topics = dict.fromkeys(topic.topic_name for member in group.members for topic in member.assignment.topic_partitions)
    if all(context.allows(DESCRIBE_TOPIC, topic) for topic in topics):
        return group
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="Members have topics that the client may not describe.",
    )
