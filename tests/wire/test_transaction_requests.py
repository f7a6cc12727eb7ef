"""What brokers answer to requests about transactions that clients of others never make, or seldom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.wire.raw_client import RawClient, batch_of, produce_request
from tests.wire.transaction_requests import BROKERS_SINCE, begun, offsets, partitions

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest

NONE = ErrorCode.NONE


@pytest.fixture
def client(bootstrap: str, topic: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        client.create_topic(topic)
        client.find_coordinator("a group")
        yield client


def codes(answer: AddPartitionsToTxnResponse) -> dict[str, int]:
    """By topic."""
    topics = answer.results_by_topic_v3_and_below or answer.results_by_transaction[0].topic_results
    return {topic.name: topic.results_by_partition[0].partition_error_code for topic in topics}


def adding(topic: str, *topics: str, epoch: int = 0, producer_id: int = -1) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=topic,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics],
    )


def test_partitions_are_added_together_or_not_at_all(client: RawClient, topic: str) -> None:
    me = begun(client, topic)
    request = adding(topic, topic, "nowhere", "__consumer_offsets", producer_id=me.producer_id)
    assert codes(client.ask(request, 3)) == {
        topic: ErrorCode.OPERATION_NOT_ATTEMPTED,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    (found,) = client.ask(DescribeTransactionsRequest(transactional_ids=[topic])).transaction_states
    assert (found.error_code, found.transaction_state, found.topics) == (NONE, "Empty", [])


@pytest.mark.parametrize("version", [3, 5])
def test_nor_are_some_of_very_many(client: RawClient, topic: str, version: int) -> None:
    """However often one is named, it is answered once."""
    request = partitions(topic, version, begun(client, topic))
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0] * 100 + list(range(100)))]
    if version < BROKERS_SINCE:
        request.v3_and_below_topics = topics
    else:
        request.transactions[0].topics = topics
    answer = client.ask(request, version)
    (told,) = answer.results_by_topic_v3_and_below or answer.results_by_transaction[0].topic_results
    assert {row.partition_index: row.partition_error_code for row in told.results_by_partition} == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED
    } | dict.fromkeys(range(1, 100), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(told.results_by_partition) == 100
    (found,) = client.ask(DescribeTransactionsRequest(transactional_ids=[topic])).transaction_states
    assert (found.error_code, found.transaction_state, found.topics) == (NONE, "Empty", [])


@pytest.mark.parametrize(("version", "fenced"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (3, ErrorCode.PRODUCER_FENCED)])
def test_older_clients_are_fenced_in_a_word_that_they_know(
    client: RawClient, topic: str, version: int, fenced: ErrorCode
) -> None:
    old = begun(client, topic)
    begun(client, topic)
    assert codes(client.ask(adding(topic, topic, producer_id=old.producer_id), version)) == {topic: fenced}
    assert client.ask(offsets(topic, old), version).error_code == fenced
    end = EndTxnRequest(transactional_id=topic, producer_id=old.producer_id, producer_epoch=0, committed=True)
    assert client.ask(end, version).error_code == fenced
    assert client.ask(end, 5).error_code == ErrorCode.PRODUCER_FENCED
    request = InitProducerIdRequest(
        transactional_id=topic, transaction_timeout_ms=1_000, producer_id=old.producer_id + 1, producer_epoch=3
    )
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.ask(request, 4).error_code == ErrorCode.PRODUCER_FENCED


def test_brokers_ask_whether_partitions_are_in_a_transaction(client: RawClient, topic: str) -> None:
    me = begun(client, topic)
    request = partitions(topic, 5, me)
    (wanted,) = request.transactions
    wanted.topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    wanted.verify_only = True
    assert codes(client.ask(request)) == {topic: ErrorCode.TRANSACTION_ABORTABLE}
    wanted.verify_only = False
    assert codes(client.ask(request)) == {topic: NONE}
    wanted.verify_only = True
    assert codes(client.ask(request)) == {topic: NONE}
    wanted.producer_epoch += 1
    assert codes(client.ask(request)) == {topic: ErrorCode.PRODUCER_FENCED}
    wanted.transactional_id = ""
    assert codes(client.ask(request)) == {topic: ErrorCode.INVALID_REQUEST}
    wanted.transactional_id = f"{topic}-unknown"
    assert codes(client.ask(request)) == {topic: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_ids_are_listed_by_state_producer_duration_and_pattern(client: RawClient, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    producers = {name: begun(client, name) for name in names}
    client.ask(adding(names[0], topic, producer_id=producers[names[0]].producer_id), 3)
    mine = f"{topic}-.*"

    def listed(**filters: Any) -> list[str]:
        answer = client.ask(ListTransactionsRequest(**({"transactional_id_pattern": mine} | filters)))
        assert answer.error_code == NONE
        return sorted(state.transactional_id for state in answer.transaction_states)

    assert listed() == names
    assert listed(state_filters=["Ongoing"]) == names[:1]
    assert listed(producer_id_filters=[producers[names[1]].producer_id]) == names[1:2]
    assert listed(duration_filter=900_000) == names[1:]  # what has not begun has, as Kafka counts, been open for ever
    assert listed(transactional_id_pattern=f"{topic}-[12]") == names[1:]
    answer = client.ask(ListTransactionsRequest(state_filters=["Sleeping", "Empty"]))
    assert answer.unknown_state_filters == ["Sleeping"]
    refused = client.ask(ListTransactionsRequest(transactional_id_pattern="(a"))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_what_is_no_transactional_id_is_said(client: RawClient, topic: str) -> None:
    begun(client, topic)
    states = client.ask(DescribeTransactionsRequest(transactional_ids=["", f"{topic}-unknown"])).transaction_states
    assert [state.error_code for state in states] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ]
    end = EndTxnRequest(transactional_id=f"{topic}-unknown", producer_id=1, producer_epoch=0, committed=True)
    assert client.ask(end, 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    half = InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=1_000, producer_id=5, producer_epoch=-1)
    assert client.ask(half, 5).error_code == ErrorCode.INVALID_REQUEST


def test_the_next_transaction_waits_for_the_markers_of_the_last_one(client: RawClient, topic: str) -> None:
    """A client that was refused would come back after a tenth of a second."""
    me = begun(client, topic)
    producer_id, epoch = me.producer_id, me.producer_epoch
    for _ in range(30):
        batch = batch_of(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)
        request = produce_request(topic, batch)
        request.transactional_id = topic
        assert client.ask(request, 12).responses[0].partition_responses[0].error_code == NONE
        end = EndTxnRequest(transactional_id=topic, producer_id=producer_id, producer_epoch=epoch, committed=True)
        ended = client.ask(end, 5)
        assert ended.error_code == NONE
        producer_id, epoch = ended.producer_id, ended.producer_epoch
    assert epoch == 30
