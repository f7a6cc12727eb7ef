"""DescribeGroups 0-6: the state of groups and of their members.

A group that is not there is Dead; from version 6 on also GROUP_ID_NOT_FOUND with a message (KIP-1043). From version 3
on the answer has what the client may do with a group, if the request asks for that.
"""

from functools import partial

from penstock.node.api.coordinated import coordinated, each_once, with_ages, with_operations
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.DESCRIBE_GROUPS,
    versions=(0, 6),
    rule=(Each(DESCRIBE_GROUP, ("groups",), "groups"),),
)
@coordinated(lambda request: request.groups)
def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> Steps[DescribeGroupsResponse]:
    groups = yield from each_once(request.groups, partial(_describe, broker, context.api_version))
    yield from with_operations(context, request, groups)
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, api_version: int, group_id: str) -> DescribedGroup:
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    ages_ms = shard.machine.heartbeat_ages_ms(group_id, broker.groups.now_ms())
    return with_ages(shard.machine.describe_group(group_id, api_version), ages_ms)
