from typing import Any, cast
from unittest.mock import Mock, call
from uuid import UUID

import pytest

from penstock.log.producer_state import Producers
from penstock.log.producers_ahead import ProducersAhead
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    Scheme,
    begins,
    decode_begins,
    decode_opened,
    decode_proposals,
    encode_proposal,
    opened,
)
from penstock.replication.storage_groups.proposer import Place, ProposalSettings, Proposer

ORDERS = PartitionId(UUID(int=1), 0)
PAYMENTS = PartitionId(UUID(int=2), 3)


class End:
    """A partition whose log ends somewhere."""

    def __init__(self, end_offset: int = 0, latest_epoch: int = -1, *, first_sequence_is_zero: bool = False) -> None:
        self.first_sequence_is_zero = first_sequence_is_zero
        self.end_offset = end_offset
        self.latest_epoch = latest_epoch
        self.written = Producers()

    @property
    def producers(self) -> ProducersAhead:
        return ProducersAhead(self.written, first_sequence_is_zero=self.first_sequence_is_zero)

    def write(self, entry: Entry) -> None:
        """As the partition's log does when an entry is applied."""
        header = read_header(entry.content)
        self.end_offset, self.latest_epoch = header.last_offset + 1, header.partition_leader_epoch
        if header.producer_id >= 0:
            self.written.note_batch(header, header.base_offset, header.last_offset, header.max_timestamp)


def batch_of(count: int, producer_id: int = -1, sequence: int = -1, epoch: int = -1) -> bytearray:
    records = [Record(timestamp_ms=7, value=b"x" * 10) for _ in range(count)]
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def append(
    proposer: Proposer,
    end: End,
    batch: bytearray,
    *,
    partition: PartitionId = ORDERS,
    leader_epoch: int = 1,
    now_ms: int = 0,
) -> Place:
    return proposer.append(partition, end, memoryview(batch), read_header(batch), leader_epoch, now_ms)


def leading(linger_ms: int = 0, max_bytes: int = 1 << 20) -> Proposer:
    proposer = Proposer(ProposalSettings(linger_ms=linger_ms, max_bytes=max_bytes))
    proposer.lead(5)
    return proposer


def taken(proposer: Proposer, now_ms: int = 0) -> list[Entry]:
    proposal = proposer.take(now_ms)
    assert proposal is not None
    return [entry for entry in decode_proposals(bytes(proposal)) if isinstance(entry, Entry)]


def test_where_that_is_asked_for_a_partition_that_never_held_a_record_begins_with_sequence_0() -> None:
    proposer, end = leading(), End(first_sequence_is_zero=True)
    with pytest.raises(KafkaError) as refused:
        append(proposer, end, batch_of(1, 9, 3, 0))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(proposer, end, batch_of(3, 9, 0, 0))
    assert append(proposer, end, batch_of(1, 9, 3, 0)).first_offset == 3, "the first one is under way"
    assert append(proposer, end, batch_of(1, 8, 3, 0)).first_offset == 4, "so there are records"
    assert append(leading(), End(7, 0, first_sequence_is_zero=True), batch_of(1, 9, 3, 0)).first_offset == 7
    assert append(leading(), End(), batch_of(1, 9, 3, 0)).first_offset == 0, "as Kafka did"


def test_batches_of_several_partitions_go_as_one_proposal_with_their_offsets_and_epochs() -> None:
    proposer, orders, payments = leading(), End(10), End(20)
    assert append(proposer, orders, batch_of(3))[:3] == (10, 12, False)
    assert append(proposer, payments, batch_of(2), partition=PAYMENTS, leader_epoch=4)[:3] == (20, 21, False)
    assert append(proposer, orders, batch_of(1))[:3] == (13, 13, False)
    entries = taken(proposer)
    headers = [read_header(entry.content) for entry in entries]
    assert [entry.partition for entry in entries] == [ORDERS, PAYMENTS, ORDERS]
    assert [(h.base_offset, h.last_offset, h.partition_leader_epoch) for h in headers] == [
        (10, 12, 1),
        (20, 21, 4),
        (13, 13, 1),
    ]
    assert (proposer.proposals, proposer.entries) == (1, 3)


