"""Heartbeat 0-4: a member lives, and learns whether the group calls it back to join.

Answered at once. While the coordinator reads its partition, every heartbeat is good.
"""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, versions=(0, 4), needs=(Need.READ_GROUP,), repeats=True)
def heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Ask the group's coordinator."""
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
    return HeartbeatResponse(error_code=shard.machine.heartbeat(request, broker.groups.now_ms()))
