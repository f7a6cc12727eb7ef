"""What a producer of transactions asks at each step, field by field, and what each answer makes of it."""

from typing import Any

import pytest
from tests.unit.client.producer.coordinating import Coordinating, transactions_of

from penstock.client.errors import (
    TransactionFailedError,
    TransactionStateError,
)
from penstock.client.messages import Membership
from penstock.client.producer.sequences import Sequences
from penstock.client.producer.transactions import PreparedTransaction, Transactions
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

P, Q, R = TopicPartition("b", 1), TopicPartition("a", 4), TopicPartition("b", 0)
OFFSETS = {P: OffsetAndMetadata(11, "note", 2), Q: OffsetAndMetadata(12), R: OffsetAndMetadata(13)}


class Reader:
    membership = "g", Membership(5, "m", "i")

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return OFFSETS


def committed(group_id: str, who: Membership, epoch: int) -> TxnOffsetCommitRequest:
    def row(index: int, position: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
        return TxnOffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            committed_metadata=position.metadata,
        )

    return TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=group_id,
        producer_id=7,
        producer_epoch=epoch,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(name="b", partitions=[row(1, OFFSETS[P]), row(0, OFFSETS[R])]),
            TxnOffsetCommitRequestTopic(name="a", partitions=[row(4, OFFSETS[Q])]),
        ],
    )


def identified(producer_id: int = -1, epoch: int = -1, **more: bool) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id="id", transaction_timeout_ms=9_876, producer_id=producer_id, producer_epoch=epoch, **more
    )


def ended(epoch: int, *, commits: bool) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="id", producer_id=7, producer_epoch=epoch, committed=commits)


def told(cluster: Coordinating) -> list[tuple[str, object, int | None, int]]:
    return [(one.name, one.request, one.newest, one.kind) for one in cluster.asked]


@pytest.mark.parametrize("version", [0, 1])
async def test_before_version_2_all_that_belongs_to_a_transaction_is_added_first(version: int) -> None:
    cluster = Coordinating(version)
    transactions = transactions_of(cluster)
    await transactions.begin()
    assert transactions.newest_produce == 11
    for partitions in ([P, Q, R], [R, Q], []):
        await transactions.add(partitions)
    await transactions.add_offsets(OFFSETS, Reader())
    await transactions.add_offsets(OFFSETS, "h")
    await transactions.end(commits=True)
    await transactions.begin()
    await transactions.add([R])
    await transactions.end(commits=False)
    topics = [AddPartitionsToTxnTopic(name="a", partitions=[4]), AddPartitionsToTxnTopic(name="b", partitions=[0, 1])]
    one_topic = [AddPartitionsToTxnTopic(name="b", partitions=[0])]
    added, once_more = (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=7,
            v3_and_below_producer_epoch=3,
            v3_and_below_topics=rows,
        )
        for rows in (topics, one_topic)
    )
    groups = [
        AddOffsetsToTxnRequest(transactional_id="id", producer_id=7, producer_epoch=3, group_id=group_id)
        for group_id in ("g", "h")
    ]
    assert told(cluster) == [
        ("id", identified(), None, 1),
        ("id", added, 3, 1),
        ("id", groups[0], None, 1),
        ("g", committed("g", Reader.membership[1], 3), 4, 0),
        ("id", groups[1], None, 1),
        ("h", committed("h", Membership(), 3), 4, 0),
        ("id", ended(3, commits=True), 4, 1),
        ("id", once_more, 3, 1),
        ("id", ended(3, commits=False), 4, 1),
    ]