def test_the_first_append_decides_when_a_proposal_goes() -> None:
    proposer, orders = leading(linger_ms=5), End()
    assert proposer.deadline_ms is None
    append(proposer, orders, batch_of(1), now_ms=100)
    append(proposer, orders, batch_of(1), now_ms=104)
    assert proposer.deadline_ms == 105
    assert proposer.take(104) is None
    assert len(taken(proposer, 105)) == 2
    assert proposer.deadline_ms is None


def test_a_proposal_that_is_full_does_not_linger() -> None:
    proposer, orders = leading(linger_ms=1000, max_bytes=200), End()
    append(proposer, orders, batch_of(1), now_ms=100)
    assert proposer.take(100) is None
    append(proposer, orders, batch_of(10), now_ms=100)
    assert len(taken(proposer, 100)) == 2


def transactional(sequence: int, epoch: int = 0) -> bytearray:
    record = Record(timestamp_ms=7, value=b"x")
    return encode_batch([record], producer_id=8, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def marker(*, epoch: int = 0, coordinator_epoch: int = 3) -> bytearray:
    numbers = {"producer_id": 8, "producer_epoch": epoch, "coordinator_epoch": coordinator_epoch}
    return transaction_marker(ControlType.COMMIT, **numbers, now_ms=7)


def refusal_of(proposer: Proposer, end: End, batch: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(proposer, end, batch)
    return refused.value.code


def test_transactions_are_what_they_will_be_when_all_that_is_under_way_is_written() -> None:
    proposer, orders = leading(), End()
    assert refusal_of(proposer, orders, transactional(0)) == ErrorCode.NOT_ENOUGH_REPLICAS, "nobody was asked"
    asked = orders.written.verify(8, 0, 0, expects_zero=False)
    orders.written.verified(8, asked, is_good=True)
    append(proposer, orders, transactional(0))
    append(proposer, orders, transactional(1))
    assert refusal_of(proposer, orders, batch_of(1, 8, 2, 0)) == ErrorCode.INVALID_TXN_STATE
    same = read_header(marker())
    with pytest.raises(KafkaError):
        proposer.check_marker(ORDERS, orders, same, 3, transaction_version=2)
    append(proposer, orders, marker(epoch=1))
    assert refusal_of(proposer, orders, transactional(2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal_of(proposer, orders, marker(epoch=1, coordinator_epoch=2)) == (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert refusal_of(proposer, orders, transactional(0, epoch=1)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert [read_header(entry.content).is_control for entry in taken(proposer)] == [False, False, True]


def test_what_is_under_way_counts_until_it_is_applied_and_then_the_log_does() -> None:
    proposer, orders = leading(), End()
    append(proposer, orders, batch_of(2))
    first = taken(proposer)
    assert append(proposer, orders, batch_of(1)).first_offset == 2
    second = taken(proposer)
    for entry in (*first, *second):
        orders.write(entry)
        proposer.applied(entry)
    assert proposer.under_way(ORDERS) == 0
    orders.end_offset = 50
    assert append(proposer, orders, batch_of(1)).first_offset == 50


def test_a_batch_that_repeats_one_under_way_is_where_that_is_going_to_be() -> None:
    proposer, orders = leading(), End(7)
    append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))
    assert append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))[:3] == (7, 8, True)
    (entry,) = taken(proposer)
    orders.write(entry)
    proposer.applied(entry)
    assert append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))[:3] == (7, 8, True)
    assert proposer.take(0) is None


def test_sequences_go_on_from_what_is_under_way() -> None:
    proposer, orders = leading(), End()
    append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))
    entries = taken(proposer)
    append(proposer, orders, batch_of(3, producer_id=9, sequence=2, epoch=0))
    with pytest.raises(KafkaError) as refused:
        append(proposer, orders, batch_of(1, producer_id=9, sequence=9, epoch=0))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    entries += taken(proposer)
    for entry in entries:
        orders.write(entry)
        proposer.applied(entry)
    assert append(proposer, orders, batch_of(1, producer_id=9, sequence=5, epoch=0))[:3] == (5, 5, False)


