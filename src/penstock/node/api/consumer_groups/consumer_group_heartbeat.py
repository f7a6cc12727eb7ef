"""ConsumerGroupHeartbeat 0-1: a member joins, lives, learns what it is to read, says what it reads, and leaves.

Answered when what it rests on is committed. `coordinator/group/consumer/heartbeat.py` has the rules.
"""

from collections.abc import Awaitable
from functools import lru_cache, partial
from typing import Final

from penstock.metadata.features import GROUP_VERSION
from penstock.node.api.coordinated import USUAL_NAME, caller_of, coordinated
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

ANSWERS_KEPT: Final = 4_096
"""Of members that go on: nearly all answers are those of 5 s before."""


@coordinated()
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse] | bytes:
    if not broker.image.features.get(GROUP_VERSION):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        shard = broker.groups.find(request.group_id)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code)
    caller = caller_of(context)
    interval_ms = shard.machine.consumer_goes_on(request, caller, broker.groups.now_ms())
    if interval_ms is not None:
        answer_of = _kept_answer if len(request.member_id) <= USUAL_NAME else _answer
        return answer_of(request.member_id, request.member_epoch, interval_ms, context.api_version)
    may_describe = partial(context.shows, DESCRIBE_TOPIC)
    answer: ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse] = shard.ask(
        shard.machine.consumer_heartbeat, request, caller, may_describe
    )
    return answer


def _answer(member_id: str, epoch: int, interval_ms: int, version: int) -> bytes:
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
    )
    return encode(response, version)


_kept_answer: Final = lru_cache(ANSWERS_KEPT)(_answer)
