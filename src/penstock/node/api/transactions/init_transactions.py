"""InitProducerId with a transactional id: the producer before is fenced, and its transaction aborted.

From version 6 on (KIP-939) it may be kept instead, for this producer to end; and a producer whose transactions are
decided elsewhere gets a time-out that never runs out. One that asks for as long a time-out and for nothing else gets a
millisecond less: the time-out is all that tells the two apart in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import (
    LONGEST_TIMEOUT_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    WITHOUT_TIMEOUT_MS,
    Producer,
)
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
    asked_ms = request.transaction_timeout_ms
    timeout_ms = WITHOUT_TIMEOUT_MS if request.enable2_pc else min(asked_ms, LONGEST_TIMEOUT_MS)
    is_allowed = request.enable2_pc or 0 < asked_ms <= broker.config.transaction_max_timeout_ms
    if request.transactional_id and not is_allowed:
        return response(Outcome(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    known = Producer(request.producer_id, request.producer_epoch) if has_id else None
    keeps = request.keep_prepared_txn
    asked = ask(broker, request.transactional_id or "", TransactionShard.init, timeout_ms, known, keeps)
    return when_told(asked, response)


def _response(api_version: int, outcome: Outcome) -> InitProducerIdResponse:
    kept = outcome.kept or Producer(NO_PRODUCER_ID, NO_EPOCH)
    return InitProducerIdResponse(
        error_code=fenced_as(outcome.error, api_version, FENCED_SINCE),
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        ongoing_txn_producer_id=kept.producer_id,
        ongoing_txn_producer_epoch=kept.epoch,
    )
