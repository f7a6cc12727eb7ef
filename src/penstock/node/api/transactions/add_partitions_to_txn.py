"""AddPartitionsToTxn 0-5: partitions join a transaction, or (`verify_only`) it is asked whether they are in it.

Up to version 3 a client asks, for one transaction; later versions are for brokers, and about several (KIP-890). If one
partition cannot be added, none of its transaction is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterable
from dataclasses import replace
from functools import partial
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

Partitions = dict[tuple[str, int], None]
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
    partitions = yield from _named(wanted.topics)
    result = partial(_result, wanted.transactional_id, partitions)
    is_client = context.api_version < BROKERS_SINCE
    if is_client and not context.allows(WRITE_TRANSACTION, wanted.transactional_id):
        return (yield from result({}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    problems = yield from _problems(broker, context, partitions)
    if problems:
        return (yield from result(problems, ErrorCode.OPERATION_NOT_ATTEMPTED))
    asked_by = Producer(wanted.producer_id, wanted.producer_epoch)
    if wanted.verify_only:
        verified = _verified(broker, wanted.transactional_id, asked_by, partitions)
        return (yield from result((yield verified) if isinstance(verified, Awaitable) else verified, ErrorCode.NONE))
    version = OF_CLIENTS if is_client else OF_BROKERS
    outcome = ask(broker, wanted.transactional_id, TransactionShard.add, asked_by, partitions, version)
    told = outcome if isinstance(outcome, Outcome) else (yield outcome)
    return (yield from result({}, fenced_as(told.error, context.api_version, FENCED_SINCE)))


def _named(topics: Iterable[AddPartitionsToTxnTopic]) -> Steps[Partitions]:
    """Each partition once, however often it is named."""
    partitions, pace = Partitions(), Pace(PARTITIONS_A_STEP)
    for topic in topics:
        if pace.is_due():
            yield None
        for index in topic.partitions:
            partitions[topic.name, index] = None
            if pace.is_due():
                yield None
    return partitions


def _problems(broker: Broker, context: RequestContext, partitions: Partitions) -> Steps[Errors]:
    """Those that cannot be added, as far as it is not for the coordinator to say."""
    problems, judged, pace = Errors(), dict[str, tuple[Container[int], ErrorCode]](), Pace(PARTITIONS_A_STEP)
    for topic, index in partitions:
        if topic not in judged:
            judged[topic] = _judged(broker, context, topic)
        there, otherwise = judged[topic]
        if index not in there:
            problems[topic, index] = otherwise
        if pace.is_due():
            yield None
    return problems


def _judged(broker: Broker, context: RequestContext, topic: str) -> tuple[Container[int], ErrorCode]:
    """Which of its partitions can be added, and what is said of others."""
    if context.api_version < BROKERS_SINCE and (is_internal(topic) or not context.allows(WRITE_TOPIC, topic)):
        return (), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = broker.image.topics.get(topic)
    return () if known is None else known.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verified(
    broker: Broker, transactional_id: str, asked_by: Producer, partitions: Partitions
) -> Errors | Awaitable[Errors]:
    if not transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    try:
        found: Errors | Awaitable[Errors] = put(broker, transactional_id, TransactionShard.verify, asked_by, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return found


def _result(
    transactional_id: str, partitions: Partitions, errors: Errors, otherwise: ErrorCode
) -> Steps[AddPartitionsToTxnResult]:
    topics, pace = dict[str, AddPartitionsToTxnTopicResult](), Pace(PARTITIONS_A_STEP)
    for topic, index in partitions:
        if topic not in topics:
            topics[topic] = AddPartitionsToTxnTopicResult(name=topic)
        code = errors.get((topic, index), otherwise)
        row = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics[topic].results_by_partition.append(row)
        if pace.is_due():
            yield None
    return AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=list(topics.values()))
