"""Batches of transactions: what a broker asks their coordinator, and what becomes of its answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.log.transactions import ended, written
from tests.unit.node.on_disk import NOW_MS, Node, node_on, produce_request, topic_records

from penstock.coordinator.effects import Job, ToLeader
from penstock.log.validation import AppendOrigin
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.node.api.broker.produce import _Request
from penstock.node.api.transactions.verification import MOST_TRIES, Knows, _told
from penstock.node.partitions.partition import ALL_REPLICAS
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse

STATE_ID = UUID(int=77)
FIRST = written(8, 0)


class Coordinator:
    """Answers in the place of a coordinator of transactions; `meanwhile` happens before it does."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.code_of_all = ErrorCode.NONE
        self.failure: KafkaError | None = None
        self.asked: list[ToLeader] = []
        self.meanwhile: Any = lambda: None

    async def done(self, job: Job) -> AddPartitionsToTxnResponse:
        assert isinstance(job, ToLeader)
        self.asked.append(job)
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        (transaction,) = cast("AddPartitionsToTxnRequest", job.request).transactions
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=self.code)
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ]
        result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
        return AddPartitionsToTxnResponse(error_code=self.code_of_all, results_by_transaction=[result])


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def node(tmp_path: Path, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    state = [TopicRecord(name=TRANSACTION_STATE, topic_id=STATE_ID)]
    partitions = [
        PartitionRecord(partition_id=number, topic_id=STATE_ID, replicas=[2], isr=[2], leader=2, leader_epoch=0)
        for number in range(5)
    ]
    with node_on(tmp_path, *topic_records(partitions=2), *state, *partitions) as node:
        errands: Any = node.broker.groups.context.errands
        monkeypatch.setattr(errands, "done", coordinator.done)
        yield node


def transactional(data: memoryview = FIRST) -> ProduceRequest:
    request = produce_request(bytes(data))
    request.transactional_id = "payments"
    return request


async def produced(node: Node, request: ProduceRequest, version: int = 9) -> PartitionProduceResponse:
    found = node.dispatch(request, version)
    if isinstance(found, Waiting):
        response = await node.wait(request, version, found)
    else:
        response = node.decode(request, version, found)
    assert isinstance(response, ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    return answer


async def test_the_coordinator_is_asked_once_before_the_first_batch(node: Node, coordinator: Coordinator) -> None:
    assert (await produced(node, transactional())).base_offset == 0
    assert (await produced(node, transactional(written(8, 1)))).base_offset == 1
    (job,) = coordinator.asked
    (transaction,) = cast("AddPartitionsToTxnRequest", job.request).transactions
    assert (job.topic, job.partition) == (TRANSACTION_STATE, coordinator_partition("payments", 5))
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("payments", 8, 0)
    assert transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", [0])]
    assert node.partition().last_stable_offset == 0


async def test_what_was_verified_is_answered_without_a_thread(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, threads = _Request.encoded, list[threading.Thread]()

    def watched(request: _Request) -> list[bytes]:
        threads.append(threading.current_thread())
        return encoded(request)

    monkeypatch.setattr(_Request, "encoded", watched)
    assert (await produced(node, transactional())).base_offset == 0
    assert threads == [threading.main_thread()]


async def test_producers_whose_epochs_rise_have_the_broker_add_the_partition(
    node: Node, coordinator: Coordinator
) -> None:
    assert (await produced(node, transactional(), 12)).error_code == ErrorCode.NONE
    (transaction,) = cast("AddPartitionsToTxnRequest", coordinator.asked[0].request).transactions
    assert not transaction.verify_only


async def test_what_the_coordinator_refuses_is_not_appended(node: Node, coordinator: Coordinator) -> None:
    coordinator.code = ErrorCode.PRODUCER_FENCED
    assert (await produced(node, transactional())).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    coordinator.code, coordinator.code_of_all = ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (await produced(node, transactional())).error_code == ErrorCode.INVALID_TXN_STATE
    coordinator.failure = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    assert (await produced(node, transactional())).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.partition().log.log_end_offset == 0
    coordinator.failure, coordinator.code_of_all = None, ErrorCode.NONE
    assert (await produced(node, transactional())).base_offset == 0


async def test_a_marker_before_the_answer_voids_it(node: Node, coordinator: Coordinator) -> None:
    """Else the batch would begin a transaction that nobody ends."""
    partition = node.partition()
    coordinator.meanwhile = lambda: partition.append(
        ended(8, ControlType.ABORT), acks=ALL_REPLICAS, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    assert (await produced(node, transactional())).error_code == ErrorCode.INVALID_TXN_STATE
    assert partition.last_stable_offset == partition.log.log_end_offset == 1


async def test_where_epochs_rise_it_is_that_of_the_transaction_before(node: Node, coordinator: Coordinator) -> None:
    """The coordinator has waited for that with its answer, and is asked again; but not for ever."""
    partition = node.partition()

    def end(*, is_once: bool) -> None:
        producer_id = 8 if is_once else 9
        partition.append(
            ended(producer_id, ControlType.COMMIT), acks=ALL_REPLICAS, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
        if is_once:
            coordinator.meanwhile = lambda: None

    coordinator.meanwhile = lambda: end(is_once=True)
    assert (await produced(node, transactional(), 12)).base_offset == 1
    assert len(coordinator.asked) == 2
    coordinator.asked.clear()
    coordinator.meanwhile = lambda: end(is_once=False)
    assert (await produced(node, transactional(written(9, 0)), 12)).error_code == ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.asked) == MOST_TRIES


async def test_a_log_that_was_read_in_anew_has_to_be_asked_about_again(node: Node, coordinator: Coordinator) -> None:
    log = node.partition().log
    coordinator.meanwhile = log.abandon
    assert (await produced(node, transactional())).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_while_nobody_coordinates_producers_try_again(node: Node) -> None:
    del node.image.topics[TRANSACTION_STATE]
    assert (await produced(node, transactional())).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_without_verification_nobody_is_asked_about_older_producers(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    settings = {"transaction_partition_verification_enable": "false"}
    with node_on(tmp_path, *topic_records(), **settings) as node:
        assert (await produced(node, transactional())).error_code == ErrorCode.NONE
        assert (await produced(node, transactional(written(9, 0)), 12)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NONE, [0, 0, 0]),
        (ErrorCode.TRANSACTION_ABORTABLE, [ErrorCode.INVALID_TXN_STATE] + [ErrorCode.TRANSACTION_ABORTABLE] * 2),
        (ErrorCode.CONCURRENT_TRANSACTIONS, [ErrorCode.NOT_ENOUGH_REPLICAS] * 2 + [ErrorCode.CONCURRENT_TRANSACTIONS]),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
    ],
)
def test_each_client_hears_an_error_that_it_knows(code: ErrorCode, told: list[ErrorCode]) -> None:
    assert [_told(code, knows) for knows in Knows] == told
