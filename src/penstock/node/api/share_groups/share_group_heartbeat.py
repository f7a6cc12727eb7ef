"""ShareGroupHeartbeat 1: a member joins, lives, learns what it is to read, says what it reads, and leaves.

Answered when what it rests on is committed. `coordinator/group/share/heartbeat.py` has the rules.
"""

from collections.abc import Awaitable

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.coordinated import caller_of, coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@coordinated()
def share_group_heartbeat(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    if not broker.image.features.get(SHARE_VERSION):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code)
    caller = caller_of(context)
    answer: ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse] = shard.ask(
        shard.machine.share_heartbeat, request, caller
    )
    return answer
