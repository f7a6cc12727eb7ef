"""Fetches of very many partitions, and sessions."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.broker.fetching import (
    BATCH_BYTES,
    ID,
    LEADER_EPOCH,
    long_poll,
    offsets,
    partitions_of,
    request,
    response,
)
from tests.unit.node.on_disk import PEER, Node, batch, node_on, topic_records

from penstock.log import log_holder
from penstock.log.log_slice import LogSlice
from penstock.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from penstock.node.api import fetching
from penstock.node.api.broker import fetch
from penstock.node.api.broker.fetch import AT_ONCE, WIDE
from penstock.node.partitions.fetch_sessions import CHANGES_A_STEP
from penstock.node.serving.dispatch import Waiting
from penstock.node.serving.slices import UNDER_WAY_AT_ONCE, Steps, at_once
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from penstock.protocol.requests.fetch import FetchFrame
from penstock.protocol.requests.framing import encode_request


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topic "orders" with three partitions; partition 0 has offsets 0 to 5 in three batches."""
    with node_on(tmp_path, *topic_records(partitions=3)) as node:
        for value in (b"a", b"b", b"c"):
            node.produce(value, value)
        yield node


async def test_very_many_partitions_are_read_in_slices(node: Node) -> None:
    asked = request((0, 0), *((index, 0) for index in range(1000, 1000 + 3 * WIDE)), max_wait_ms=60_000, min_bytes=1)
    found = node.dispatch(asked, 13)
    assert isinstance(found, Waiting)
    answer = asyncio.ensure_future(node.wait(asked, 13, found))
    turns = 0
    while not answer.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3 * WIDE // AT_ONCE
    got = answer.result()
    assert isinstance(got, FetchResponse)
    partitions = partitions_of(got)
    assert offsets(partitions.pop(0)) == [0, 1, 2, 3, 4, 5]
    assert len(partitions) == 3 * WIDE
    assert {one.error_code for one in partitions.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Node]:
    """A topic of so many partitions that a request about all of them is read in slices."""
    with node_on(tmp_path, *topic_records(partitions=2 * WIDE)) as node:
        yield node


def about_all(**more: int) -> FetchRequest:
    return request(*((index, 0) for index in range(2 * WIDE)), **{"max_wait_ms": 60_000, "min_bytes": 1, **more})  # type: ignore[arg-type]


