"""What begins and ends share sessions and share partitions: members, connections, leaders, coordinators."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.on_disk import PEER, TOPIC_ID
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, RELEASE, Member, acquired, change, values, waits
from tests.unit.node.sharing.stand_in import sharing_node
from tests.unit.node.turns import until

from penstock.metadata.records import RemoveTopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_fetch
from penstock.sharing.sessions import SessionKey
from penstock.sharing.values import Status


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


async def test_very_many_sessions_of_a_connection_end_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.sharing.shares.AT_ONCE", 1)
    async with sharing_node(tmp_path) as (node, _):
        sharing = node.broker.sharing
        for member_id in ("ann", "bob", "cid"):
            await Member(node, member_id).fetch(max_wait_ms=0)
        node.broker.gone.pop(PEER.connection_id)()
        again = sharing.sessions.open(SessionKey("g", "cid"), PEER.connection_id + 1)
        await until(lambda: len(sharing.sessions) == 1)
        assert sharing.sessions.is_open(again), "it has begun again elsewhere"
        sharing.close(again.key)
        await until(lambda: not sharing._tasks)
        assert not sharing._led
        assert not sharing._of_groups


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


async def test_one_client_has_half_of_the_sessions_at_most(tmp_path: Path) -> None:
    async with sharing_node(tmp_path, group_share_max_share_sessions="4") as (node, _):
        ann, bob, cid = (Member(node, name) for name in ("ann", "bob", "cid"))
        await ann.fetch(max_wait_ms=0)
        await bob.fetch(max_wait_ms=0)
        refused = await cid.ask(cid.fetch_request(max_wait_ms=1))
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert f"at {PEER.client_host} has 2 sessions" in refused.error_message
        sessions = node.broker.sharing.sessions
        sessions.open(SessionKey("g", "dan"), 77, "User:dan at elsewhere")
        sessions.close(SessionKey("g", "bob"))
        await cid.fetch(max_wait_ms=0)


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_group_that_was_deleted_and_made_again_begins_anew(tmp_path: Path, is_deleted: bool) -> None:
    """Though somebody holds a session, so that the leader has what there was before."""
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        assert await ann.acknowledge((0, 1, [ACCEPT])) == ErrorCode.NONE
        if is_deleted:
            stand_in.begin_anew()
        waiting = asyncio.ensure_future(bob.fetch())
        await until(lambda: stand_in.summarized == 1 and not node.broker.sharing._tasks)
        node.produce(b"c")
        assert acquired(await waiting)[0] == ((0, 1, 1) if is_deleted else (2, 2, 1))


async def test_members_that_are_none(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        for named in ({"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37}):
            assert (await ann.ask(ann.fetch_request(**named))).error_code == ErrorCode.INVALID_REQUEST
            assert await ann.acknowledge(**named) == ErrorCode.INVALID_REQUEST
        node.image.features.clear()
        assert (await ann.ask(ann.fetch_request())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert await ann.acknowledge() == ErrorCode.UNSUPPORTED_VERSION


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


async def test_where_a_group_began_is_written_before_anything_is_given_away(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        ann = Member(node)
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        (begun,) = stand_in.begun
        assert (begun.start_offset, begun.state_epoch) == (0, 5)
        node.produce(b"a")
        assert acquired(await waiting) == [(0, 0, 1)]
        node.commit(change(leader=8, epoch=4))
        node.commit(change(leader=1, epoch=5))
        assert await ann.acquire() == [(0, 0, 1)], "to another leader latest is behind what nobody has accepted"


async def test_a_beginning_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        stand_in.refusals.extend([ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH])
        ann = Member(node)
        data = await ann.fetch()
        assert data is not None
        assert (data.error_code, data.acquired_records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
        assert await ann.acquire() == [(0, 0, 1)]


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


async def test_a_fetch_that_waits_takes_nothing_for_a_session_that_has_ended(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann, bob = Member(node), Member(node, "bob")
        await bob.fetch(max_wait_ms=0)
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        node.broker.sharing.close(SessionKey("g", "ann"))
        node.produce(b"a")
        assert acquired(await waiting) == []
        assert await bob.acquire() == [(0, 0, 1)]


async def test_what_is_still_being_written_when_a_group_goes_is_not_delivered_again(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        stand_in.held.clear()
        accepting = asyncio.ensure_future(ann.acknowledge((0, 0, [ACCEPT])))
        await until(lambda: bool(stand_in.written))
        node.broker.gone.pop(PEER.connection_id)()
        waiting = asyncio.ensure_future(bob.fetch())
        await until(lambda: waits(node))
        stand_in.held.set()
        assert await accepting == ErrorCode.NONE
        assert acquired(await waiting) == [(1, 1, 2)]


async def test_a_group_without_sessions_keeps_nothing(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        node.broker.gone.pop(PEER.connection_id)()
        await until(lambda: not node.broker.sharing._led)
        assert stand_in.batches == {0: (0, 1)}


async def test_a_fetch_that_waits_when_its_session_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        ann = Member(node)
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        node.broker.sharing.close(SessionKey("g", "ann"))
        await waiting
        assert not node.broker.sharing._led


async def test_nothing_is_kept_of_a_group_of_which_nothing_was_set(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        settings = node.broker.sharing.settings
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        ann.epoch = -1
        await ann.acknowledge()
        assert len(settings) == 0
        node.commit(EARLIEST)
        assert (settings.of("g").begins, settings.of("h").begins, len(settings)) == ("earliest", "latest", 0)
        for epoch, kept in ((0, 1), (-1, 0)):
            ann.epoch = epoch
            await ann.fetch(max_wait_ms=0)
            assert len(settings) == kept, "with the last session the last share partition goes"


async def test_a_session_that_begins_while_the_former_one_ends_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.node.sharing.shares.AT_ONCE", 1)  # more share partitions are let go in turns
    async with sharing_node(tmp_path, partitions=2) as (node, _):
        node.commit(EARLIEST)
        ann, bob = Member(node), Member(node, "bob")
        both = [share_fetch.FetchPartition(partition_index=index) for index in range(2)]
        topics = [share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=both)]
        await bob.ask(bob.fetch_request(topics=topics, max_wait_ms=0))
        await until(lambda: all(it.machine.status is Status.ACTIVE for it in node.broker.sharing._led.values()))
        node.produce(b"a")
        assert await ann.acquire(max_wait_ms=0) == [(0, 0, 1)]
        node.produce(b"b")
        node.broker.sharing.close(SessionKey("g", "ann"))
        ann.epoch = 0
        assert await ann.acquire(max_wait_ms=0) == [(1, 1, 1)]
        await until(lambda: not node.broker.sharing._tasks)
        assert await bob.acquire(max_wait_ms=0) == []
        assert await ann.acknowledge((1, 1, [ACCEPT])) == ErrorCode.NONE


async def test_a_topic_that_is_deleted_ends_it(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        waiting = asyncio.ensure_future(ann.fetch())
        await until(lambda: waits(node))
        node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
        data = await waiting
        assert data is not None
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert not node.broker.sharing._led


async def test_what_is_counted(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b", b"c", b"d")
        node.broker.config.group_share_min_record_lock_duration_ms = 1
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        await ann.acknowledge((0, 1, [ACCEPT, RELEASE]), (2, 2, [ACCEPT]))
        node.broker.config.group_share_record_lock_duration_ms = 5
        node.commit(EARLIEST.replace(name="share.delivery.count.limit", value="3"))  # settings are worked out anew
        await bob.acquire()
        (shared,) = node.broker.sharing._led.values()
        await until(lambda: shared.locks_run_out == 1)
        told = {
            metric.name: dict(metric.samples())
            for metric in node.broker.metrics
            if metric.group.type_name.startswith("Share")
        }
        assert told["RecordAcknowledgementsPerSec"] == {
            ("Gap",): 0,
            ("Accept",): 2,
            ("Release",): 1,
            ("Reject",): 0,
            ("Renew",): 0,
        }
        of_partition = ("g", "orders", 0)
        assert told["AcquisitionLockTimeoutPerSec"] == {of_partition: 1}
        assert told["InFlightMessageCount"] == {of_partition: 3}
        assert told["InFlightBatchCount"] == {of_partition: 1}
        assert (told["ShareSessionsCount"], told["SharePartitionsCount"]) == ({(): 2}, {(): 2})
        assert told["PartitionLoadTimeMs"][()].count == 1
        node.broker.gone.pop(PEER.connection_id)()
        evictions = next(it for it in node.broker.metrics if it.name == "ShareSessionEvictionsPerSec")
        assert dict(evictions.samples()) == {(): 2}


async def test_a_broker_that_stops_answers_who_waits(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann, bob = Member(node), Member(node, "bob")
        await ann.acquire()
        stand_in.held.clear()
        accepting = asyncio.ensure_future(ann.acknowledge((0, 0, [ACCEPT])))
        waiting = asyncio.ensure_future(bob.fetch())
        await until(lambda: bool(stand_in.written) and waits(node))
        await node.broker.stop_sharing()
        assert await accepting == ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = await waiting
        assert data is not None
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await ann.acknowledge((1, 1, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not node.broker.sharing._led
        stand_in.held.set()


async def test_nothing_is_done_for_locks_of_what_has_ended(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        (shared,) = node.broker.sharing._led.values()
        stand_in.refusals.append(ErrorCode.GROUP_ID_NOT_FOUND)
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.GROUP_ID_NOT_FOUND
        assert shared._timer is None
        assert not shared.partition.committed.waits, "nor does it wait for the end of the epoch"
