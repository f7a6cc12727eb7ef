"""ShareFetch and ShareAcknowledge, as members ask them of a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.log.transactions import ended, verified, written
from tests.unit.node.on_disk import PEER, TOPIC_ID, batch, produce_request
from tests.unit.node.sharing.member import (
    ACCEPT,
    EARLIEST,
    PEER_TOPIC,
    RELEASE,
    RENEW,
    Member,
    acquired,
    values,
    waits,
)
from tests.unit.node.sharing.stand_in import sharing_node
from tests.unit.node.turns import until

from penstock.log.validation import COORDINATOR
from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.api.share_groups.share_fetch import _Asked
from penstock.node.api.share_groups.share_fetch import share_fetch as handler
from penstock.node.serving.access import READ_TOPIC, Authorizer, Right
from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session
from penstock.node.sharing.shares import AT_ONCE
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_fetch
from penstock.protocol.requests.api import ApiKey
from penstock.sharing.values import Status


async def test_who_accepts_within_a_fetch_gets_the_next_with_the_answer(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        node.produce(b"b")
        data = await ann.fetch((0, 0, [ACCEPT]))
        assert (acquired(data), values(data)) == ([(1, 1, 1)], [b"b"])
        assert data is not None
        assert data.acknowledge_error_code == ErrorCode.NONE
        assert stand_in.batches == {0: (2, 1)}


async def test_a_member_waits_for_records(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        node.produce(b"a")
        assert acquired(await waiting) == [(0, 0, 1)]


async def test_nothing_is_left_of_a_request_whose_client_goes_while_it_waits(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=2**31 - 1))
        await until(lambda: waits(node))
        waiting.cancel()
        await until(waiting.done)
        assert not waits(node)
        node.produce(b"a")
        assert await ann.acquire(max_wait_ms=0, share_session_epoch=2) == [(0, 0, 1)]


async def test_a_member_waits_for_what_another_has(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann, bob = Member(node), Member(node, "bob")
        assert await ann.acquire() == [(0, 1, 1)]
        waiting = asyncio.ensure_future(bob.fetch())
        await until(lambda: waits(node))
        await ann.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]))
        assert acquired(await waiting) == [(1, 1, 2)]


async def test_one_that_does_not_wait_gets_nothing(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        first = await ann.fetch(max_wait_ms=0)
        assert first is not None, "a partition that is new in the session is named"
        assert first.acquired_records == []
        assert await ann.fetch(max_wait_ms=0) is None


@pytest.mark.parametrize("said", [{"share_session_epoch": -1}, {"max_records": 0}, {"max_bytes": 0}])
@pytest.mark.parametrize("has_records", [False, True])
async def test_who_ends_the_session_or_asks_for_nothing_gets_that_at_once(
    tmp_path: Path, said: dict[str, Any], has_records: bool
) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        if has_records:
            node.produce(b"a")
        request = ann.fetch_request(**said)
        parts = node.dispatch(request, 2)
        assert isinstance(parts, list), "it does not wait"
        answer = node.decode(request, 2, parts)
        assert isinstance(answer, share_fetch.ShareFetchResponse)
        assert not [one for topic in answer.responses for one in topic.partitions if one.acquired_records]


async def test_who_ends_the_session_hears_nothing_of_what_was_not_asked_about(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2))
        answer = await ann.ask(ann.fetch_request(share_session_epoch=-1, topics=[]))
        assert answer.responses == []


async def test_a_lock_that_runs_out_wakes_who_waits(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.broker.config.group_share_min_record_lock_duration_ms = 1
        node.broker.config.group_share_record_lock_duration_ms = 20
        node.commit(EARLIEST)
        node.produce(b"a")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        node.commit(EARLIEST.replace(name="share.record.lock.duration.ms", value="30000"))
        assert await bob.acquire() == [(0, 0, 2)]
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await bob.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE
        assert stand_in.batches == {0: (2, 2)}


@pytest.mark.parametrize(
    ("said", "version", "named"),
    [
        ((5, 4, [ACCEPT]), 2, {}),
        ((0, 1, []), 2, {}),
        ((0, 4, [ACCEPT, ACCEPT]), 2, {}),
        ((0, 0, [5]), 2, {}),
        ((0, 0, [-1]), 2, {}),
        ((0, 0, [RENEW]), 2, {}),
        ((0, 0, [RENEW]), 1, {}),
        ((0, 2**63 - 1, [ACCEPT]), 2, {}),
    ],
)
async def test_what_cannot_be_said(
    tmp_path: Path, said: tuple[int, int, list[int]], version: int, named: dict[str, Any]
) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.acquire()
        answer = await ann.ask(ann.fetch_request(said, max_wait_ms=0), version)
        (data,) = answer.responses[0].partitions
        assert (data.error_code, data.acknowledge_error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
        assert not stand_in.written


@pytest.mark.parametrize("by_fetch", [True, False])
async def test_very_much_is_said_in_pieces(tmp_path: Path, by_fetch: bool) -> None:
    many = 3 * AT_ONCE
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(*[b"x"] * many)
        ann = Member(node)
        assert await ann.acquire() == [(0, many - 1, 1)]
        said = [(at, at, [RELEASE if at % 2 else ACCEPT]) for at in range(many)]
        if by_fetch:
            data = await ann.fetch(*said, max_wait_ms=0)
            assert data is not None
            assert data.acknowledge_error_code == ErrorCode.NONE
        else:
            assert await ann.acknowledge(*said) == ErrorCode.NONE
        assert stand_in.batches == {at: (0 if at % 2 else 2, 1) for at in range(many)}
        assert len(stand_in.written) > 1
        twice = [(at, at, [ACCEPT]) for at in range(many)]
        assert await ann.acknowledge(*twice) == ErrorCode.INVALID_RECORD_STATE, "one piece that does not hold is told"


async def test_of_a_large_session_little_is_done_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may name what nobody has, and that is looked at each time."""
    did: dict[str, list[int]] = {name: [] for name in ("_name", "_forget", "_sort", "_tell")}

    def counted(name: str) -> Callable[..., None]:
        do = getattr(_Asked, name)

        def counts(asked: _Asked, *what: Any) -> None:
            some = list(what[-1])
            did[name].append(len(some))
            do(asked, *what[:-1], some)

        return counts

    for name in did:
        monkeypatch.setattr(_Asked, name, counted(name))
    many = [*range(2 * AT_ONCE + 5)]
    partitions = [share_fetch.FetchPartition(partition_index=at) for at in many]
    ids = TOPIC_ID, PEER_TOPIC
    topics = [share_fetch.FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id in ids]
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        answer = await ann.ask(ann.fetch_request(topics=topics, max_wait_ms=0))
        assert sorted(len(topic.partitions) for topic in answer.responses) == [len(many)] * 2
        forgets = [share_fetch.ForgottenTopic(topic_id=topic_id, partitions=many) for topic_id in ids]
        answer = await ann.ask(ann.fetch_request(topics=[], forgotten_topics_data=forgets, max_wait_ms=0))
        assert answer.responses == []
    pieces = [AT_ONCE] * 4 + [10]
    assert did == {"_name": pieces, "_forget": pieces, "_sort": pieces, "_tell": pieces}