async def test_at_version_2_it_is_not_and_each_end_raises_the_epoch() -> None:
    cluster, sequences = Coordinating(), Sequences()
    transactions = transactions_of(cluster, sequences)
    await transactions.begin()
    assert transactions.newest_produce == 12
    await transactions.add([P, Q])
    await transactions.add_offsets(OFFSETS, "g")
    await transactions.end(commits=True)
    assert sequences.identity == (7, 4)
    await transactions.begin()
    await transactions.end(commits=True)
    await transactions.begin()
    await transactions.add_offsets(OFFSETS, Reader())
    await transactions.end(commits=False)
    assert told(cluster) == [
        ("id", identified(), None, 1),
        ("g", committed("g", Membership(), 3), 5, 0),
        ("id", ended(3, commits=True), 5, 1),
        ("g", committed("g", Reader.membership[1], 4), 5, 0),
        ("id", ended(4, commits=False), 5, 1),
    ], "and of one in which nothing is nobody hears"


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("ongoing", [-1, 0, 5])
async def test_who_begins_says_what_it_keeps(ongoing: int, *, keeps: bool, elsewhere: bool) -> None:
    cluster = Coordinating()
    found = InitProducerIdResponse(
        producer_id=7, producer_epoch=3, ongoing_txn_producer_id=ongoing, ongoing_txn_producer_epoch=8
    )
    cluster.scripts[InitProducerIdRequest] = [found]
    transactions = transactions_of(cluster, transaction_two_phase_commit_enable=elsewhere)
    prepared = await transactions.initialize(keep_prepared=keeps)
    kept = PreparedTransaction(ongoing, 8) if keeps and ongoing >= 0 else None
    assert (prepared, transactions.is_open) == (kept, kept is not None)
    assert await transactions.initialize() == kept, "nothing happens again"
    assert told(cluster) == [("id", identified(enable2_pc=elsewhere, keep_prepared_txn=keeps), None, 1)]
    if kept is not None:
        assert transactions.newest_produce == 12
        assert await transactions.complete(kept)
        assert told(cluster)[1:] == [("id", ended(3, commits=True), 5, 1)]


@pytest.mark.parametrize(
    ("keeps", "elsewhere", "is_refused"), [(False, False, False), (True, False, True), (False, True, True)]
)
async def test_brokers_that_keep_nothing_are_named_as_such(*, keeps: bool, elsewhere: bool, is_refused: bool) -> None:
    cluster = Coordinating(two_phases=5)
    transactions = transactions_of(cluster, transaction_two_phase_commit_enable=elsewhere)
    if is_refused:
        with pytest.raises(TransactionStateError, match="keeps no prepared transactions"):
            await transactions.initialize(keep_prepared=keeps)
        assert cluster.asked == []
    else:
        await transactions.initialize(keep_prepared=keeps)


@pytest.mark.parametrize(("version", "elsewhere", "may_begin"), [(1, True, False), (2, True, True), (1, False, True)])
async def test_what_is_decided_elsewhere_needs_version_2(version: int, *, elsewhere: bool, may_begin: bool) -> None:
    transactions = transactions_of(Coordinating(version), transaction_two_phase_commit_enable=elsewhere)
    if may_begin:
        await transactions.begin()
    else:
        with pytest.raises(TransactionStateError, match=r"need transaction\.version 2: penstock features upgrade"):
            await transactions.begin()
    assert transactions.is_open == may_begin


# -- states -----------------------------------------------------------------------------------------------------------


async def opened(cluster: Coordinating, **more: Any) -> Transactions:
    transactions = transactions_of(cluster, **more)
    await transactions.begin()
    await transactions.add([P])
    return transactions


async def test_each_state_says_what_may_not_follow() -> None:
    cluster = Coordinating()
    transactions = transactions_of(cluster, transaction_two_phase_commit_enable=True)
    for what in (transactions.check, transactions.present, transactions.prepare):
        with pytest.raises(TransactionStateError, match="there is no open transaction: begin one"):
            what()
    with pytest.raises(TransactionStateError, match="there is no open transaction to end"):
        await transactions.end(commits=True)
    assert await transactions.complete(None) is False
    transactions.fail(ValueError("of none"))
    await transactions.begin()
    transactions.check()
    with pytest.raises(TransactionStateError, match="a transaction is open: commit or abort it first"):
        await transactions.begin()
    with pytest.raises(TransactionStateError, match="the transaction is not prepared"):
        await transactions.complete(None)
    await transactions.add([P])
    prepared = transactions.prepare()
    assert (prepared, str(prepared), PreparedTransaction.parse("7:3")) == (PreparedTransaction(7, 3), "7:3", prepared)
    for what in (transactions.check, transactions.present, transactions.prepare):
        with pytest.raises(TransactionStateError, match="is prepared: it can only be ended"):
            what()
    assert await transactions.complete(PreparedTransaction(7, 2)) is False
    assert told(cluster)[-1] == ("id", ended(3, commits=False), 5, 1)
    assert not transactions.is_open
    first = transactions._number
    await transactions.begin()
    assert transactions.present() == first + 1
    await transactions.add([P])
    assert await transactions.complete(transactions.prepare())
    assert told(cluster)[-1] == ("id", ended(4, commits=True), 5, 1)


