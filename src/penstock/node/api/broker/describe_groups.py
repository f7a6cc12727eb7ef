"""DescribeGroups 0-6: the state of groups and of their members.

A group that is not there is Dead; from version 6 on also GROUP_ID_NOT_FOUND with a message (KIP-1043). From version 3
on the answer has what the client may do with a group, if the request asks for that.
"""

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_GROUP, NOT_ASKED
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.acls import Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.DESCRIBE_GROUPS,
    versions=(0, 6),
    rule=(Each(DESCRIBE_GROUP, ("groups",), "groups"),),
    parts=(("groups", "groups"),),
)
@coordinated(lambda request: request.groups)
def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = [_describe(broker, group_id, context.api_version) for group_id in request.groups]
    for group in groups:
        is_told = request.include_authorized_operations and group.error_code == ErrorCode.NONE
        operations = context.operations_on(Resource.GROUP, group.group_id) if is_told else NOT_ASKED
        group.authorized_operations = operations
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, group_id: str, api_version: int) -> DescribedGroup:
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    return shard.machine.describe_group(group_id, api_version)
