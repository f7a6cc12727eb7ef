"""InitProducerId with a transactional id: the producer before is fenced, and its transaction aborted."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.decisions import Producer
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID
from penstock.node.api.coordinated import coordinated, transactions
from penstock.node.api.transactions.asking import ask, fenced_as, when_told
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE: Final = 4
Answer = InitProducerIdResponse | Awaitable[InitProducerIdResponse]


@coordinated(lambda request: (request.transactional_id,), at=transactions)
def init_transactions(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> Answer:
    response = partial(_response, context.api_version)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        return response(Outcome(ErrorCode.INVALID_REQUEST))
    if request.transactional_id and not 0 < request.transaction_timeout_ms <= broker.config.transaction_max_timeout_ms:
        return response(Outcome(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    known = Producer(request.producer_id, request.producer_epoch) if has_id else None
    asked = ask(broker, request.transactional_id or "", TransactionShard.init, request.transaction_timeout_ms, known)
    return when_told(asked, response)


def _response(api_version: int, outcome: Outcome) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=fenced_as(outcome.error, api_version, FENCED_SINCE),
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
    )
