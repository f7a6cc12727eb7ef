"""The machines of a share consumer by themselves: what requests say, and what answers make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from penstock.client.errors import ClientError, ConsumerMisuseError
from penstock.client.share.acknowledgements import GAP, Acknowledgements, AcknowledgeType, Batch, batches_of
from penstock.client.share.deliveries import Deliveries
from penstock.client.share.member import ShareMember
from penstock.client.share.records import MOST_ACQUIRED, Delivered, SharedRecord, delivered
from penstock.client.share.session import MAX_EPOCH, ShareSession
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.share_fetch import AcquiredRecords, ShareFetchRequest
from penstock.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.records import Record, encode_batch

A, R, J, N = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW
IDS = UUID(int=1), UUID(int=2)
P0, P1, Q0 = (IDS[0], 0), (IDS[0], 1), (IDS[1], 0)
T0 = TopicPartition("t", 0)
NODE = 7


# -- acknowledgements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "batches"),
    [
        ({}, []),
        ({5: A}, [Batch(5, 5, [A])]),
        ({5: A, 6: A, 7: A}, [Batch(5, 7, [A])]),
        ({7: A, 5: R, 6: J}, [Batch(5, 7, [R, J, A])]),
        ({5: A, 7: A}, [Batch(5, 5, [A]), Batch(7, 7, [A])]),
        ({5: A, 6: GAP}, [Batch(5, 6, [A, GAP])]),
        (
            {0: R} | dict.fromkeys(range(1, 20), A) | {20: R, 21: J},
            [Batch(0, 0, [R]), Batch(1, 19, [A]), Batch(20, 21, [R, J])],
        ),
        ({0: R, 1: J} | dict.fromkeys(range(2, 12), A), [Batch(0, 11, [R, J, *[A] * 10])]),
    ],
)
def test_offsets_that_follow_each_other_are_one_batch(types: dict[int, int], batches: list[Batch]) -> None:
    assert batches_of(types) == batches


def test_batches_say_the_same_whatever_the_types_are() -> None:
    for number in range(3**7):
        types = {2 * it if it > 4 else it: number // 3**it % 3 for it in range(7)}
        told: dict[int, int] = {}
        for first, last, found, *_ in batches_of(types):
            assert len(found) in (1, last - first + 1)
            told |= {it: found[0] if len(found) == 1 else found[it - first] for it in range(first, last + 1)}
        assert told == types


# -- sessions ---------------------------------------------------------------------------------------------------------


def fetch(session: ShareSession, wanted: Iterable[tuple[UUID, int]], *some: Acknowledgements) -> Any:
    request = session.fetch_request(wanted, some, ShareFetchRequest(max_wait_ms=9, max_records=3))
    assert (request.group_id, request.member_id, request.max_wait_ms, request.max_records) == ("g", "m", 9, 3)
    named = {(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions}
    gone = {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
    return request.share_session_epoch, named, gone


def test_the_first_request_names_all_and_later_ones_what_has_changed() -> None:
    session = ShareSession("g", "m")
    assert fetch(session, [P0, P1]) == (0, {P0, P1}, set())
    session.answered(ErrorCode.NONE)
    assert fetch(session, [P0, P1]) == (1, set(), set())
    session.answered(ErrorCode.NONE)
    assert fetch(session, [P1, Q0]) == (2, {Q0}, {P0})
    session.answered(ErrorCode.UNKNOWN_TOPIC_ID)
    assert fetch(session, [P1, Q0]) == (3, set(), set()), "the broker has counted what it refused"


def test_acknowledgements_name_partitions_that_are_not_to_be_fetched() -> None:
    session = ShareSession("g", "m")
    fetch(session, [P0])
    session.answered(ErrorCode.NONE)
    assert fetch(session, [P0], Acknowledgements(NODE, P0, {1: A})) == (1, {P0}, set())
    session.answered(ErrorCode.NONE)
    assert fetch(session, [P0], Acknowledgements(NODE, Q0, {1: A})) == (2, {Q0}, {Q0})


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        None,
    ],
    ids=lambda code: "no answer" if code is None else code.name,
)
def test_a_session_that_is_lost_begins_anew(code: ErrorCode | None) -> None:
    session = ShareSession("g", "m")
    fetch(session, [P0])
    session.answered(ErrorCode.NONE)
    assert session.is_open
    if code is None:
        session.lost()
    else:
        session.answered(code)
    assert not session.is_open
    assert fetch(session, [P0]) == (0, {P0}, set())


def test_the_epoch_after_the_last_one_is_1() -> None:
    session = ShareSession("g", "m")
    session._epoch = MAX_EPOCH
    session.answered(ErrorCode.NONE)
    assert fetch(session, [])[0] == 1


def test_acknowledgements_by_themselves() -> None:
    session = ShareSession("g", "m")
    fetch(session, [P0])
    session.answered(ErrorCode.NONE)
    request = session.acknowledge_request(
        [Acknowledgements(NODE, P0, {1: A, 2: R}), Acknowledgements(NODE, P0, {2: J, 3: N})]
    )
    assert (request.share_session_epoch, request.is_renew_ack) == (1, True)
    (batch,) = request.topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (1, 3, [A, J, N])
    closing = session.acknowledge_request([], closes=True)
    assert (closing.share_session_epoch, closing.topics, closing.is_renew_ack) == (-1, [], False)


def test_a_release_may_have_a_delay_of_its_own() -> None:
    session = ShareSession("g", "m")
    fetch(session, [P0, Q0])
    session.answered(ErrorCode.NONE)
    some = [
        Acknowledgements(NODE, P0, {1: R, 2: R, 3: A}, {1: 500}),
        Acknowledgements(NODE, P0, {2: R, 5: R, 6: R}, {5: 700, 6: 700}),
        Acknowledgements(NODE, Q0, {1: R}),
    ]
    for request in (session.acknowledge_request(some), session.fetch_request([P0, Q0], some, ShareFetchRequest())):
        delays = [
            (batch.first_offset, batch.last_offset, batch.release_delays_ms)
            for topic in request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
        ]
        assert delays == [(1, 3, [500, -1, -1]), (5, 6, [700]), (1, 1, [])]


def test_records_with_another_reason_are_another_batch() -> None:
    session = ShareSession("g", "m")
    fetch(session, [P0, Q0])
    session.answered(ErrorCode.NONE)
    some = [
        Acknowledgements(NODE, P0, {1: J, 2: J, 3: A, 4: R}, {4: 500}, {1: "a", 2: "a", 4: "b"}),
        Acknowledgements(NODE, P0, {2: J}),
        Acknowledgements(NODE, Q0, {1: R}),
    ]
    for request in (session.acknowledge_request(some), session.fetch_request([P0, Q0], some, ShareFetchRequest())):
        told = [
            (batch.first_offset, batch.acknowledge_types, batch.reason, batch.release_delays_ms)
            for topic in request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
        ]
        assert told == [(1, [J], "a", []), (2, [J, A], "", []), (4, [R], "b", [500]), (1, [R], "", [])]


def test_the_last_word_on_a_reason_counts() -> None:
    deliveries = Deliveries()
    given(deliveries, 1, 2, 3)
    deliveries.acknowledge(T0, 1, J, reason="broken")
    deliveries.acknowledge(T0, 1, A)
    deliveries.acknowledge(T0, 2, R)
    deliveries.acknowledge(T0, 2, J, reason="no such customer")
    (some,) = deliveries.take()
    assert (some.types, some.reasons) == ({1: A, 2: J}, {2: "no such customer"})
    for kind in (A, N):
        with pytest.raises(ConsumerMisuseError, match="only a release or a rejection has one"):
            deliveries.acknowledge(T0, 3, kind, reason="why")


# -- deliveries -------------------------------------------------------------------------------------------------------


def record(offset: int, count: int = 1) -> SharedRecord:
    return SharedRecord("t", 0, offset, 5, None, b"%d" % offset, delivery_count=count)


def given(deliveries: Deliveries, *offsets: int, others: Mapping[int, int] | None = None) -> None:
    deliveries.deliver(Delivered(NODE, P0, [record(offset) for offset in offsets], others or {}))


def taken(deliveries: Deliveries) -> list[dict[int, int]]:
    some = deliveries.take()
    assert all((one.node_id, one.place) == (NODE, P0) for one in some)
    return [one.types for one in some]


def test_what_was_said_is_taken_once() -> None:
    deliveries = Deliveries()
    given(deliveries, 1, 2, 3)
    assert deliveries.holds_of(NODE)
    deliveries.acknowledge(T0, 1, R)
    deliveries.acknowledge(T0, 1, A)
    deliveries.acknowledge(T0, 3, J)
    assert [one.offset for one in deliveries.unsaid()] == [2]
    assert taken(deliveries) == [{1: A, 3: J}]
    assert taken(deliveries) == []
    deliveries.acknowledge_all(A)
    assert taken(deliveries) == [{2: A}]
    assert not deliveries.holds_of(NODE)
    with pytest.raises(ConsumerMisuseError, match="t-0 offset 2"):
        deliveries.acknowledge(T0, 2, A)


def test_the_last_word_on_a_delay_counts() -> None:
    deliveries = Deliveries()
    given(deliveries, 1, 2, 3, 4)
    deliveries.acknowledge(T0, 1, R, 500)
    deliveries.acknowledge(T0, 1, A)
    deliveries.acknowledge(T0, 2, R, 500)
    deliveries.acknowledge(T0, 2, R, 0)
    deliveries.acknowledge(T0, 3, R, 700)
    (some,) = deliveries.take()
    assert (some.types, some.delays_ms) == ({1: A, 2: R, 3: R}, {2: 0, 3: 700})
    for kind, delay_ms in ((A, 500), (N, 500), (R, -1)):
        with pytest.raises(ConsumerMisuseError, match="only a release has a delay"):
            deliveries.acknowledge(T0, 4, kind, delay_ms)


def test_gaps_are_acknowledged_without_the_application() -> None:
    deliveries = Deliveries()
    given(deliveries, 1, others={2: GAP})
    assert taken(deliveries) == [{2: GAP}]


def test_only_a_lock_that_was_renewed_gives_the_record_back() -> None:
    deliveries = Deliveries()
    given(deliveries, 1, 2)
    deliveries.acknowledge_all(N)
    (some,) = deliveries.take()
    assert deliveries.take_renewed() == []
    some.done(None)
    deliveries.done([some])
    assert [one.offset for one in deliveries.take_renewed()] == [1, 2]
    assert [one.offset for one in deliveries.unsaid()] == [1, 2]
    deliveries.acknowledge_all(N)
    (some,) = deliveries.take()
    some.done(ClientError("the lock has run out"))
    deliveries.done([some])
    assert (deliveries.take_renewed(), deliveries.unsaid()) == ([], [])


# -- records ----------------------------------------------------------------------------------------------------------


def batch(first: int, *values: bytes, is_control: bool = False) -> bytes:
    records = [Record(first + number, 5, None, value, []) for number, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=first, is_control=is_control))


def acquired(first: int, last: int, count: int = 1) -> AcquiredRecords:
    return AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)


def found(data: bytes, *some: AcquiredRecords) -> tuple[list[tuple[int, int]], Mapping[int, int], bool]:
    got = delivered(NODE, P0, T0, data, some)
    return [(one.offset, one.delivery_count) for one in got.records], got.others, got.error is not None


def test_only_what_was_acquired_is_delivered_with_its_count() -> None:
    data = batch(3, b"a", b"b", b"c") + batch(6, b"d")
    assert found(data, acquired(4, 4, 2), acquired(6, 6)) == ([(4, 2), (6, 1)], {}, False)
    assert found(data) == ([], {}, False)


def test_offsets_without_a_record_are_gaps() -> None:
    data = batch(3, b"a") + batch(4, b"marker", is_control=True) + batch(8, b"b")
    assert found(data, acquired(3, 9)) == ([(3, 1), (8, 1)], {4: GAP, 5: GAP, 6: GAP, 7: GAP, 9: GAP}, False)


def test_what_cannot_be_read_is_released_and_the_rest_delivered() -> None:
    damaged = bytearray(batch(5, b"c", b"d"))
    damaged[-1] ^= 1
    assert found(batch(3, b"a") + bytes(damaged), acquired(3, 6)) == ([(3, 1)], {4: R, 5: R, 6: R}, True)


def test_a_broker_cannot_fill_the_memory() -> None:
    with pytest.raises(DecodeError):
        found(b"", acquired(0, MOST_ACQUIRED))


# -- the member -------------------------------------------------------------------------------------------------------


def said(member: ShareMember) -> tuple[int, list[str] | None, str | None]:
    request = member.request()
    assert (request.group_id, request.member_id) == ("g", "m")
    return request.member_epoch, request.subscribed_topic_names, request.rack_id


def told(epoch: int, *indexes: int, assigns: bool = True) -> ShareGroupHeartbeatResponse:
    rows = [TopicPartitions(topic_id=IDS[0], partitions=list(indexes))]
    return ShareGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(topic_partitions=rows) if assigns else None,
    )


def test_a_member_says_all_when_it_joins_and_then_what_is_new() -> None:
    member = ShareMember("g", "m", "east")
    member.subscribe(["b", "a", "b"])
    assert said(member) == (0, ["a", "b"], "east")
    assert said(member) == (0, ["a", "b"], "east"), "nobody has answered"
    assert member.answered(told(3, 0, 1))
    assert (member.assignment, member.interval_ms, member.is_member) == ({IDS[0]: (0, 1)}, 5_000, True)
    assert said(member) == (3, None, None)
    assert not member.answered(told(4, assigns=False))
    assert (said(member), member.assignment) == ((4, None, None), {IDS[0]: (0, 1)})
    member.subscribe(["c"])
    assert said(member) == (4, ["c"], "east")
    member.answered(told(5))
    member.unanswered()
    assert said(member) == (5, ["c"], "east"), "nobody knows what has come through"


def test_a_member_that_is_lost_joins_again_and_has_nothing_until_then() -> None:
    member = ShareMember("g", "m")
    member.subscribe(["a"])
    member.answered(told(3, 0))
    member.lose()
    assert (said(member), member.assignment, member.is_member) == ((0, ["a"], None), {}, False)
    assert member.leave_request().member_epoch == -1