async def test_only_who_leaves_the_decision_to_others_prepares() -> None:
    transactions = await opened(Coordinating())
    with pytest.raises(TransactionStateError, match=r"needs transaction\.two\.phase\.commit\.enable"):
        transactions.prepare()
    transactions.check()


async def test_the_first_failure_is_told_until_the_next_transaction() -> None:
    transactions = await opened(Coordinating(1))
    for error in (ValueError("the first"), ValueError("the second")):
        transactions.fail(error)
    with pytest.raises(TransactionFailedError, match="as something in it has failed: the first") as raised:
        transactions.check()
    assert raised.value.__cause__ is transactions.failure
    await transactions.end(commits=False)
    assert transactions.failure is None
    transactions.fail(ValueError("of none"))
    await transactions.begin()
    assert transactions.failure is None
    transactions.check()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("loses_identity", [False, True])
async def test_who_may_have_records_under_way_gets_another_epoch(
    version: int, *, fails: bool, loses_identity: bool
) -> None:
    """At version 2 the end itself has raised it."""
    cluster, sequences = Coordinating(version), Sequences()
    transactions = transactions_of(cluster, sequences)
    await transactions.begin()
    await transactions.add([P])
    if fails:
        transactions.fail(ValueError("gone"))
    if loses_identity:
        sequences.reset(P)
        cluster.scripts[EndTxnRequest] = [EndTxnResponse(producer_id=7, producer_epoch=3)]
    await transactions.end(commits=False)
    again = [one.request for one in cluster.of(InitProducerIdRequest)[1:]]
    assert again == ([identified(7, 3)] if fails and (version == 1 or loses_identity) else [])


async def test_who_is_another_by_now_begins_anew_everywhere_and_who_is_not_goes_on() -> None:
    cluster, sequences = Coordinating(), Sequences()
    transactions = transactions_of(cluster, sequences)
    await transactions.initialize()
    began: list[tuple[int, int]] = []
    sequences.begin = began.append  # type: ignore[method-assign, assignment]
    for epoch in (3, 4, 4, 5):
        cluster.scripts[EndTxnRequest] = [EndTxnResponse(producer_id=7, producer_epoch=epoch)]
        await transactions.begin()
        await transactions.add([P])
        await transactions.end(commits=True)
    assert began == [(7, 4), (7, 5)]


@pytest.mark.parametrize(
    ("code", "commits", "fails", "passes"),
    [
        (ErrorCode.INVALID_TXN_STATE, False, True, True),
        (ErrorCode.INVALID_TXN_STATE, False, False, False),
        (ErrorCode.INVALID_TXN_STATE, True, True, False),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False, True, False),
    ],
)
async def test_an_end_that_is_refused_passes_if_nobody_has_heard_of_the_beginning(
    code: ErrorCode, *, commits: bool, fails: bool, passes: bool
) -> None:
    cluster = Coordinating()
    cluster.scripts[EndTxnRequest] = [EndTxnResponse(error_code=code)]
    transactions = await opened(cluster)
    if fails:
        transactions.fail(ValueError("gone"))
    if passes:
        await transactions.end(commits=commits)
    else:
        with pytest.raises(KafkaError, match=f"{code.name}: the transaction cannot be ended"):
            await transactions.end(commits=commits)
    assert transactions.is_open != passes


async def test_whether_it_was_committed_is_forgotten_with_it() -> None:
    cluster = Coordinating()
    transactions = await opened(cluster)
    await transactions.end(commits=True)
    await transactions.begin()
    await transactions.add([P])
    transactions.fail(ValueError("gone"))
    cluster.scripts[EndTxnRequest] = [EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)]
    await transactions.end(commits=False)
    assert not transactions.is_open