async def test_locks_are_renewed_by_a_request_that_fetches_nothing(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        node.produce(b"b")
        wrong = await ann.ask(ann.fetch_request((0, 0, [RENEW]), is_renew_ack=True))
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        assert "maxWaitMs" in (wrong.error_message or "")
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        data = await ann.fetch((0, 0, [RENEW]), is_renew_ack=True, **nothing)
        assert data is not None
        assert (data.acknowledge_error_code, data.acquired_records) == (ErrorCode.NONE, [])
        assert not stand_in.written


async def test_large_batches_of_many_partitions_come_one_after_the_other(tmp_path: Path) -> None:
    """A batch comes as a whole, but not one of each partition."""
    async with sharing_node(tmp_path, partitions=3) as (node, _):
        node.commit(EARLIEST)
        for index in range(3):
            node.produce(b"x" * 1_000, index=index)
        ann = Member(node)
        parts = [share_fetch.FetchPartition(partition_index=index) for index in range(3)]
        topics = [share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=parts)]
        await ann.ask(ann.fetch_request(topics=topics, max_wait_ms=0))
        led = node.broker.sharing._led
        await until(lambda: all(it.machine.status is Status.ACTIVE for it in led.values()))
        brought = []
        for _ in range(3):
            answer = await ann.ask(ann.fetch_request(topics=[], max_bytes=900, max_wait_ms=0))
            brought += [[it.partition_index for it in topic.partitions if it.records] for topic in answer.responses]
        assert sorted(brought) == [[0], [1], [2]]


