"""ShareAcknowledge 1-2: what a member says of records that it has, answered when it is written down.

With epoch -1 the session ends, and what the member still has is free; the answer does not wait for that.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.share_groups.acknowledging import Acknowledging, by_topic, check_asker, endpoints, leader_of
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from penstock.sharing.sessions import FINAL_EPOCH, FIRST_EPOCH


def share_acknowledge(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    try:
        if not broker.image.features.get(SHARE_VERSION):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        key, epoch = check_asker(request), request.share_session_epoch
        if epoch == FIRST_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        broker.sharing.sessions.at(key, epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    saying = Acknowledging(broker, context, key, is_renewal=request.is_renew_ack)
    saying.say(request.topics)
    if epoch == FINAL_EPOCH:
        broker.sharing.close(key)
    if saying.is_settled:
        return _answer(broker, context, request, saying)
    return _settled(broker, context, request, saying)


async def _settled(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest, saying: Acknowledging
) -> ShareAcknowledgeResponse:
    await saying.settled()
    return _answer(broker, context, request, saying)


def _answer(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest, saying: Acknowledging
) -> ShareAcknowledgeResponse:
    results = {
        place: PartitionData(
            partition_index=place.partition,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            current_leader=leader_of(broker, place, error, LeaderIdAndEpoch),
        )
        for place, error in saying.refused.items()
    }
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.sharing.lock_duration_ms(request.group_id or ""),
        responses=by_topic(results, ShareAcknowledgeTopicResponse),
        node_endpoints=endpoints(broker, context, (it.current_leader for it in results.values()), NodeEndpoint),
    )
