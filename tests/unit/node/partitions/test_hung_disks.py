"""While one disk hangs, logs on others are looked after, and nothing of the hung one is touched on the event loop."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS, batch, node_on, topic_records

from penstock.log.directories.log_directory import LogDirectory
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.upkeep import EachDisk, Upkeep, _tell
from penstock.protocol.errors import ErrorCode, KafkaError

RETENTION_MS = 10_000
CHECKPOINT = "replication-offset-checkpoint"


def append(partition: Partition) -> None:
    partition.append(memoryview(bytearray(batch(b"a"))), acks=1, now_ms=NOW_MS)


async def test_a_disk_that_hangs_holds_up_neither_looks_nor_checkpoints_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in ("hung", "well")]
    records = topic_records(partitions=2, retention_ms=str(RETENTION_MS), flush_ms="1")
    may_end = threading.Event()
    maybe_flush, write = PartitionLog.maybe_flush, LogDirectory.write_high_watermarks

    def hang_in(directory: str) -> None:
        assert not directory.startswith(str(places[0])) or may_end.wait(30)

    def flush_late(log: PartitionLog, now_ms: int) -> None:
        hang_in(log.parent)
        maybe_flush(log, now_ms)

    def write_late(directory: LogDirectory, offsets: dict[tuple[str, int], int]) -> None:
        hang_in(directory.path)
        write(directory, offsets)

    with node_on(places[0], *records, log_dirs=",".join(map(str, places))) as node:
        hung, well = sorted(node.table, key=lambda partition: partition.log.parent)
        assert [Path(one.log.parent) for one in (hung, well)] == places
        node.upkeep._high_watermark_writes._waits_s = 0.05
        with monkeypatch.context() as hanging:
            hanging.setattr(PartitionLog, "maybe_flush", flush_late)
            hanging.setattr(LogDirectory, "write_high_watermarks", write_late)
            try:
                for partition in (hung, well):
                    append(partition)
                    node.upkeep.watch(partition, due_ms=NOW_MS + 1)
                node.now_ms += 10 * RETENTION_MS
                async with asyncio.timeout(30):
                    await node.upkeep.run_due()
                    while not well.log.log_start_offset or list(node.upkeep.dirty) != [hung]:
                        await node.upkeep.checkpoint_high_watermarks()
                assert (places[1] / CHECKPOINT).exists()
                assert not (places[0] / CHECKPOINT).exists()
                assert hung in node.upkeep._due[hung.log.parent]
            finally:
                may_end.set()
            await node.upkeep._looks.settle()
            await node.upkeep._high_watermark_writes.settle()
        assert hung.log.log_start_offset == 1
        await node.upkeep.checkpoint_high_watermarks()
        assert not node.upkeep.dirty
        assert (places[0] / CHECKPOINT).read_text() == f"0\n1\norders {hung.index} 1\n"


async def test_logs_on_a_disk_that_hangs_wait_for_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files are renamed on the event loop."""
    may_end, touched, rename = threading.Event(), list[str](), Disk.rename

    def noted_rename(disk: Disk, source: str, target: str) -> None:
        touched.append(source)
        rename(disk, source, target)

    records = topic_records(partitions=2, flush_ms="1000", retention_ms=str(RETENTION_MS), file_delete_delay_ms="0")
    with node_on(tmp_path, *records) as node:
        hung, well = sorted(node.table, key=lambda partition: partition.index)
        for partition in (hung, well):
            append(partition)
            node.upkeep.watch(partition, due_ms=NOW_MS + 1)
        well.log.flush()
        with monkeypatch.context() as hanging:
            hanging.setattr(PartitionLog, "maybe_flush", lambda *_: may_end.wait(30))
            hanging.setattr(Disk, "rename", noted_rename)
            try:
                for _ in range(3):
                    node.now_ms += 2 * RETENTION_MS
                    await node.upkeep.run_due()
                assert list(node.upkeep._due[str(tmp_path)]) == [hung, well]
                assert not touched
            finally:
                may_end.set()
            await node.upkeep._looks.settle()
        node.now_ms += RETENTION_MS
        await node.upkeep.run_due()
        assert well.log.log_start_offset == 1


