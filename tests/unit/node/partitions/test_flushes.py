"""What `flush.messages` wants flushed is, together and by threads, before anybody is told of it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.held_threads import HeldThreads
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID, Node, batch, node_on, produce_request, topic_records

from penstock.log.segments import Segments
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import RemoveTopicRecord
from penstock.node.partitions import flushes
from penstock.node.partitions.partition import ALL_REPLICAS
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.records import Record, encode_batch

OTHER = NODE_ID + 1


class OnDisk:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.threads = HeldThreads.of(node)

    def produce(self, acks: int = 1, index: int = 0, records: bytes = batch(b"x")) -> asyncio.Future[int]:
        """The error code, when that is answered."""
        request = produce_request(records, index=index, acks=acks)
        answer = self.node.dispatch(request, 9)
        assert isinstance(answer, Waiting), "it is answered before it is kept"
        return asyncio.ensure_future(self._code(request, answer))

    async def _code(self, request: Any, waiting: Waiting) -> int:
        response = await self.node.wait(request, 9, waiting)
        assert isinstance(response, ProduceResponse)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def flush(self, number: int = 0) -> None:
        self.threads.do(number)
        await turns()


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[OnDisk]:
    with node_on(tmp_path, *topic_records(partitions=2), log_flush_interval_messages="1") as node:
        one = OnDisk(node)
        yield one
        while one.threads.work:
            await one.flush()


async def test_what_is_appended_in_one_turn_or_while_a_flush_is_under_way_shares_one(disk: OnDisk) -> None:
    partition = disk.node.partition()
    first = [disk.produce(1), disk.produce(ALL_REPLICAS), disk.produce(1)]
    await turns()
    assert len(disk.threads.work) == 1
    disk.threads.begin()
    later = [disk.produce(ALL_REPLICAS), disk.produce(1)]
    await turns()
    assert len(disk.threads.work) == 1, "one of a log at a time"
    await disk.flush()
    assert [one.done() for one in first] == [True] * 3
    assert [one.done() for one in later] == [False] * 2
    assert (partition.high_watermark, partition.log.log_end_offset) == (3, 5)
    assert len(disk.threads.work) == 1
    await disk.flush()
    assert [await one for one in first + later] == [ErrorCode.NONE] * 5
    assert partition.high_watermark == 5
    assert not disk.threads.work


async def test_a_batch_that_comes_again_waits_for_the_same_flush(disk: OnDisk) -> None:
    records = bytes(encode_batch([Record(0, NOW_MS, None, b"x")], producer_id=7, producer_epoch=0, base_sequence=0))
    asked = [disk.produce(1, records=records), disk.produce(ALL_REPLICAS, records=records)]
    await turns()
    await disk.flush()
    assert [await one for one in asked] == [ErrorCode.NONE] * 2
    assert disk.node.partition().log.log_end_offset == 1


async def test_logs_of_a_disk_are_flushed_beside_each_other(disk: OnDisk) -> None:
    asked = [disk.produce(1, 0), disk.produce(ALL_REPLICAS, 1)]
    await turns()
    assert len(disk.threads.work) == 2
    await disk.flush(1)
    assert [one.done() for one in asked] == [False, True]
    await disk.flush()
    assert await asked[0] == ErrorCode.NONE


async def test_a_flush_that_finds_no_room_is_tried_again(disk: OnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushes, "AGAIN_S", 0)
    asked = disk.produce()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Segments, "flush", fail)
        await turns()
        await disk.flush()
    while not disk.threads.work:
        await asyncio.sleep(0)
    assert not asked.done()
    await disk.flush()
    assert await asked == ErrorCode.NONE


async def test_a_flush_that_fails_otherwise_is_no_acknowledgement(
    disk: OnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = disk.node.partition()

    def failed(path: str) -> None:
        asyncio.get_running_loop().call_soon(disk.node.replicas.on_directory_failed, path)

    disk.node.directories.roots.on_failure(failed)
    asked = [disk.produce(1), disk.produce(ALL_REPLICAS)]

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Segments, "flush", fail)
    await turns()
    await disk.flush()
    assert [await one for one in asked] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert (partition.high_watermark, partition.kept.offset) == (0, 0)
    assert not disk.threads.work


async def test_a_leader_does_not_count_what_it_has_not_flushed_as_a_follower(disk: OnDisk) -> None:
    partition = disk.node.partition()
    partition.obey(NODE_ID, PartitionImage(OTHER, 4, 4, (NODE_ID, OTHER), (NODE_ID, OTHER)), 0)
    partition.append_fetched(batch(b"a", b"b"), 0, 0)
    partition.obey(NODE_ID, PartitionImage(NODE_ID, 5, 5, (NODE_ID, OTHER), (NODE_ID,)), 0)
    assert partition.high_watermark == 0
    await turns()
    await disk.flush()
    assert partition.high_watermark == 2


async def test_a_log_that_is_deleted_or_has_stopped_meanwhile_is_flushed_no_more(disk: OnDisk) -> None:
    asked = disk.produce()
    await turns()
    disk.produce()
    disk.node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    await disk.flush()
    assert await asked == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await turns()
    assert not disk.threads.work


async def test_while_a_thread_has_the_log_nothing_is_flushed_or_kept(disk: OnDisk) -> None:
    log = disk.node.partition().log
    asked = disk.produce()
    await turns()
    log.lend()
    await disk.flush()
    assert not disk.threads.work
    for go_on in log.take_back(is_whole=True):
        go_on()
    assert not asked.done()
    await disk.flush()
    assert await asked == ErrorCode.NONE


async def test_a_node_that_stops_waits_for_what_is_flushed(disk: OnDisk) -> None:
    disk.produce()
    await turns()
    stopping = asyncio.ensure_future(disk.node.upkeep.stop())
    await turns()
    assert not stopping.done()
    await disk.flush()
    if disk.threads.work:
        await disk.flush()
    disk.produce()
    await turns()
    assert not disk.threads.work


async def test_some_threads_of_a_disk_are_left_to_others(disk: OnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushes, "AT_ONCE", 1)
    asked = [disk.produce(index=0), disk.produce(index=1)]
    await turns()
    assert len(disk.threads.work) == 1
    await disk.flush()
    assert ([one.done() for one in asked], len(disk.threads.work)) == ([True, False], 1)
    await disk.flush()
    assert await asked[1] == ErrorCode.NONE


async def test_a_flush_that_fails_by_our_own_fault_does_not_hold_up_the_next(
    disk: OnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushes, "AT_ONCE", 1)
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    asked = [disk.produce(index=0), disk.produce(index=1)]
    fault = RuntimeError("a fault of our own")

    def fail(*_: object) -> None:
        raise fault

    await turns()
    with monkeypatch.context() as patch:
        patch.setattr(Segments, "flush", fail)
        await disk.flush()
    assert faults == [fault]
    await disk.flush()
    assert [one.done() for one in asked] == [False, True]
    disk.produce(index=0)
    await turns()
    await disk.flush()
    assert await asked[0] == ErrorCode.NONE