async def test_a_topic_that_is_not_there(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        topics = [share_fetch.FetchTopic(topic_id=PEER_TOPIC, partitions=[share_fetch.FetchPartition()])]
        data = await ann.fetch(topics=topics)
        assert data is not None
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        forgotten = [share_fetch.ForgottenTopic(topic_id=PEER_TOPIC, partitions=[0])]
        assert await ann.fetch(topics=[], forgotten_topics_data=forgotten, max_wait_ms=0) is None


async def test_what_is_forgotten_is_fetched_no_longer(tmp_path: Path) -> None:
    async with sharing_node(tmp_path, partitions=2) as (node, _):
        node.commit(EARLIEST)
        ann = Member(node)
        both = [share_fetch.FetchPartition(partition_index=index) for index in range(2)]
        topics = [share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=both)]
        await ann.ask(ann.fetch_request(topics=topics, max_wait_ms=0))
        led = node.broker.sharing._led
        await until(lambda: len(led) == 2 and all(it.machine.status is Status.ACTIVE for it in led.values()))
        for index in range(2):
            node.produce(b"a", index=index)
        forgotten = [share_fetch.ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])]
        for gone in (forgotten, []):
            answer = await ann.ask(ann.fetch_request(topics=[], forgotten_topics_data=gone))
            assert [it.partition_index for topic in answer.responses for it in topic.partitions if it.records] == [1]
            node.produce(b"b", index=1)


