"""A sensible request to each API of transactions, in every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wire.raw_client import TRANSACTION, RawClient

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import add_partitions_to_txn, txn_offset_commit, write_txn_markers
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

TOPIC = GROUP = "every-version"
BROKERS_SINCE = 4


def begun(client: RawClient, name: str) -> InitProducerIdResponse:
    """Who the producer of this transactional id is."""
    client.find_coordinator(name, TRANSACTION)
    while True:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer: InitProducerIdResponse = client.ask(request, 5)
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            assert answer.error_code == ErrorCode.NONE, answer
            return answer


def partitions(name: str, version: int, me: InitProducerIdResponse) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    if version < BROKERS_SINCE:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=me.producer_id,
            v3_and_below_producer_epoch=me.producer_epoch,
            v3_and_below_topics=topics,
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=me.producer_id, producer_epoch=me.producer_epoch, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def offsets(name: str, me: InitProducerIdResponse) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=me.producer_id, producer_epoch=me.producer_epoch, group_id=GROUP
    )


def _add_partitions(asker: Any) -> Message:
    return partitions(asker.name, asker.version, begun(asker.client, asker.name))


def _add_offsets(asker: Any) -> Message:
    return offsets(asker.name, begun(asker.client, asker.name))


def _end(asker: Any) -> Message:
    me = begun(asker.client, asker.name)
    asker.client.ask(partitions(asker.name, 3, me), 3)
    return EndTxnRequest(
        transactional_id=asker.name, producer_id=me.producer_id, producer_epoch=me.producer_epoch, committed=True
    )


def _write_markers(asker: Any) -> Message:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=begun(asker.client, asker.name).producer_id,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _commit_offsets(asker: Any) -> Message:
    me = begun(asker.client, asker.name)
    asker.client.ask(offsets(asker.name, me), 3)
    by_id = asker.version >= 6
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(
        name="" if by_id else TOPIC,
        partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
    )
    if by_id:
        topic.topic_id = asker.topic_id
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=asker.name,
        group_id=GROUP,
        producer_id=me.producer_id,
        producer_epoch=me.producer_epoch,
        topics=[topic],
    )


def _describe(asker: Any) -> Message:
    begun(asker.client, asker.name)
    return DescribeTransactionsRequest(transactional_ids=[asker.name])


def _list(asker: Any) -> Message:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Empty"], producer_id_filters=[1])
    if asker.version >= 1:
        request.duration_filter = 10
    if asker.version >= 2:
        request.transactional_id_pattern = ".*"
    return request


REQUESTS: dict[ApiKey, Callable[[Any], Message]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.TXN_OFFSET_COMMIT: _commit_offsets,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe,
    ApiKey.LIST_TRANSACTIONS: _list,
}
