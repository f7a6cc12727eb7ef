"""LeaveGroup 0-5: members leave, and the others rebalance at once.

Up to version 2 one member, from 3 on several, with static ones by instance id (KIP-345); from 5 on with a reason.
"""

from collections.abc import Awaitable

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole, the_group
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5), rule=(Whole(READ_GROUP, the_group),))
@coordinated()
def leave_group(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    answer: LeaveGroupResponse | Awaitable[LeaveGroupResponse] = shard.ask(
        shard.machine.leave, request, context.api_version
    )
    return answer
