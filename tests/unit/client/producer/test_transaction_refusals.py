"""What is refused, or comes late, in a producer's transactions: what is asked again, and what fails with it."""

import asyncio
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.client.producer.coordinating import Coordinating, transactions_of

from penstock.client.errors import (
    ConnectionFailedError,
    ProducerFencedError,
    TransactionFailedError,
    TransactionStateError,
)
from penstock.client.producer import transactions as transactions_module
from penstock.client.producer.transactions import Transactions
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

P, Q, R = TopicPartition("b", 1), TopicPartition("a", 4), TopicPartition("b", 0)
OFFSETS = {P: OffsetAndMetadata(11, "note", 2), Q: OffsetAndMetadata(12), R: OffsetAndMetadata(13)}


async def opened(cluster: Coordinating, **more: Any) -> Transactions:
    transactions = transactions_of(cluster, **more)
    await transactions.begin()
    await transactions.add([P])
    return transactions


async def test_partitions_of_another_transaction_or_of_none_are_not_added() -> None:
    cluster = Coordinating(1)
    transactions = transactions_of(cluster)
    await transactions.begin()
    async with transactions._telling:
        late = asyncio.create_task(transactions.add([P]))
        await asyncio.sleep(0)
        transactions._number += 1
    await late
    transactions._is_ending = True
    await transactions.add([P])
    transactions._is_ending, transactions.is_open = False, False
    await transactions.add([P])
    assert cluster.of(AddPartitionsToTxnRequest) == []
    transactions.is_open = True
    await transactions.add([P])
    assert len(cluster.of(AddPartitionsToTxnRequest)) == 1


async def test_offsets_that_waited_until_the_next_transaction_are_in_none() -> None:
    cluster = Coordinating()
    transactions = transactions_of(cluster)
    await transactions.begin()
    async with transactions._telling:
        late = asyncio.create_task(transactions.add_offsets(OFFSETS, "g"))
        await asyncio.sleep(0)
        transactions._number += 1
    with pytest.raises(TransactionFailedError, match="was ended while these offsets waited"):
        await late
    transactions.check()
    assert cluster.of(TxnOffsetCommitRequest) == []


@pytest.mark.parametrize("version", [1, 2])
async def test_partitions_that_may_have_been_added_have_their_transaction_ended(version: int) -> None:
    cluster = Coordinating(version)
    transactions = transactions_of(cluster)
    await transactions.begin()
    cluster.scripts[AddPartitionsToTxnRequest] = [ConnectionFailedError("gone")]
    if version == 1:
        with pytest.raises(ConnectionFailedError):
            await transactions.add([P])
    else:
        await transactions.add([P])
    await transactions.end(commits=False)
    assert [one.request.committed for one in cluster.of(EndTxnRequest)] == [False]


def refused(code: ErrorCode) -> TxnOffsetCommitResponse:
    rows = [
        TxnOffsetCommitResponsePartition(partition_index=1),
        TxnOffsetCommitResponsePartition(partition_index=2, error_code=code),
    ]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="b", partitions=rows)])


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.FENCED_INSTANCE_ID]
)
async def test_offsets_that_are_refused_fail_their_transaction(code: ErrorCode) -> None:
    cluster = Coordinating()
    cluster.scripts[TxnOffsetCommitRequest] = [refused(code)]
    transactions = transactions_of(cluster)
    await transactions.begin()
    with pytest.raises(KafkaError, match=f"{code.name}: offset of b-2") as raised:
        await transactions.add_offsets(OFFSETS, "g")
    assert cluster.forgotten == ([] if code is ErrorCode.FENCED_INSTANCE_ID else [("g",)])
    assert transactions.failure is raised.value
    await transactions.end(commits=False)
    assert len(cluster.of(EndTxnRequest)) == 1, "some of them may be there"


async def test_offsets_that_are_interrupted_fail_their_transaction() -> None:
    cluster = Coordinating(1)
    transactions = transactions_of(cluster)
    await transactions.begin()

    async def interrupted(*_: object, **__: object) -> object:
        raise asyncio.CancelledError

    cluster.retrying = interrupted  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await transactions.add_offsets(OFFSETS, "g")
    assert str(transactions.failure) == "it was interrupted"


