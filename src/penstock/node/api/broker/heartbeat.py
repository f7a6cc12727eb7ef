"""Heartbeat 0-4: a member lives, and learns whether the group calls it back to join, or is to commit.

Answered at once. While the coordinator reads its partition, every heartbeat is good.
"""

from functools import lru_cache

from penstock.node.api.coordinated import coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_GROUP
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole, the_group
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.HEARTBEAT, versions=(0, 4), rule=(Whole(READ_GROUP, the_group),), repeats=True)
@coordinated()
def heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> bytes:
    version = context.api_version
    if not request.group_id:
        return _answer(ErrorCode.INVALID_GROUP_ID, False, version)
    groups = broker.groups
    try:
        machine = groups.find(request.group_id).machine
    except KafkaError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return _answer(ErrorCode.NONE if is_loading else error.code, False, version)
    code = machine.heartbeat(request, groups.now_ms())
    return _answer(code, not code and machine.asks_for_commit(request), version)


@lru_cache
def _answer(error: ErrorCode, commit_now: bool, version: int) -> bytes:
    return encode(HeartbeatResponse(error_code=error, commit_now=commit_now), version)
