"""Upkeep: each partition at its deadline, checkpoints only after appends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS, TOPIC_ID, Node, batch, node_on, topic_records

from penstock.log.directories.checkpoints import Checkpoints
from penstock.log.partition_log import PartitionLog
from penstock.log.retention import SEGMENTS_AT_ONCE
from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord, RemoveTopicRecord
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.upkeep import HELD_UP_MS, UpkeepIntervals
from penstock.protocol.errors import ErrorCode, KafkaError

RETENTION_MS = 10_000
CHECKPOINT = "replication-offset-checkpoint"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path, *topic_records(retention_ms=str(RETENTION_MS))) as node:
        yield node


async def later(node: Node, ms: int) -> None:
    """Time goes by and what is due is done."""
    node.now_ms += ms
    await node.upkeep.run_due()
    await node.upkeep._looks.settle()


async def test_old_records_go_when_their_time_has_come(node: Node) -> None:
    node.produce(b"old")
    await later(node, 1)
    node.upkeep.watch(node.partition())
    await later(node, RETENTION_MS - 1)
    assert node.partition().log.log_start_offset == 0
    await later(node, 1)
    assert node.partition().log.log_start_offset == 1


async def test_old_records_that_may_not_go_yet_are_looked_at_now_and_then(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in them is still to be delivered, or they are not on all replicas."""
    looks: list[int] = []
    retain = IsrPartition.retain

    def noted(self: IsrPartition, now_ms: int) -> int:
        looks.append(now_ms)
        return retain(self, now_ms)

    monkeypatch.setattr(IsrPartition, "retain", noted)
    node.produce(b"old")
    node.upkeep.watch(node.partition())
    with monkeypatch.context() as held:
        held.setattr(IsrPartition, "needed_from", 0)
        await later(node, RETENTION_MS + 1)
        for _ in range(HELD_UP_MS - 1):
            await later(node, 1)
        assert len(looks) == 1
    await later(node, 1)
    assert node.partition().log.log_start_offset == 1


async def test_a_shorter_retention_holds_at_once(node: Node) -> None:
    node.produce(b"old")
    node.now_ms += 5000
    node.commit(
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.ms", value="1000")
    )
    await later(node, 0)
    assert node.partition().log.log_start_offset == 1


async def test_deleted_records_free_their_segments_and_bring_no_retention_about(node: Node) -> None:
    log = node.partition().log
    for value in (b"a", b"b", b"c"):
        node.produce(value)
        log.load().roll(log.log_end_offset, node.now_ms)
    node.now_ms += 10 * RETENTION_MS
    log.advance_log_start(1)
    node.replicas.on_log_start_moved(node.partition())
    assert [segment.base_offset for segment in log.segments] == [1, 2, 3]
    await node.upkeep.run_due()


async def test_a_removed_partition_is_not_looked_after(node: Node) -> None:
    node.produce(b"a")
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    await later(node, 10 * RETENTION_MS)
    assert list(node.table) == []


