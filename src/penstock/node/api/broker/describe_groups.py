"""DescribeGroups 0-6: the state of groups and of their members.

A group that is not there is Dead; from version 6 on also GROUP_ID_NOT_FOUND with a message (KIP-1043). There is no
access control: who asks for the authorized operations (version 3) may do all.
"""

from __future__ import annotations

from typing import Final

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.requests.api import ApiKey

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS: Final = sum(1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
NOT_ASKED_FOR: Final = -(1 << 31)


@handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), needs=(Need.DESCRIBE_GROUP,))
@coordinated(lambda request: request.groups)
def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group that this node coordinates."""
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    groups = [_describe(broker, group_id, context.api_version) for group_id in request.groups]
    for group in groups:
        group.authorized_operations = operations
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, group_id: str, api_version: int) -> DescribedGroup:
    try:
        shard = broker.groups.find(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    return shard.machine.describe_group(group_id, api_version)
