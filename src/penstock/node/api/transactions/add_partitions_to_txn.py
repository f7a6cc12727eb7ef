"""AddPartitionsToTxn 0-5: partitions join a transaction, or (`verify_only`) it is asked whether they are in it.

Up to version 3 a client asks, for one transaction; later versions are for brokers, and about several (KIP-890). If one
partition cannot be added, none of its transaction is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any, Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import Producer
from penstock.node.api.coordinated import coordinated, transactions
from penstock.node.api.transactions.asking import ask, fenced_as, put
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTION
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import NODE
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import is_internal
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BROKERS_SINCE: Final = 4
FENCED_SINCE: Final = 2
PARTITIONS_A_STEP: Final = 100
OF_BROKERS, OF_CLIENTS = 2, 0
"""The transaction.version that who asks keeps to."""

Errors = dict[tuple[str, int], ErrorCode]


def _keys(request: AddPartitionsToTxnRequest) -> list[str]:
    return [it.transactional_id for it in request.transactions] or [request.v3_and_below_transactional_id]


def add_partitions_to_txn(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> Any:
    """Whether a node asks, who may be known by its listener, is judged here: another coordinator sees an envelope."""
    if context.api_version >= BROKERS_SINCE:
        if not context.allows(CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        context = replace(context, session=context.session.replace(principal=NODE))
    return _answer(broker, context, request)


@coordinated(_keys, at=transactions)
def _answer(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Steps[AddPartitionsToTxnResponse]:
    if context.api_version < BROKERS_SINCE:
        added = yield from _added(broker, context, _as_newer(request))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=added.topic_results)
    results = []
    for transaction in request.transactions:
        results.append((yield from _added(broker, context, transaction)))
        yield None
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _as_newer(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _added(
    broker: Broker, context: RequestContext, wanted: AddPartitionsToTxnTransaction
) -> Steps[AddPartitionsToTxnResult]:
    is_client = context.api_version < BROKERS_SINCE
    if is_client and not context.allows(WRITE_TRANSACTION, wanted.transactional_id):
        return _result(wanted, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    errors, pace = Errors(), Pace(PARTITIONS_A_STEP)
    for topic in wanted.topics:
        errors |= _problems(broker, context, topic)
        if pace.is_due(1 + len(topic.partitions)):
            yield None
    if any(error is not ErrorCode.NONE for error in errors.values()):
        return _result(wanted, {it: error or ErrorCode.OPERATION_NOT_ATTEMPTED for it, error in errors.items()})
    asked_by = Producer(wanted.producer_id, wanted.producer_epoch)
    if wanted.verify_only:
        verified = _verified(broker, wanted.transactional_id, asked_by, dict.fromkeys(errors))
        return _result(wanted, (yield verified) if isinstance(verified, Awaitable) else verified)
    version = OF_CLIENTS if is_client else OF_BROKERS
    outcome = ask(broker, wanted.transactional_id, TransactionShard.add, asked_by, dict.fromkeys(errors), version)
    told = outcome if isinstance(outcome, Outcome) else (yield outcome)
    return _result(wanted, fenced_as(told.error, context.api_version, FENCED_SINCE))


def _problems(broker: Broker, context: RequestContext, topic: AddPartitionsToTxnTopic) -> Errors:
    """NONE for each partition that can be added, as far as it is not for the coordinator to say."""
    if context.api_version < BROKERS_SINCE and (is_internal(topic.name) or not context.allows(WRITE_TOPIC, topic.name)):
        return {(topic.name, index): ErrorCode.TOPIC_AUTHORIZATION_FAILED for index in topic.partitions}
    known = broker.image.topics.get(topic.name)
    there = () if known is None else known.partitions
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {(topic.name, index): ErrorCode.NONE if index in there else unknown for index in topic.partitions}


def _verified(
    broker: Broker, transactional_id: str, asked_by: Producer, partitions: dict[tuple[str, int], None]
) -> Errors | ErrorCode | Awaitable[Errors]:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        found: Errors | Awaitable[Errors] = put(broker, transactional_id, TransactionShard.verify, asked_by, partitions)
    except KafkaError as error:
        return error.code
    return found


def _result(wanted: AddPartitionsToTxnTransaction, errors: Errors | ErrorCode) -> AddPartitionsToTxnResult:
    def results(name: str, indexes: Iterable[int]) -> list[AddPartitionsToTxnPartitionResult]:
        return [
            AddPartitionsToTxnPartitionResult(
                partition_index=index,
                partition_error_code=errors if isinstance(errors, ErrorCode) else errors[name, index],
            )
            for index in indexes
        ]

    return AddPartitionsToTxnResult(
        transactional_id=wanted.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results(topic.name, topic.partitions))
            for topic in wanted.topics
        ],
    )