async def test_each_group_has_all_records(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.commit(EARLIEST.replace(resource_name="h"))
        node.produce(b"a", b"b")
        assert await Member(node).acquire() == [(0, 1, 1)]
        assert await Member(node, "bob").acquire(group_id="h") == [(0, 1, 1)]


async def test_batches_are_of_the_size_asked_for_and_hold_the_records_asked_for(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        for _ in range(4):
            node.produce(*[b"a"] * 5)
        assert await Member(node).acquire(max_records=8, batch_size=5) == [(0, 4, 1), (5, 9, 1)]


async def test_below_its_level_it_is_not_known(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.image.features[SHARE_VERSION] = 0
        ann = Member(node)
        assert (await ann.ask(ann.fetch_request())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert await ann.acknowledge(share_session_epoch=1) == ErrorCode.UNSUPPORTED_VERSION


async def test_not_one_record_more(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(*(b"%d" % number for number in range(10)))
        ann = Member(node)
        assert await ann.acquire(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
        assert await ann.acquire(max_records=3) == [(3, 9, 1)]


async def test_the_answer_has_the_batches_of_what_is_acquired_alone(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        for value in (b"a", b"b", b"c", b"d"):
            node.produce(value)
        ann, bob = Member(node), Member(node, "bob")
        assert values(await ann.fetch(max_records=3)) == [b"a", b"b", b"c"]
        await ann.acknowledge((1, 1, [RELEASE]))
        data = await bob.fetch(max_records=1)
        assert (acquired(data), values(data)) == ([(1, 1, 2)], [b"b"])


async def test_the_log_begins_later_than_what_is_written(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        stand_in.start_offset = 0
        for value in (b"a", b"b", b"c"):
            node.produce(value)
        node.partition().delete_before(2)
        assert await Member(node).acquire() == [(2, 2, 1)]


@pytest.mark.parametrize(
    ("said", "expected"), [("latest", 2), ("earliest", 0), ("by_duration:PT1H", 1), ("by_duration:PT1S", 2)]
)
async def test_where_a_group_begins(tmp_path: Path, said: str, expected: int) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST.replace(value=said))
        node.produce(b"a")
        node.now_ms += 2 * 3_600_000
        node.ask(produce_request(batch(b"b", timestamp_ms=node.now_ms)), 9)
        node.now_ms += 60_000
        await Member(node).fetch(max_wait_ms=0)
        (shared,) = node.broker.sharing._led.values()
        await until(lambda: shared.machine.status is Status.ACTIVE)
        assert shared.machine.start_offset == expected


async def test_settings_of_a_group(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        for name, value in (
            ("share.delivery.count.limit", "2"),
            ("share.partition.max.record.locks", "100"),
            ("share.record.lock.duration.ms", "1"),
        ):
            node.commit(EARLIEST.replace(name=name, value=value))
        node.commit(EARLIEST)
        node.produce(*[b"x"] * 100)
        node.produce(b"y")
        ann = Member(node)
        answer = await ann.ask(ann.fetch_request())
        assert answer.acquisition_lock_timeout_ms == 15_000, "not less than group.share.min.record.lock.duration.ms"
        assert acquired(answer.responses[0].partitions[0]) == [(0, 99, 1)]
        assert await ann.acquire(max_wait_ms=0) == [], "as many are locked as may be"
        await ann.acknowledge((0, 99, [RELEASE]))
        assert await ann.acquire() == [(0, 99, 2)]
        await ann.acknowledge((0, 99, [RELEASE]))
        assert await ann.acquire() == [(100, 100, 1)], "the others were delivered as often as they may be"


class NoTopics(Authorizer):
    """Lets nobody read a topic."""

    def has(self, session: Session, right: Right, name: str) -> bool:
        return right != READ_TOPIC


async def test_who_may_not_read_the_topic(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        node.broker.authorizer = NoTopics()
        node.dispatcher = Dispatcher(node.broker)
        data = await ann.fetch((0, 0, [ACCEPT]))
        assert data is not None
        assert data.error_code == data.acknowledge_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not stand_in.written


async def test_a_client_that_owes_for_what_it_had_gets_no_records(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        node.produce(b"b")
        charge = cast("Any", SimpleNamespace(fetch_owed_ms=lambda: 70))
        context = RequestContext(ApiKey.SHARE_FETCH, 2, 1, "c", PEER, charge=charge)
        answer = await cast("Any", handler(node.broker, context, ann.fetch_request((0, 0, [ACCEPT]))))
        assert (answer.throttle_time_ms, answer.responses[0].partitions[0].acquired_records) == (70, [])
        assert stand_in.batches == {0: (2, 1)}, "what it says is done all the same"


async def test_records_of_an_aborted_transaction_are_finished(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.commit(EARLIEST.replace(name="share.isolation.level", value="read_committed"))

        def append(batch: memoryview) -> None:
            verified(node.partition().log, batch)
            node.partition().append(batch, acks=-1, now_ms=node.now_ms, origin=COORDINATOR)

        append(written(7, 0, value=b"a"))
        append(written(8, 0, value=b"b"))
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        append(ended(7, ControlType.ABORT))
        append(ended(8, ControlType.COMMIT))
        data = await waiting
        assert acquired(data) == [(1, 3, 1)]
        assert values(data)[0] == b"b"
