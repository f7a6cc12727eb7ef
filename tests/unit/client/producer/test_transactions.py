"""What a producer of transactions makes of their ends."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.errors import ConnectionFailedError, DeliveryTimedOutError, TransactionStateError
from penstock.client.producer.sequences import Sequences
from penstock.client.producer.transactions import TWO_PHASES_SINCE, Transactions
from penstock.client.settings import ProducerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class Cluster:
    """At transaction.version 2, if not another one. Its coordinator answers each EndTxn with the next of these."""

    def __init__(self, *ends: EndTxnResponse | Exception) -> None:
        self.ends = list(ends)
        self.version = 2
        self.epoch = 0
        self.log: list[str] = []
        self.answers = asyncio.Event()
        """What is added is answered from now on."""

    async def coordinator_connection(self, *about: object) -> Any:
        return SimpleNamespace(features={"transaction.version": self.version}, version_for=lambda key: TWO_PHASES_SINCE)

    async def to_coordinator(self, name: str, request: object, *how: object, **more: object) -> object:
        self.log.append(type(request).__name__)
        if isinstance(request, AddPartitionsToTxnRequest | AddOffsetsToTxnRequest):
            await self.answers.wait()
            return AddOffsetsToTxnResponse()
        if isinstance(request, TxnOffsetCommitRequest):
            return TxnOffsetCommitResponse()
        if not isinstance(request, EndTxnRequest):
            return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)
        answer = self.ends.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def retrying(self, attempt: Callable[[], Awaitable[Any]], **how: object) -> Any:
        return await attempt()


async def with_records(cluster: Cluster, sequences: Sequences | None = None, **more: Any) -> Transactions:
    settings = ProducerSettings(transactional_id="t", **more)
    transactions = Transactions(cluster, settings, sequences or Sequences())  # type: ignore[arg-type]
    await transactions.begin()
    await transactions.add([TopicPartition("flights", 0)])
    return transactions


REFUSED = EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)


async def test_what_may_be_committed_is_not_told_to_be_aborted_because_something_failed_later() -> None:
    transactions = await with_records(Cluster(ConnectionFailedError("gone"), REFUSED))
    with pytest.raises(ConnectionFailedError):
        await transactions.end(commits=True)
    transactions.fail(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "sent after the commit"))
    with pytest.raises(KafkaError) as refused:
        await transactions.end(commits=False)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


async def test_what_the_coordinator_never_heard_of_is_aborted() -> None:
    transactions = await with_records(Cluster(REFUSED))
    transactions.fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the first thing"))
    await transactions.end(commits=False)
    assert not transactions.is_open


async def test_nothing_more_comes_into_a_transaction_that_is_being_ended() -> None:
    """It may have ended already: what came then would be of the next one, or of none that ever ends."""
    transactions = await with_records(Cluster(ConnectionFailedError("gone"), EndTxnResponse(producer_id=7)))
    first = transactions.present()
    with pytest.raises(ConnectionFailedError):
        await transactions.end(commits=True)
    with pytest.raises(TransactionStateError, match="is being ended"):
        transactions.present()
    with pytest.raises(TransactionStateError, match="is being ended"):
        await transactions.add_offsets({}, "group")
    transactions.check()
    await transactions.end(commits=True)
    await transactions.begin()
    assert transactions.present() != first


async def test_a_transaction_has_an_identity_after_one_of_which_the_coordinator_never_heard() -> None:
    cluster, sequences = Cluster(REFUSED), Sequences()
    transactions = await with_records(cluster, sequences)
    sequences.reset(TopicPartition("flights", 0))  # a batch was given up
    transactions.fail(DeliveryTimedOutError("the first thing"))
    cluster.epoch = 1
    await transactions.end(commits=False)
    await transactions.begin()
    assert sequences.identity == (7, 1)


async def test_who_closes_leaves_what_is_prepared_and_what_may_be_committed() -> None:
    cluster = Cluster(ConnectionFailedError("gone"))
    prepared = await with_records(cluster, transaction_two_phase_commit_enable=True)
    prepared.prepare()
    await prepared.close()
    assert len(cluster.ends) == 1, "nobody was told of an end"
    committing = await with_records(cluster)
    with pytest.raises(ConnectionFailedError):
        await committing.end(commits=True)
    await committing.close()
    assert committing.is_open


@pytest.mark.parametrize("end", [EndTxnResponse(producer_id=7), ConnectionFailedError("gone")])
async def test_who_closes_aborts_what_is_open_if_it_can(end: EndTxnResponse | Exception) -> None:
    cluster = Cluster(end)
    transactions = await with_records(cluster)
    await transactions.close()
    assert not cluster.ends


async def test_the_coordinator_hears_of_nothing_that_belongs_to_a_transaction_after_its_end() -> None:
    """It would take it for the beginning of another one, which nobody ends."""
    cluster = Cluster(EndTxnResponse(), EndTxnResponse())
    cluster.version = 0
    transactions = Transactions(cluster, ProducerSettings(transactional_id="t"), Sequences())  # type: ignore[arg-type]
    await transactions.begin()
    before = len(cluster.log)
    adding = [
        asyncio.create_task(transactions.add([TopicPartition("flights", 0)])),
        asyncio.create_task(transactions.add_offsets({}, "group")),
        asyncio.create_task(transactions.add([TopicPartition("flights", 1)])),
    ]
    await asyncio.sleep(0)
    ending = asyncio.create_task(transactions.end(commits=False))
    await asyncio.sleep(0)
    cluster.answers.set()
    await ending
    _, offsets, _ = await asyncio.gather(*adding, return_exceptions=True)
    assert isinstance(offsets, TransactionStateError)
    assert cluster.log[before:] == ["AddPartitionsToTxnRequest", "EndTxnRequest"]
    await transactions.begin()
    await transactions.end(commits=True)
    assert cluster.log[before + 2 :] == [], "nothing of the one before belongs to it"