async def test_a_look_that_fails_leaves_the_others_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file may be left to open for a moment."""
    with node_on(tmp_path, *topic_records(partitions=4, flush_ms="1")) as node:
        partitions = sorted(node.table, key=lambda partition: partition.index)
        for partition in partitions:
            append(partition)
            node.upkeep.watch(partition, due_ms=NOW_MS + 1)
        bad, told = partitions[0].log.segments[0], Segment.retention_timestamp

        def retention_timestamp(segment: Segment) -> int:
            if segment is bad:
                raise OSError(errno.EMFILE, "too many open files")
            return told(segment)

        with monkeypatch.context() as failing:
            failing.setattr(Segment, "retention_timestamp", retention_timestamp)
            node.now_ms += 10
            await node.upkeep.run_due()
            await node.upkeep._looks.settle()
        assert not any(partition.log.is_dirty for partition in partitions)
        append(partitions[0])
        node.now_ms += 10 * node.upkeep._intervals.retention_check_ms
        await node.upkeep.run_due()
        await node.upkeep._looks.settle()
        assert not partitions[0].log.is_dirty, "it has its next turn"


async def test_who_was_passed_by_is_told_though_its_work_ends_meanwhile(tmp_path: Path) -> None:
    """That work was begun before: what has changed since is not in it."""
    goes_on, ended, rounds = threading.Event(), threading.Event(), list[str]()
    places = [tmp_path / name for name in ("hung", "well")]
    with node_on(places[0], log_dirs=",".join(map(str, places))) as node:
        each = EachDisk(node.directories.roots, 0.05)

        def work(directory: LogDirectory) -> None:
            if directory.path == str(places[0]):
                assert goes_on.wait(30)
                ended.set()
            elif rounds:
                goes_on.set()
                assert ended.wait(30)

        assert [one.path for one in await each.do(work)] == [str(places[0])]
        rounds.append("first")
        each._waits_s = 30
        assert [one.path for one in await each.do(work)] == [str(places[0])]
        assert not await each.do(work)


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), TypeError("no room")])
async def test_a_failure_is_told_once(tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    goes_on = threading.Event()

    def fail(_: LogDirectory) -> None:
        assert goes_on.wait(30)
        raise error

    with node_on(tmp_path) as node:
        each = EachDisk(node.directories.roots, 0.01)
        assert await each.do(fail), "it takes long"
        assert not caplog.records
        goes_on.set()
        await each.settle()
        await asyncio.sleep(0)
        (record,) = caplog.records
        assert (record.name, "no room" in record.getMessage()) == (Upkeep.__module__, True)
        caplog.clear()
        each._waits_s = 30
        with pytest.raises(type(error), match="no room"):
            await each.do(fail)
        assert not caplog.records


@pytest.mark.parametrize(
    ("is_cancelled", "error", "told"), [(True, None, 0), (False, None, 0), (False, KafkaError(ErrorCode.NONE), 1)]
)
async def test_what_nobody_waits_for_is_told_if_it_failed(
    caplog: pytest.LogCaptureFixture, is_cancelled: bool, error: Exception | None, told: int
) -> None:
    future = asyncio.get_running_loop().create_future()
    if is_cancelled:
        future.cancel()
    elif error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    _tell(future)
    assert len(caplog.records) == told


async def test_a_directory_that_is_full_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    places, done = [str(tmp_path / name) for name in ("full", "well", "other")], set[str]()

    def work(directory: LogDirectory) -> None:
        if directory.path == places[0]:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        done.add(directory.path)

    with node_on(tmp_path / "full", log_dirs=",".join(places)) as node, pytest.raises(KafkaError, match="no room"):
        await EachDisk(node.directories.roots, 30).do(work)
    assert done == set(places[1:])
