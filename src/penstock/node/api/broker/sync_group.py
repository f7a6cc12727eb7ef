"""SyncGroup 0-5: get what the leader assigned to a member; the leader's own request brings it.

Waits until the leader's assignment is stored. `coordinator/group/classic/membership.py` has the rules.
"""

from collections.abc import Awaitable

from penstock.coordinator.group.classic.answers import sync_error
from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole, the_group
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.SYNC_GROUP, versions=(0, 5), rule=(Whole(READ_GROUP, the_group),), ends_with_client=True)
@coordinated(parks=True)
def sync_group(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if not request.group_id:
        return sync_error(ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        # While it reads, a coordinator knows of no assignment: joining again is what helps.
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error.code)
    answer: SyncGroupResponse | Awaitable[SyncGroupResponse] = shard.ask_late(shard.machine.sync, request)
    return answer
