"""InitProducerId, versions 0 to 5: an id for an idempotent producer.

A producer without a transactional id gets a new id with epoch 0 each time, whatever it had before. Transactions are not
there yet: a transactional id is checked, with its time-out, and then refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED
(the one error on which every client gives up at once).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from penstock.node.coordinators.producer_ids import Allocate
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTION
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.requests.api import ApiKey

FIRST_EPOCH = 0


def _transactional_id(request: InitProducerIdRequest) -> tuple[str, ...]:
    return () if request.transactional_id is None else (request.transactional_id,)


def _idempotent(request: InitProducerIdRequest) -> tuple[str, ...]:
    return (CLUSTER_NAME,) if request.transactional_id is None else ()


RULE: Final = (
    Whole(WRITE_TRANSACTION, _transactional_id, words="with a transactional id"),
    Whole(IDEMPOTENT_WRITE, _idempotent, or_any=WRITE_TOPIC, words="without one"),
)


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), rule=RULE)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Answers at once from this broker's block of ids, or when the controller has given it one."""
    problem = _problem(broker, request)
    if problem is not None:
        return _refused(problem)

    def allocate() -> asyncio.Future[AllocateProducerIdsResponse]:
        command = AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=broker.broker_epoch)
        return broker.controller.submit(command, AllocateProducerIdsResponse)

    producer_id = broker.producer_ids.take_now(allocate)
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)
    return _later(broker, allocate)


async def _later(broker: Broker, allocate: Allocate) -> InitProducerIdResponse:
    try:
        producer_id = await broker.producer_ids.take(allocate)
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _problem(broker: Broker, request: InitProducerIdRequest) -> ErrorCode | None:
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= broker.config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
