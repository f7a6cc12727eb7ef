"""JoinGroup 0-9: become a member of a group, or take part in its next generation.

Waits until the generation has formed. `coordinator/group/classic/join.py` has the rules.
"""

from collections.abc import Awaitable

from penstock.coordinator.group.classic.answers import join_error
from penstock.node.api.coordinated import caller_of, coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole, the_group
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.JOIN_GROUP, versions=(0, 9), rule=(Whole(READ_GROUP, the_group),), ends_with_client=True)
@coordinated(parks=True)
def join_group(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not request.group_id:
        return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return join_error(error.code, request.member_id)
    caller = caller_of(context)
    answer: JoinGroupResponse | Awaitable[JoinGroupResponse] = shard.ask_late(shard.machine.join, request, caller)
    return answer
