"""Heartbeat 0-4: a member lives, and learns whether the group calls it back to join.

Answered at once. While the coordinator reads its partition, every heartbeat is good.
"""

from __future__ import annotations

from functools import lru_cache

from penstock.node.api.coordinated import coordinated
from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, versions=(0, 4), needs=(Need.READ_GROUP,), repeats=True)
@coordinated()
def heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> bytes:
    """Ask the group's coordinator."""
    return _answer(_error(broker, request), context.api_version)


def _error(broker: Broker, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    groups = broker.groups
    try:
        shard = groups.find(request.group_id)
    except KafkaError as error:
        return ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
    return shard.machine.heartbeat(request, groups.now_ms())


@lru_cache
def _answer(error: ErrorCode, version: int) -> bytes:
    return encode(HeartbeatResponse(error_code=error), version)
