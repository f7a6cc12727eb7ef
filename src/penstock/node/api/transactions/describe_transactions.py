"""DescribeTransactions 0: what transactional ids are in the middle of, as their coordinator has it (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.transaction import Transaction
from penstock.node.api.transactions.asking import put
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import NAMES_A_STEP
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

PARTITIONS_A_STEP: Final = 200


def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """However often an id is named, it is told of once: it may be about very many partitions."""
    states: dict[str, TransactionState] = {}
    again = Pace(NAMES_A_STEP)
    for transactional_id in request.transactional_ids:
        if transactional_id in states:
            if again.is_due():
                yield None
            continue
        found = _found(broker, transactional_id)
        known = (yield found) if isinstance(found, Awaitable) else found
        states[transactional_id] = yield from _state(context, transactional_id, known)
        yield None
    return DescribeTransactionsResponse(transaction_states=list(states.values()))


Found = Transaction | ErrorCode | None


def _found(broker: Broker, transactional_id: str) -> Found | Awaitable[Found]:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        found: Found | Awaitable[Found] = put(broker, transactional_id, TransactionShard.describe_transaction)
    except KafkaError as error:
        return error.code
    return found


def _state(context: RequestContext, transactional_id: str, known: Found) -> Steps[TransactionState]:
    if not isinstance(known, Transaction):
        return TransactionState(
            transactional_id=transactional_id, error_code=known or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    told = TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.shown,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
    )
    topics: dict[str, TopicData | None] = {}
    pace = Pace(PARTITIONS_A_STEP)
    for topic, index in list(known.partitions):
        if pace.is_due():
            yield None
        if topic not in topics:
            topics[topic] = TopicData(topic=topic) if context.shows(DESCRIBE_TOPIC, topic) else None
        if (shown := topics[topic]) is not None:
            shown.partitions.append(index)
    told.topics = [topic for topic in topics.values() if topic is not None]
    return told
