"""EndTxn 0-5: a transaction is committed or aborted. Waits until that is decided for good, not for the markers.

From version 5 on the producer is told with which epoch, or id, it goes on (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import Producer
from penstock.node.api.coordinated import coordinated, transactions
from penstock.node.api.transactions.asking import ask, fenced_as, when_told
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2
RAISES_SINCE: Final = 5


@coordinated(lambda request: (request.transactional_id,), at=transactions)
def end_txn(
    broker: Broker, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    asked_by = Producer(request.producer_id, request.producer_epoch)
    raises = context.api_version >= RAISES_SINCE
    outcome = ask(broker, request.transactional_id, TransactionShard.end, asked_by, request.committed, raises)
    return when_told(outcome, partial(_response, context.api_version))


def _response(api_version: int, outcome: Outcome) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=fenced_as(outcome.error, api_version, FENCED_SINCE),
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
    )
