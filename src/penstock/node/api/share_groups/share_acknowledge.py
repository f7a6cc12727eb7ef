"""ShareAcknowledge 1-2: what a member says of records that it has, answered when it is written down.

With epoch -1 the session ends, and what the member still has is free; the answer does not wait for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.share_groups.acknowledging import (
    Acknowledging,
    Telling,
    check_asker,
    in_slices,
    is_wide,
    name_in_slices,
    named_in,
)
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
from penstock.sharing.sessions import FINAL_EPOCH, FIRST_EPOCH, SessionKey, TopicPartition


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
    if is_wide(request.topics):
        return _answer_wide(broker, context, request, saying)
    saying.say(named_in(request.topics))
    _end(broker, key, epoch)
    if saying.is_settled:
        return _answer(broker, context, key, saying)
    return _when_settled(broker, context, key, saying)


def _end(broker: Broker, key: SessionKey, epoch: int) -> None:
    if epoch == FINAL_EPOCH:
        broker.sharing.close(key)


async def _answer_wide(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest, saying: Acknowledging
) -> ShareAcknowledgeResponse:
    await name_in_slices(broker.slices, request.topics, saying.say)
    _end(broker, saying.key, request.share_session_epoch)
    await saying.settled()
    telling = _telling(broker)
    await in_slices(broker.slices, iter(list(saying.refused.items())), partial(_tell, telling))
    return _response(broker, context, saying.key, telling)


async def _when_settled(
    broker: Broker, context: RequestContext, key: SessionKey, saying: Acknowledging
) -> ShareAcknowledgeResponse:
    await saying.settled()
    return _answer(broker, context, key, saying)


def _answer(
    broker: Broker, context: RequestContext, key: SessionKey, saying: Acknowledging
) -> ShareAcknowledgeResponse:
    telling = _telling(broker)
    _tell(telling, saying.refused.items())
    return _response(broker, context, key, telling)


def _telling(broker: Broker) -> Telling:
    return Telling(broker, ShareAcknowledgeTopicResponse, LeaderIdAndEpoch)


def _tell(telling: Telling, some: Iterable[tuple[TopicPartition, KafkaError | None]]) -> None:
    for place, error in some:
        result = PartitionData(partition_index=place.partition)
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        telling.tell(place, result, error)


def _response(broker: Broker, context: RequestContext, key: SessionKey, telling: Telling) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.sharing.settings.of(key.group_id).partitions.record_lock_duration_ms,
        responses=telling.topics,
        node_endpoints=telling.endpoints(context.session.listener, NodeEndpoint),
    )
