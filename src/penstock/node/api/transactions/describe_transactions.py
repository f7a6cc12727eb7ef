"""DescribeTransactions 0: what transactional ids are in the middle of, as their coordinator has it (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.transaction import Transaction
from penstock.node.api.transactions.asking import put
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    states = []
    for transactional_id in request.transactional_ids:
        found = _found(broker, transactional_id)
        known = (yield found) if isinstance(found, Awaitable) else found
        states.append(_state(context, transactional_id, known))
        yield None
    return DescribeTransactionsResponse(transaction_states=states)


Found = Transaction | ErrorCode | None


def _found(broker: Broker, transactional_id: str) -> Found | Awaitable[Found]:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        found: Found | Awaitable[Found] = put(broker, transactional_id, TransactionShard.describe_transaction)
    except KafkaError as error:
        return error.code
    return found


def _state(context: RequestContext, transactional_id: str, known: Found) -> TransactionState:
    if not isinstance(known, Transaction):
        return TransactionState(
            transactional_id=transactional_id, error_code=known or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    topics: dict[str, list[int]] = {}
    for topic, index in known.partitions:
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.shown,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if context.shows(DESCRIBE_TOPIC, topic)
        ],
    )
