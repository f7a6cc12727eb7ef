"""AddOffsetsToTxn 0-4: a transaction will commit offsets of a group, so that the group's partition gets its marker."""

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
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE: Final = 2


@coordinated(lambda request: (request.transactional_id,), at=transactions)
def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    try:
        partition = CONSUMER_OFFSETS, broker.groups.partition_of(request.group_id)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    asked_by = Producer(request.producer_id, request.producer_epoch)
    outcome = ask(broker, request.transactional_id, TransactionShard.add, asked_by, {partition: None}, 0)
    return when_told(outcome, partial(_response, context.api_version))


def _response(api_version: int, outcome: Outcome) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=fenced_as(outcome.error, api_version, FENCED_SINCE))
