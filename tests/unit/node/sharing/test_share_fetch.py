"""ShareFetch and ShareAcknowledge, as members ask them of a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.on_disk import PEER, TOPIC_ID, Node, batch, produce_request
from tests.unit.node.sharing.stand_in import sharing_node

from penstock.metadata.records import ConfigRecord, PartitionChangeRecord
from penstock.metadata.resources import ResourceType
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_acknowledge, share_fetch
from penstock.protocol.records import iterate_batches, iterate_records
from penstock.sharing.share_partition import Status

EARLIEST = ConfigRecord(
    resource_type=ResourceType.GROUP, resource_name="g", name="share.auto.offset.reset", value="earliest"
)
PEER_TOPIC = UUID(int=55)
"""Of no topic here."""
MOST_TURNS = 1_000_000
"""Of the event loop: the stand-in answers over a socket."""
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def change(*, leader: int, epoch: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader)


def waits(node: Node) -> bool:
    """Whether a request waits for news of a share partition that is loaded."""
    return any(it._waiting and it.machine.status is Status.ACTIVE for it in node.broker.sharing._led.values())


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(MOST_TURNS):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")


class Member:
    """Asks one thing after the other in its session."""

    def __init__(self, node: Node, member_id: str = "ann") -> None:
        self.node = node
        self.member_id = member_id
        self.epoch = 0

    def fetch_request(self, *said: tuple[int, int, list[int]], **named: Any) -> share_fetch.ShareFetchRequest:
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=f, last_offset=t, acknowledge_types=k) for f, t, k in said
        ]
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = share_fetch.ShareFetchRequest(
            group_id="g",
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=20_000,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            topics=[share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        return request.replace(**named)

    async def ask(self, request: Any, version: int = 2) -> Any:
        parts = self.node.dispatch(request, version)
        if isinstance(parts, Waiting):
            answer: Any = await self.node.wait(request, version, parts)
        else:
            answer = self.node.decode(request, version, parts)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = request.share_session_epoch + 1
        return answer

    async def fetch(self, *said: tuple[int, int, list[int]], **named: Any) -> share_fetch.PartitionData | None:
        """What partition 0 brings; None if the answer does not name it."""
        answer = await self.ask(self.fetch_request(*said, **named))
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer.responses[0].partitions[0] if answer.responses else None

    async def acquire(self, **named: Any) -> list[tuple[int, int, int]]:
        return acquired(await self.fetch(**named))

    async def acknowledge(self, *said: tuple[int, int, list[int]], **named: Any) -> ErrorCode:
        layout = share_acknowledge
        batches = [layout.AcknowledgementBatch(first_offset=f, last_offset=t, acknowledge_types=k) for f, t, k in said]
        partition = layout.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [layout.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[partition])]
        request = layout.ShareAcknowledgeRequest(
            group_id="g", member_id=self.member_id, share_session_epoch=self.epoch, topics=topics
        ).replace(**named)
        answer = await self.ask(request)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.responses[0].partitions[0].error_code) if answer.responses else ErrorCode.NONE


def acquired(data: share_fetch.PartitionData | None) -> list[tuple[int, int, int]]:
    return (
        [] if data is None else [(it.first_offset, it.last_offset, it.delivery_count) for it in data.acquired_records]
    )


def values(data: share_fetch.PartitionData | None) -> list[bytes | None]:
    assert data is not None
    records = data.records or b""
    return [it.value for at, header in iterate_batches(records) for it in iterate_records(records, at, header)]


async def test_records_are_fetched_accepted_and_gone(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b", b"c")
        ann = Member(node)
        data = await ann.fetch()
        assert (acquired(data), values(data)) == ([(0, 2, 1)], [b"a", b"b", b"c"])
        assert await ann.acknowledge((0, 1, [ACCEPT]), (2, 2, [RELEASE])) == ErrorCode.NONE
        (written,) = stand_in.written
        assert (written.start_offset, written.delivery_complete_count, written.state_epoch) == (0, 2, 5)
        assert stand_in.batches == {0: (2, 1), 1: (2, 1), 2: (0, 1)}
        assert await ann.acquire() == [(2, 2, 2)]


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


async def test_a_lock_that_runs_out_wakes_who_waits(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.broker.config.group_share_min_record_lock_duration_ms = 1
        node.broker.config.group_share_record_lock_duration_ms = 20
        node.commit(EARLIEST)
        node.produce(b"a")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        assert await bob.acquire() == [(0, 0, 2)]
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await bob.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE
        assert stand_in.batches == {0: (2, 2)}


@pytest.mark.parametrize("by_fetch", [True, False])
async def test_a_session_that_ends_gives_back_what_it_has(tmp_path: Path, by_fetch: bool) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        await bob.fetch(max_wait_ms=0)
        ann.epoch = -1
        if by_fetch:
            await ann.fetch((0, 0, [ACCEPT]))
        else:
            await ann.acknowledge((0, 0, [ACCEPT]))
        assert await bob.acquire() == [(1, 1, 2)]
        assert len(node.broker.sharing.sessions) == 1


async def test_a_connection_that_is_lost_gives_back_what_its_sessions_have(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        node.broker.gone.pop(PEER.connection_id)()
        assert len(node.broker.sharing.sessions) == 0
        assert await bob.acquire() == [(0, 0, 2)]
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_epochs_of_sessions(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        ann.epoch = 4
        assert (await ann.ask(ann.fetch_request())).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        ann.epoch = 0
        said = ann.fetch_request((0, 0, [ACCEPT]))
        assert (await ann.ask(said)).error_code == ErrorCode.INVALID_REQUEST
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await ann.fetch(max_wait_ms=0)
        ann.epoch = 2
        assert (await ann.ask(ann.fetch_request())).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_more_sessions_than_may_be(tmp_path: Path) -> None:
    async with sharing_node(tmp_path, group_share_max_share_sessions="1") as (node, _):
        ann, bob = Member(node), Member(node, "bob")
        await ann.fetch(max_wait_ms=0)
        refused = await bob.ask(bob.fetch_request(max_wait_ms=1))
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        ann.epoch = 0
        await ann.fetch(max_wait_ms=0)  # its own session makes room


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


async def test_members_that_are_none(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        for named in ({"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37}):
            assert (await ann.ask(ann.fetch_request(**named))).error_code == ErrorCode.INVALID_REQUEST
            assert await ann.acknowledge(**named) == ErrorCode.INVALID_REQUEST
        node.image.features.clear()
        assert (await ann.ask(ann.fetch_request())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert await ann.acknowledge() == ErrorCode.UNSUPPORTED_VERSION


async def test_a_topic_that_is_not_there(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        topics = [share_fetch.FetchTopic(topic_id=PEER_TOPIC, partitions=[share_fetch.FetchPartition()])]
        data = await ann.fetch(topics=topics)
        assert data is not None
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        forgotten = [share_fetch.ForgottenTopic(topic_id=PEER_TOPIC, partitions=[0])]
        assert await ann.fetch(topics=[], forgotten_topics_data=forgotten, max_wait_ms=0) is None


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


async def test_another_leader_is_named_and_gets_what_is_written(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.acquire()
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        node.commit(change(leader=8, epoch=4))
        data = await waiting
        assert data is not None
        assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 8)
        node.commit(change(leader=1, epoch=5))
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await ann.acquire() == [(0, 1, 1)], "nothing was written of the first delivery"
        assert stand_in.fenced_below == 5


async def test_a_write_that_is_fenced_ends_it(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        stand_in.refusals.append(ErrorCode.FENCED_STATE_EPOCH)
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await ann.acquire() == [(0, 0, 1)]


async def test_what_cannot_be_written_is_taken_back(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        stand_in.refusals.append(ErrorCode.INVALID_REQUEST)
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE


async def test_a_state_that_cannot_be_read_is_told_and_read_anew(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        stand_in.refusals.append(ErrorCode.GROUP_ID_NOT_FOUND)
        ann = Member(node)
        data = await ann.fetch()
        assert data is not None
        assert data.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await ann.acquire() == [(0, 0, 1)]


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