@pytest.mark.parametrize(("count", "asks", "pauses"), [(0, 1, 0), (1, 2, 1), (9, 10, 9), (10, 11, 10), (20, 20, 20)])
async def test_while_markers_are_written_it_is_asked_again_in_a_moment(
    monkeypatch: pytest.MonkeyPatch, count: int, asks: int, pauses: int
) -> None:
    """Ten times; then as after any refusal that may pass, which this cluster tries once more."""
    paused: list[float] = []

    async def sleep(pause_s: float) -> None:
        paused.append(pause_s)

    monkeypatch.setattr(transactions_module, "asyncio", stand_in(asyncio, sleep=sleep))
    cluster = Coordinating(1)
    cluster.scripts[AddOffsetsToTxnRequest] = [
        AddOffsetsToTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS) for _ in range(count)
    ]
    transactions = transactions_of(cluster)
    await transactions.begin()
    if count == 20:
        with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS: offsets of 'g' cannot be added"):
            await transactions.add_offsets({}, "g")
    else:
        await transactions.add_offsets({}, "g")
    assert (len(cluster.of(AddOffsetsToTxnRequest)), paused) == (asks, [0.02] * pauses)


@pytest.mark.parametrize(
    ("code", "asks", "forgets"),
    [
        (ErrorCode.NOT_COORDINATOR, 2, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 1, False),
    ],
)
async def test_which_refusals_may_pass(code: ErrorCode, asks: int, *, forgets: bool) -> None:
    cluster = Coordinating(1)
    transactions = transactions_of(cluster)
    await transactions.begin()
    cluster.scripts[AddOffsetsToTxnRequest] = [AddOffsetsToTxnResponse(error_code=code)]
    if asks == 2:
        await transactions.add_offsets({}, "g")
    else:
        with pytest.raises(KafkaError, match=code.name):
            await transactions.add_offsets({}, "g")
    assert len(cluster.of(AddOffsetsToTxnRequest)) == asks
    assert cluster.forgotten == ([("id", 1)] if forgets else [])


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=code) for code in codes]
    result = AddPartitionsToTxnTopicResult(name="b", results_by_partition=rows)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result])


N = ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("codes", "told_code"),
    [
        ([], None),
        ([ErrorCode.NONE, ErrorCode.NONE], None),
        ([N, ErrorCode.TOPIC_AUTHORIZATION_FAILED], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ([ErrorCode.TOPIC_AUTHORIZATION_FAILED, N, ErrorCode.NONE], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ([N, N], None),
    ],
)
async def test_of_partitions_those_that_were_tried_tell(codes: list[ErrorCode], told_code: ErrorCode | None) -> None:
    cluster = Coordinating(1)
    transactions = transactions_of(cluster)
    await transactions.begin()
    cluster.scripts[AddPartitionsToTxnRequest] = [added(*codes)]
    if told_code is None:
        await transactions.add([P])
    else:
        with pytest.raises(KafkaError, match=f"{told_code.name}: partitions cannot be added"):
            await transactions.add([P])
    await transactions.add([P])
    assert len(cluster.of(AddPartitionsToTxnRequest)) == (1 if told_code is None else 2), (
        "what is in is not added again"
    )


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_who_is_fenced_has_ended(code: ErrorCode) -> None:
    cluster = Coordinating()
    transactions = await opened(cluster)
    cluster.scripts[EndTxnRequest] = [EndTxnResponse(error_code=code)]
    with pytest.raises(ProducerFencedError, match=r"another producer has the transactional.id 'id' now.*\(9876\)"):
        await transactions.end(commits=True)
    count = len(cluster.asked)
    await transactions.close()
    for work in (transactions.begin(), transactions.end(commits=False), transactions.add_offsets({}, "g")):
        with pytest.raises(ProducerFencedError):
            await work
    for what in (transactions.check, transactions.present):
        with pytest.raises(ProducerFencedError):
            what()
    assert len(cluster.asked) == count


@pytest.mark.parametrize("request_class", [InitProducerIdRequest, EndTxnRequest])
async def test_a_version_that_nobody_speaks_is_told_with_the_cure_where_one_is_known(request_class: type) -> None:
    cluster = Coordinating()
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION, "too old")
    if request_class is InitProducerIdRequest:
        cluster.scripts[request_class] = [error]
        with pytest.raises(TransactionStateError, match="features upgrade") as told_error:
            await transactions_of(cluster).initialize()
        assert told_error.value.__cause__ is error
        return
    transactions = await opened(cluster)
    cluster.scripts[request_class] = [error]
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        await transactions.end(commits=True)


@pytest.mark.parametrize("state", ["new", "prepared", "ending", "fenced", "open"])
async def test_only_what_is_open_and_undecided_is_aborted_at_the_close(state: str) -> None:
    cluster = Coordinating()
    transactions = await opened(cluster, transaction_two_phase_commit_enable=True)
    if state == "new":
        transactions.is_open = False
    elif state == "prepared":
        transactions.prepare()
    elif state == "ending":
        transactions._is_ending = True
    elif state == "fenced":
        transactions._fenced = ProducerFencedError("another")
    await transactions.close()
    assert [one.request.committed for one in cluster.of(EndTxnRequest)] == ([False] if state == "open" else [])