def test_who_does_not_lead_takes_nothing() -> None:
    proposer = Proposer(ProposalSettings())
    for refused in (
        lambda: append(proposer, End(), batch_of(1)),
        lambda: proposer.open(ORDERS, "orders", 7, 0),
        lambda: proposer.close(ORDERS, 0),
        lambda: proposer.begin_at(ORDERS, 3, 0),
    ):
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_epoch_begins_with_what_the_logs_say() -> None:
    proposer, orders = leading(), End()
    append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))
    proposer.take(0)
    append(proposer, orders, batch_of(1))
    proposer.resign()
    assert proposer.take(1000) is None
    proposer.lead(7)
    assert append(proposer, orders, batch_of(2, producer_id=9, sequence=0, epoch=0))[:3] == (0, 1, False)


def test_a_leader_epoch_never_goes_back() -> None:
    proposer, orders = leading(), End(latest_epoch=3)
    append(proposer, orders, batch_of(1), leader_epoch=4)
    with pytest.raises(KafkaError) as refused:
        append(proposer, orders, batch_of(1), leader_epoch=3)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(taken(proposer)) == 1


def test_nothing_is_appended_to_a_partition_that_is_being_closed() -> None:
    proposer = leading()
    proposer.close(ORDERS, 0)
    proposer.close(ORDERS, 0)
    with pytest.raises(KafkaError) as refused:
        append(proposer, End(), batch_of(1))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    closed = Entry(Kind.CLOSED, ORDERS)
    assert taken(proposer) == [closed]
    proposer.applied(closed)
    assert proposer._closing == set(), "an id never comes again: nothing need be known of it"


@pytest.mark.parametrize(("scheme", "ends_in_ms"), [(Scheme.RUNS_OUT, None), (Scheme.MOVED, 100), (Scheme.ENDED, 0)])
def test_who_comes_next_stands_behind_all_that_was_collected(scheme: Scheme, ends_in_ms: int | None) -> None:
    proposer = Proposer(ProposalSettings(linger_ms=1000, handover_scheme=scheme))
    proposer.lead(5)
    append(proposer, End(), batch_of(1))
    first, last = decode_proposals(bytes(proposer.hand_over(2, 7)))
    assert isinstance(first, Entry)
    assert last == HandedOver(5, 2, ends_in_ms)
    assert (proposer.proposals, proposer.deadline_ms) == (1, None)
    with pytest.raises(KafkaError) as refused:
        append(proposer, End(), batch_of(1))
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    proposer.lead(6)
    append(proposer, End(), batch_of(1))


@pytest.mark.parametrize("key", [b"\x01\x03", b"\x01\x04", b"\x02\x03"])
def test_an_entry_about_the_group_that_is_none_is_found(key: bytes) -> None:
    with pytest.raises(DecodeError):
        list(decode_proposals(bytes(encode_batch([Record(key=key, value=b"")]))))


def test_entries_about_partitions_are_of_the_version_that_they_always_had() -> None:
    (record,) = decode_batch(bytes(encode_proposal([Entry(Kind.CLOSED, ORDERS)], 3)), 0)
    assert record.key == bytes([0, 2]) + ORDERS.topic_id.bytes + bytes(4)


@pytest.mark.parametrize("key", [None, b"", b"\x01" + bytes(21), b"\x00\x09" + bytes(20), bytes(23)])
def test_what_is_no_entry_is_found(key: bytes | None) -> None:
    with pytest.raises(DecodeError):
        list(decode_proposals(bytes(encode_batch([Record(key=key, value=b"")]))))


def test_where_a_log_begins_is_an_entry() -> None:
    proposer = leading()
    proposer.begin_at(ORDERS, 41, 0)
    (entry,) = taken(proposer)
    assert isinstance(entry, Entry)
    assert (entry.kind, entry.partition, decode_begins(entry.content)) == (Kind.BEGINS, ORDERS, 41)
    proposer.applied(entry)
    with pytest.raises(DecodeError):
        decode_begins(b"41")