async def test_partitions_that_are_due_at_once_come_in_the_order_in_which_they_were_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in that of their addresses, which is another one in each run: a simulation would not repeat itself."""
    seen: list[int] = []
    with node_on(tmp_path / "many", *topic_records(partitions=4, flush_ms="1")) as node:
        monkeypatch.setattr(PartitionLog, "maybe_flush", lambda log, now_ms: seen.append(log.partition))
        order = [2, 0, 3, 1]
        for index in order:
            partition = next(partition for partition in node.table if partition.index == index)
            partition.append(memoryview(bytearray(batch(b"a"))), acks=1, now_ms=NOW_MS)
            node.upkeep.watch(partition, due_ms=NOW_MS + 1)
        await later(node, 1)
    assert seen == order


async def test_flush_ms_is_obeyed(tmp_path: Path) -> None:
    with node_on(tmp_path / "flushing", *topic_records(flush_ms="100")) as node:
        node.partition().append(memoryview(bytearray(batch(b"a"))), acks=1, now_ms=NOW_MS)
        await later(node, 99)
        assert node.partition().log.recovery_point == 0
        await later(node, 1)
        assert node.partition().log.recovery_point == 1


async def test_a_flush_that_finds_no_room_is_tried_again_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    with node_on(tmp_path / "flushing", *topic_records(flush_ms="100")) as node:
        node.partition().append(memoryview(bytearray(batch(b"a"))), acks=1, now_ms=NOW_MS)
        with monkeypatch.context() as full:
            full.setattr(PartitionLog, "maybe_flush", fail)
            await later(node, 100)
        await later(node, HELD_UP_MS - 1)
        assert node.partition().log.is_dirty
        await later(node, 1)
        assert not node.partition().log.is_dirty


async def test_high_watermarks_are_written_after_appends_only(node: Node, tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    await node.upkeep.checkpoint_high_watermarks()
    assert not path.exists()
    node.produce(b"a", b"b")
    await node.upkeep.checkpoint_high_watermarks()
    assert path.read_text() == "0\n1\norders 0 2\n"
    path.unlink()
    await node.upkeep.checkpoint_high_watermarks()
    assert not path.exists()


async def test_it_works_in_the_background_and_stops(node: Node) -> None:
    node.upkeep.start()
    node.produce(b"a")
    await node.upkeep.stop()
    assert node.directories.checkpoints.high_watermarks(node.directories.logs) == {("orders", 0): 1}
    assert node.now_ms == NOW_MS


@pytest.mark.parametrize(
    ("interval", "name"),
    [
        ("high_watermark_checkpoint_ms", CHECKPOINT),
        ("recovery_point_checkpoint_ms", "recovery-point-offset-checkpoint"),
    ],
)
async def test_each_checkpoint_is_written_at_its_own_interval(
    node: Node, tmp_path: Path, interval: str, name: str
) -> None:
    never = 10**9
    intervals = UpkeepIntervals(high_watermark_checkpoint_ms=never, recovery_point_checkpoint_ms=never)
    node.upkeep._intervals = intervals.replace(**{interval: 1})
    node.produce(b"a")
    node.partition().log.flush()
    node.upkeep.start()
    async with asyncio.timeout(30):
        while "orders 0 1" not in (path.read_text() if (path := tmp_path / name).exists() else ""):
            await asyncio.sleep(0)
    await node.upkeep.stop()


async def test_high_watermarks_that_could_not_be_written_are_written_later(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    node.produce(b"a")
    with monkeypatch.context() as broken:
        broken.setattr(node.directories.checkpoints, "write_high_watermarks", fail)
        with pytest.raises(KafkaError):
            await node.upkeep.checkpoint_high_watermarks()
    await node.upkeep.checkpoint_high_watermarks()
    assert (tmp_path / CHECKPOINT).read_text() == "0\n1\norders 0 1\n"


@pytest.mark.parametrize(
    ("where", "name"),
    [(PartitionLog, "maybe_flush"), (Checkpoints, "write_high_watermarks"), (Checkpoints, "write")],
)
async def test_the_disk_holds_up_nobody_but_a_stop(
    node: Node, monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    started, may_end = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        assert threading.current_thread() is not threading.main_thread()
        started.set()
        assert may_end.wait(30)

    monkeypatch.setattr(where, name, wait)
    monkeypatch.setattr(PartitionLog, "flush_is_due", lambda *_: True)
    node.upkeep._intervals = UpkeepIntervals(high_watermark_checkpoint_ms=1, recovery_point_checkpoint_ms=1)
    node.produce(b"a")
    node.upkeep.watch(node.partition(), due_ms=node.now_ms)
    node.upkeep.start()
    try:
        assert await asyncio.to_thread(started.wait, 30)
        stopping = asyncio.create_task(node.upkeep.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not stopping.done(), "the caller would close the files while they are synced"
    finally:
        may_end.set()
    await stopping


@pytest.mark.parametrize("is_expired", [False, True])
async def test_many_segments_go_a_few_at_a_time(node: Node, *, is_expired: bool) -> None:
    log = node.partition().log
    for number in range(SEGMENTS_AT_ONCE * 2 + 5):
        node.produce(b"%d" % number)
        log.load().roll(log.log_end_offset, node.now_ms)
    if is_expired:
        node.upkeep.watch(node.partition(), due_ms=node.now_ms + 10 * RETENTION_MS)
        await later(node, 10 * RETENTION_MS)
    else:
        log.advance_log_start(log.log_end_offset)
        node.replicas.on_log_start_moved(node.partition())
    left = [len(log.segments)]
    while left[-1] > 1:
        await later(node, 1)
        left.append(len(log.segments))
    assert left == [*range(SEGMENTS_AT_ONCE + 6, 1, -SEGMENTS_AT_ONCE), 1]


async def test_what_fails_by_our_own_fault_has_its_next_turn(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.produce(b"old")
    node.upkeep.watch(node.partition(), due_ms=node.now_ms)
    with monkeypatch.context() as broken:
        broken.setattr(PartitionLog, "apply_retention", lambda *_, **__: 1 // 0)
        await node.upkeep.run_due()
    await later(node, 10 * RETENTION_MS + UpkeepIntervals().retention_check_ms)
    assert node.partition().log.log_start_offset == 1


async def test_a_log_that_a_thread_gets_while_it_is_flushed_is_looked_after_when_it_is_back(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.produce(b"old")
    log = node.partition().log
    node.upkeep.watch(node.partition(), due_ms=node.now_ms)
    with monkeypatch.context() as lending:
        lending.setattr(PartitionLog, "flush_is_due", lambda *_: True)
        lending.setattr(PartitionLog, "maybe_flush", lambda *_: log.lend())
        await later(node, 0)
    await later(node, 10 * RETENTION_MS)
    for go_on in log.take_back(is_whole=True):
        go_on()
    await later(node, 0)
    assert log.log_start_offset == 1
    assert not caplog.records


async def test_a_thread_has_to_do_only_with_logs_whose_flush_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    maybe_flush = PartitionLog.maybe_flush

    def noted(self: PartitionLog, now_ms: int) -> bool:
        flushed.append(now_ms - NOW_MS)
        return maybe_flush(self, now_ms)

    monkeypatch.setattr(PartitionLog, "maybe_flush", noted)
    with node_on(tmp_path / "flushing", *topic_records(flush_ms="3")) as node:
        node.produce(b"a")
        for _ in range(5):
            node.upkeep.watch(node.partition(), due_ms=node.now_ms)
            await later(node, 1)
    assert flushed == [3]