async def test_each_leader_of_very_many_partitions_is_looked_for_once(
    wide: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is done at once; what is found of each partition, in slices."""
    for index in range(2 * WIDE):
        wide.commit(PartitionChangeRecord(topic_id=ID, partition_id=index, leader=2 + index % 2))
    looked_for = list[list[int]]()

    def endpoints_of(image: object, listener: str, leaders: Iterable[int]) -> list[object]:
        looked_for.append(list(leaders))
        return []

    monkeypatch.setattr(fetching, "endpoints_of", endpoints_of)
    for _ in range(2):
        poll = await long_poll(wide, about_all(leader_epoch=LEADER_EPOCH), 16)
        got = await poll
        leaders = {index: one.current_leader.leader_id for index, one in partitions_of(got).items()}
        assert leaders == {index: 2 + index % 2 for index in range(2 * WIDE)}
    assert looked_for == [[2, 3]] * 2


def append(node: Node, index: int) -> None:
    node.partition(index=index).append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=node.now_ms)


def waiting_at(node: Node) -> int:
    """How many waits there are: for what is committed, and for what is appended."""
    leaders = [partition.leader for partition in node.table if partition.leader is not None]
    return sum(len(leader.committed.waits) + len(leader.appended) for leader in leaders)


async def test_no_records_are_missed_that_come_between_two_slices(wide: Node) -> None:
    for index in (0, WIDE, 2 * WIDE - 1):
        for turns in range(2 * WIDE // AT_ONCE + 2):
            asked = about_all()
            asked.topics[0].partitions[index].fetch_offset = turns
            for before in asked.topics[0].partitions[:index]:
                before.fetch_offset = wide.partition(index=before.partition).high_watermark
            poll = await long_poll(wide, asked)
            for _ in range(turns):
                await asyncio.sleep(0)
            append(wide, index)
            async with asyncio.timeout(10):
                assert offsets(partitions_of(await poll)[index]) == [turns]
            assert waiting_at(wide) == 0


async def test_a_follower_of_very_many_partitions_hears_of_what_is_not_committed(wide: Node) -> None:
    followed = range(2 * WIDE)
    wide.commit(
        *(PartitionChangeRecord(topic_id=ID, partition_id=index, replicas=[1, 2], isr=[1, 2]) for index in followed)
    )
    await wide.replicas.settled()
    follower = about_all()
    follower.replica_id = 2
    poll = await long_poll(wide, follower, 12)
    await all_wait(wide)
    append(wide, 7)
    async with asyncio.timeout(10):
        assert offsets(partitions_of(await poll)[7]) == [0]
    assert wide.partition(index=7).high_watermark == 0


async def all_wait(node: Node) -> None:
    """Until a wide fetch waits at every partition."""
    while waiting_at(node) < 2 * WIDE:
        await asyncio.sleep(0)


async def test_very_many_partitions_are_waited_for_until_there_is_enough(wide: Node) -> None:
    poll = await long_poll(wide, about_all(min_bytes=2 * len(batch(b"x"))))
    for index in (3, 5):
        await all_wait(wide)
        assert not poll.done()
        append(wide, index)
    async with asyncio.timeout(10):
        got = partitions_of(await poll)
    assert [index for index, one in got.items() if one.records] == [3, 5]
    assert waiting_at(wide) == 0


async def test_waits_for_very_many_partitions_and_what_they_are_told_are_noted_in_slices(
    wide: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "NOTED_AT_ONCE", AT_ONCE)
    poll = await long_poll(wide, about_all())
    await all_wait(wide)
    append(wide, 7)
    turns = 0
    while not poll.done():
        turns += 1
        await asyncio.sleep(0)
    passes = ("waits are let go", "all is read", "what is told is noted")
    assert turns >= len(passes) * 2 * WIDE // AT_ONCE
    assert offsets(partitions_of(poll.result())[7]) == [0]


async def test_a_wait_for_very_many_partitions_ends_in_time(wide: Node) -> None:
    got = partitions_of(await (await long_poll(wide, about_all(max_wait_ms=1))))
    assert len(got) == 2 * WIDE
    assert waiting_at(wide) == 0


async def test_who_waits_for_very_many_partitions_and_goes_away_is_forgotten(wide: Node) -> None:
    poll = await long_poll(wide, about_all())
    await all_wait(wide)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    assert waiting_at(wide) == 0


async def test_a_large_request_of_garbage_is_refused(node: Node) -> None:
    whole = encode_request(request(*((index, 0) for index in range(2000))), 13, 1, "test")[4:-10]
    found = node.dispatcher.dispatch(memoryview(bytearray(whole)), PEER)
    assert isinstance(found, Waiting)
    with pytest.raises(DecodeError):
        await found.answer


async def test_a_session_of_very_many_partitions_tells_only_news(wide: Node) -> None:
    every = about_all(max_wait_ms=0)
    every.session_epoch = 0
    opened = await (await long_poll(wide, every))
    assert len(partitions_of(opened)) == 2 * WIDE
    poll = await long_poll(wide, request(session=(opened.session_id, 1), min_bytes=1, max_wait_ms=60_000))
    await all_wait(wide)
    append(wide, 9)
    async with asyncio.timeout(10):
        assert list(partitions_of(await poll)) == [9]


@pytest.mark.parametrize("partitions", [1, 2 * WIDE])
async def test_a_large_request_has_room_while_it_waits_and_makes_way_for_what_needs_it(
    wide: Node, partitions: int
) -> None:
    asked, memory, came = about_all(), wide.broker.slices.memory, asyncio.Event()
    asked.rack_id = "r" * 20_000
    del asked.topics[0].partitions[partitions:]
    poll = await long_poll(wide, asked)
    while waiting_at(wide) < partitions:
        await asyncio.sleep(0)
    assert not poll.done()
    assert not memory.take(came, wide.broker.config.queued_max_request_bytes, came.set), "it holds some"
    async with asyncio.timeout(10):
        assert len(partitions_of(await poll)) == partitions
        await came.wait()
    assert waiting_at(wide) == 0


async def test_a_large_request_waits_for_no_work_of_others_to_be_taken_apart(wide: Node) -> None:
    asked, ends = about_all(max_wait_ms=0), threading.Event()
    asked.rack_id = "r" * 20_000
    working = asyncio.ensure_future(wide.broker.slices.work(ends.wait))
    try:
        async with asyncio.timeout(10):
            got = await (await long_poll(wide, asked))
    finally:
        ends.set()
    assert len(partitions_of(got)) == 2 * WIDE
    assert await working


async def test_very_many_changes_to_a_session_are_made_in_slices(node: Node) -> None:
    session_id = response(node, request((0, 0), session=(0, 0))).session_id
    asked = request(*((index, 0) for index in range(10 * CHANGES_A_STEP)), session=(session_id, 1), max_wait_ms=60_000)
    poll = await long_poll(node, asked)
    changes, turns = 0, 0
    (session,) = node.broker.fetch_sessions._sessions.values()
    while len(session.wanted) < 10 * CHANGES_A_STEP:
        await asyncio.sleep(0)
        if len(session.wanted) > changes:
            changes, turns = len(session.wanted), turns + 1
    assert turns >= 3
    assert len(partitions_of(await poll)) == 10 * CHANGES_A_STEP


async def test_a_follower_waits_for_nothing_that_clients_have(node: Node) -> None:
    """All room, the thread that takes requests apart, and the places of long answers: producers wait for followers."""
    session_id = response(node, request((0, 0), session=(0, 0))).session_id
    asked = request(*((index, 0) for index in range(10 * CHANGES_A_STEP)), session=(session_id, 1))
    slices, ends = node.broker.slices, threading.Event()

    def long() -> Steps[object]:
        yield None
        return (yield ends.wait)

    slices.memory.charge("producers", node.broker.config.queued_max_request_bytes)
    others = [asyncio.ensure_future(slices.taken_apart(ends.wait))]
    for _ in range(UNDER_WAY_AT_ONCE):
        answer = slices.answer(long())
        assert isinstance(answer, Awaitable)
        others.append(asyncio.ensure_future(answer))
    consumer = await long_poll(node, request(*((index, 0) for index in range(1000))))
    try:
        async with asyncio.timeout(10):
            assert len(partitions_of(await (await long_poll(node, asked, client_id="penstock-2")))) == len(
                asked.topics[0].partitions
            )
        assert not consumer.done()
    finally:
        ends.set()
        slices.memory.give("producers")
    assert await asyncio.gather(*others) == [True] * len(others)
    assert len(partitions_of(await consumer)) == 1000


def test_records_are_read_into_the_response_as_long_as_they_are_small(node: Node) -> None:
    node.produce(b"x" * 5000, index=1)
    small, large = (node.dispatch(request((index, 0)), 13) for index in (0, 1))
    assert isinstance(small, list)
    assert [type(part) for part in small] == [bytes]
    assert isinstance(large, list)
    assert [type(part) for part in large] == [bytes, LogSlice, bytes]


def test_a_partition_that_left_the_session_while_a_fetch_waited_is_not_put_back(node: Node) -> None:
    sessions = node.broker.fetch_sessions
    first = response(node, request((0, 0), (1, 0), session=(0, 0)))
    frame = FetchFrame(session_id=first.session_id, session_epoch=1)
    plan = at_once(sessions.plan(frame, {}, uses_topic_ids=True, now_ms=node.now_ms))
    assert plan.session is not None
    del plan.session.wanted[ID, 0]
    plan.session.to_the_back([(ID, 0)])
    assert list(plan.session.wanted) == [(ID, 1)]


@pytest.mark.parametrize(("max_bytes", "order"), [(BATCH_BYTES, [1, 2, 0]), (1_000_000_000, [0, 1, 2])])
def test_a_partition_that_had_records_comes_last_where_a_limit_may_have_kept_others_from_theirs(
    node: Node, max_bytes: int, order: list[int]
) -> None:
    first = response(node, request((0, 0), (1, 0), (2, 0), session=(0, 0), max_bytes=max_bytes))
    (session,) = node.broker.fetch_sessions._sessions.values()
    assert (first.session_id, [index for _, index in session.wanted]) == (session.session_id, order)


def test_an_incremental_fetch_tells_only_news(node: Node) -> None:
    first = response(node, request((0, 6), (1, 0), (2, 0), session=(0, 0)))
    assert sorted(partitions_of(first)) == [0, 1, 2]
    session_id = first.session_id
    assert session_id > 0
    assert partitions_of(response(node, request(session=(session_id, 1)))) == {}
    node.produce(b"x", index=1)
    assert list(partitions_of(response(node, request(session=(session_id, 2))))) == [1]
    # The reader has taken it: the high watermark was told, nothing is new.
    assert partitions_of(response(node, request((1, 1), session=(session_id, 3)))) == {}


def test_an_incremental_fetch_repeats_errors(node: Node) -> None:
    first = response(node, request((0, 77), session=(0, 0)))
    for epoch in (1, 2):
        got = response(node, request(session=(first.session_id, epoch)))
        assert partitions_of(got)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_session_errors_are_told_at_the_top(node: Node) -> None:
    assert response(node, request((0, 0), session=(55, 1))).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_id = response(node, request((0, 0), session=(0, 0))).session_id
    got = response(node, request(session=(session_id, 9)))
    assert (got.error_code, got.session_id, got.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])


async def test_a_quiet_partition_is_heard_of_again_when_something_happens_to_it(node: Node) -> None:
    version = 10  # the last one that only leaders answer
    session_id = response(node, request((0, 6), (1, 0), session=(0, 0)), version).session_id
    epochs = iter(range(1, 99))

    def news() -> dict[int, PartitionData]:
        return partitions_of(response(node, request(session=(session_id, next(epochs))), version))

    assert news() == {}
    node.partition().log.advance_log_start(2)
    assert {index: got.log_start_offset for index, got in news().items()} == {0: 2}
    assert news() == {}
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    assert {index: got.error_code for index, got in news().items()} == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=1))
    assert {index: got.error_code for index, got in news().items()} == {0: ErrorCode.NONE}
    assert news() == {}
    node.commit(RemoveTopicRecord(topic_id=ID))
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {index: got.error_code for index, got in news().items()} == dict.fromkeys((0, 1), gone)


def test_a_quiet_partition_whose_log_cannot_be_read_again_has_an_error(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = response(node, request((0, 6), (1, 0), session=(0, 0))).session_id
    assert partitions_of(response(node, request(session=(session_id, 1)))) == {}
    log = node.partition().log
    with pytest.raises(KafkaError), log._changing():
        raise OSError(errno.ENOSPC, "No space left on device")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log_holder, "load_log", full)
    got = partitions_of(response(node, request(session=(session_id, 2))))
    assert {index: one.error_code for index, one in got.items()} == {0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_another_leader_epoch_in_a_request_is_checked(node: Node) -> None:
    session_id = response(node, request((0, 6), session=(0, 0))).session_id
    assert partitions_of(response(node, request(session=(session_id, 1)))) == {}
    got = response(node, request((0, 6), session=(session_id, 2), leader_epoch=LEADER_EPOCH - 1))
    assert partitions_of(got)[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