def test_entries_come_back_as_they_were() -> None:
    entries = [Entry(Kind.OPENED, ORDERS, b"orders"), Entry(Kind.APPENDED, PAYMENTS, b"a batch")]
    assert list(decode_proposals(bytes(encode_proposal(entries, 3)))) == entries


def test_what_stands_on_disks_keeps_its_numbers() -> None:
    """Nodes of an earlier release read it, and a later one reads what they wrote."""
    assert {kind.name: int(kind) for kind in Kind} == {
        "OPENED": 0,
        "APPENDED": 1,
        "CLOSED": 2,
        "HANDED_OVER": 3,
        "BEGINS": 4,
    }
    entries: list[Entry | HandedOver] = [
        opened(PAYMENTS, "pay", 9),
        begins(PAYMENTS, 41),
        HandedOver(5, 2, None),
        HandedOver(5, 2, 100),
    ]
    of_payments = f"{2:032x}{3:08x}"
    assert [
        (bytes(one.key or b"").hex(), bytes(one.value or b"").hex())
        for one in decode_batch(encode_proposal(entries, 3))
    ] == [
        (f"0000{of_payments}", f"{9:016x}" + b"pay".hex()),
        (f"0004{of_payments}", f"{41:016x}"),
        ("0103", "0000000500000002ffffffff"),
        ("0103", "000000050000000200000064"),
    ]
    assert list(decode_proposals(bytes(encode_proposal(entries, 3)))) == entries
    assert decode_opened(opened(PAYMENTS, "pay", 9).content) == ("pay", 9)


class Untouched:
    """Of a partition whose producers must not be looked at."""

    end_offset, latest_epoch = 0, -1

    @property
    def producers(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is for those who have an id")


def test_who_has_no_producer_id_is_no_idempotent_producer() -> None:
    proposer, end = leading(), cast("End", Untouched())
    append(proposer, end, batch_of(1))
    append(proposer, end, batch_of(1))
    for entry in taken(proposer):
        proposer.applied(entry)
    assert proposer.under_way(ORDERS) == 0


def test_a_marker_is_checked_with_what_is_under_way_in_mind() -> None:
    """Where nothing is, the log's own word counts."""

    class Views(End):
        @property
        def producers(self) -> Any:
            views.append(view := Mock())
            view.check.return_value = None
            return view

    views: list[Mock] = []
    proposer, end = leading(), Views()
    header = read_header(marker())
    proposer.check_marker(ORDERS, end, header, 3, 2)
    append(proposer, end, batch_of(1, 9, 0, 0))
    proposer.check_marker(ORDERS, end, header, 4, 1)
    assert [view.check_marker.mock_calls for view in views] == [[call(header, 3, 2)], [call(header, 4, 1)]]


def test_a_proposal_is_full_when_it_has_just_so_much() -> None:
    batch = batch_of(1)
    for more, deadline_ms in ((0, 100), (1, 105)):
        proposer = leading(linger_ms=5, max_bytes=len(batch) + more)
        append(proposer, End(), bytearray(batch), now_ms=100)
        assert proposer.deadline_ms == deadline_ms


def test_who_leads_no_longer_does_not_mind_what_is_applied() -> None:
    proposer = leading()
    append(proposer, End(), batch_of(1))
    (entry,) = taken(proposer)
    proposer.resign()
    proposer.applied(entry)
    assert proposer.under_way(ORDERS) == 0


def test_what_an_operator_decides_where_nothing_is_said() -> None:
    """And by which numbers: a node's configuration has them."""
    settings = ProposalSettings()
    assert (settings.linger_ms, settings.max_bytes, settings.handover_scheme) == (0, 1 << 20, Scheme.ENDED)
    assert {one.name: int(one) for one in Scheme} == {"RUNS_OUT": 1, "MOVED": 2, "ENDED": 3}


def test_an_entry_without_a_value_says_nothing_more() -> None:
    (record,) = decode_batch(bytes(encode_proposal([Entry(Kind.CLOSED, ORDERS)], 3)), 0)
    batch = encode_batch([Record(key=record.key, value=None)])
    assert list(decode_proposals(bytes(batch))) == [Entry(Kind.CLOSED, ORDERS, b"")]
