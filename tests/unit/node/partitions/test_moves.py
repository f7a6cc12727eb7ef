"""A log that begins or ends where it has no records does so elsewhere as well, also after a power cut: no offset is
given twice. A disk that hangs keeps its own moves alone.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.log.log_content import LogContent
from penstock.log.names import PARTITION_METADATA
from penstock.log.partition_log import PartitionLog
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.moves import DirectoryMoves, Pause, _cut, _next_slice

SEGMENT = "00000000000000000001.log"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What each directory had when it was synced last."""
    names: dict[str, list[str]] = {}
    sync_directory = Disk.sync_directory

    def noted(disk: Disk, path: str) -> None:
        names[path] = os.listdir(path)
        sync_directory(disk, path)

    monkeypatch.setattr(Disk, "sync_directory", noted)
    return names


def empty_from_one_on(node: Node) -> PartitionLog:
    """Retention has deleted all that there was."""
    node.produce(b"old")
    log = node.partition().log
    log.load().roll(log.log_end_offset, node.now_ms)
    log.advance_log_start(1)
    node.replicas.on_log_start_moved(node.partition())
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    return log


def test_a_copy_of_an_empty_log(tmp_path: Path, synced: dict[str, list[str]]) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        log = empty_from_one_on(node)
        future = node.directories.create_future(log, str(tmp_path), 1, node.partition().topic_id)
        assert _next_slice(log, future) is None
        future.close()
        assert SEGMENT in synced[future.directory]
        assert "00000000000000000000.log" not in synced[future.directory]


def test_a_copy_whose_log_became_empty(tmp_path: Path, synced: dict[str, list[str]]) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.produce(b"old")
        log = node.partition().log
        future = node.directories.create_future(log, str(tmp_path), 0, node.partition().topic_id)
        log.load().roll(log.log_end_offset, node.now_ms)
        log.advance_log_start(1)
        cut = _cut(log, future)
        assert cut is not None
        cut()
        assert (_cut(log, future), _next_slice(log, future)) == (None, None)
        future.close()
        assert SEGMENT in synced[future.directory]


async def test_a_follower_that_begins_anew(tmp_path: Path, synced: dict[str, list[str]]) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        partition = node.partition()
        node.commit(PartitionChangeRecord(topic_id=partition.topic_id, partition_id=0, leader=-1))
        await partition.begin_anew_at(1, node.directories.threads_of(partition.log))
        assert SEGMENT in synced[partition.log.directory]
        assert partition.high_watermark == 1


def test_the_last_directory_that_was_asked_for_counts(tmp_path: Path) -> None:
    """Also where it was asked for before, and the copy there is to be dropped already."""
    with node_on(tmp_path, *topic_records()) as node:
        partition = node.partition()
        directories, there = SimpleNamespace(futures={}), SimpleNamespace(parent="/there")
        context = cast("Any", SimpleNamespace(directories=directories, now_ms=lambda: 0))
        moves = DirectoryMoves(context, node.table, node.throttles.directories, lambda _: None)
        moves.move(partition, "/there")
        directories.futures[partition.topic, 0] = there
        moves.move(partition, "/elsewhere")
        moves.move(partition, "/there")
        assert list(moves._wanted.values()) == [(partition, "/there")]
        assert list(moves._unwanted) == [(partition.topic, 0)], "it is made anew"
        wanted = moves._wanted[partition.topic, 0]
        moves.move(partition, "/there")
        assert moves._wanted[partition.topic, 0] is wanted, "the same again goes on"


def test_what_is_produced_waits_for_the_disk_of_the_leader_alone(tmp_path: Path) -> None:
    """Who leads no longer answers that at once: the producer finds the new leader, however long the disk takes."""
    with node_on(tmp_path, *topic_records()) as node:
        pause = Pause(node.partition())
        assert pause.takes
        node.commit(PartitionChangeRecord(topic_id=node.partition().topic_id, partition_id=0, leader=2))
        assert not pause.takes


class Hung(Executor):
    """A disk that does not come back. It keeps what it should do."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.works.append(partial(work, *args, **named))
        return Future()


@contextmanager
def three_directories(path: Path) -> Iterator[tuple[Node, list[str]]]:
    """A replica lies in each."""
    paths = [str(path / name) for name in "abc"]
    with node_on(path, *topic_records(partitions=3), log_dirs=",".join(paths)) as node:
        assert [node.partition(index=index).log.parent for index in range(3)] == paths
        yield node, paths


class Moves:
    """What was moved, in order."""

    def __init__(self, node: Node) -> None:
        self._moved = asyncio.Queue[IsrPartition]()
        throttle = node.throttles.directories
        self.all = DirectoryMoves(node.context.node, node.table, throttle, self._moved.put_nowait)
        self.all.start()

    async def next(self) -> tuple[int, str]:
        async with asyncio.timeout(60):
            moved = await self._moved.get()
        return moved.index, moved.log.parent


async def test_a_disk_that_hangs_keeps_its_own_moves_alone(tmp_path: Path) -> None:
    with three_directories(tmp_path) as (node, (a, b, c)):
        hung = node.directories.roots[c].threads = cast("Any", Hung())
        moves = Moves(node)
        moves.all.move(node.partition(index=0), c)
        moves.all.move(node.partition(index=1), a)
        assert await moves.next() == (1, a)
        moves.all.move(node.partition(index=1), b)
        assert await moves.next() == (1, b)
        moves.all.move(node.partition(index=0), b)
        moves.all.move(node.partition(index=1), a)
        assert await moves.next() == (1, a)
        assert node.partition(index=0).log.parent == a, "its copy may still be made by the disk that hangs"
        assert len(hung.works) == 1
        moves.all._tasks.cancel()


async def test_a_log_is_read_by_a_thread_of_its_own_disk(tmp_path: Path) -> None:
    """Where that hangs, those of the disk to which it goes are free."""
    with three_directories(tmp_path) as (node, (a, _, c)):
        node.produce(b"one", index=2)
        hung = node.directories.roots[c].threads = cast("Any", Hung())
        moves = Moves(node)
        moves.all.move(node.partition(index=2), a)
        while not hung.works and node.partition(index=2).log.parent == c:
            await asyncio.sleep(0)
        moves.all.move(node.partition(index=1), a)
        assert await moves.next() == (1, a)
        assert node.partition(index=2).log.parent == c
        moves.all._tasks.cancel()


async def test_whose_a_log_is_need_not_be_read_for_its_copy(tmp_path: Path) -> None:
    """Where the file was damaged the copy had no directory, and that took the whole disk for one that fails."""
    with three_directories(tmp_path) as (node, (_, b, _c)):
        partition = node.partition()
        node.produce(b"one")
        os.remove(f"{partition.log.directory}/{PARTITION_METADATA}")
        moves = Moves(node)
        moves.all.move(partition, b)
        assert await moves.next() == (0, b)
        assert partition.log.topic_id == partition.topic_id
        assert node.directories.roots[b].health.failure is None
        await moves.all.stop()


async def test_a_step_looks_at_no_replica_that_it_does_not_touch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves of very many to a disk that hangs cost the others nothing."""
    looked, lane_of = list[tuple[str, int]](), DirectoryMoves._lane_of

    def noted(moves: DirectoryMoves, key: tuple[str, int]) -> tuple[str, str] | None:
        looked.append(key)
        return lane_of(moves, key)

    with three_directories(tmp_path) as (node, (a, b, c)):
        hung = node.directories.roots[c].threads = cast("Any", Hung())
        moves = Moves(node)
        for number in range(300):
            moves.all._wanted["many", number] = node.partition(index=0), c
            moves.all._note(("many", number))
        while not hung.works:
            await asyncio.sleep(0)
        monkeypatch.setattr(DirectoryMoves, "_lane_of", noted)
        moves.all.move(node.partition(index=1), a)
        assert await moves.next() == (1, a)
        moves.all.move(node.partition(index=1), b)
        assert await moves.next() == (1, b)
        assert set(looked) == {("orders", 1)}
        moves.all._tasks.cancel()


async def test_a_copy_is_read_in_by_a_thread_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = list[tuple[str, str]]()
    load = PartitionLog.load

    def noted(log: PartitionLog) -> LogContent:
        if not log.is_loaded:
            loaded.append((log.parent, threading.current_thread().name.partition("_")[0]))
        return load(log)

    with three_directories(tmp_path) as (node, (_, b, _c)):
        node.produce(b"one")
        log = node.partition().log
        future = node.directories.create_future(log, b, 0, node.partition().topic_id)
        future.close()
        monkeypatch.setattr(PartitionLog, "load", noted)
        moves = Moves(node)
        assert await moves.next() == (0, b)
        assert {thread for parent, thread in loaded if parent == b} == {"disk"}
        await moves.all.stop()


async def test_a_log_that_ends_behind_its_last_batch_does_so_elsewhere(tmp_path: Path) -> None:
    """As Kafka's compaction may leave it."""
    with three_directories(tmp_path) as (node, (_, b, c)):
        node.produce(b"one")
        log = node.partition().log
        log.end_at(7)
        moves = Moves(node)
        moves.all.move(node.partition(), b)
        assert await moves.next() == (0, b)
        assert (log.log_end_offset, log.is_lent) == (7, False)
        assert node.produce(b"two") == (0, 7)
        log.end_at(9)
        future = node.directories.create_future(log, c, 0, node.partition().topic_id)
        gone = moves.all._swap(log, log.lend(), future)
        log.take_back(is_whole=True)
        node.directories.swapped(log, gone, node.now_ms)
        assert (log.parent, log.log_end_offset) == (c, 9)
        await moves.all.stop()


async def test_a_log_whose_last_terms_have_no_batch_has_the_same_terms_elsewhere(tmp_path: Path) -> None:
    """Compaction took them. Without them the term before seems to end where the log does, and replicas keep what they
    have of it behind its end.
    """
    with three_directories(tmp_path) as (node, (_, b, c)):
        node.produce(b"one")
        log = node.partition().log
        log.leader_epochs.assign(5, 1)
        log.leader_epochs.assign(8, 4)
        log.end_at(7)
        terms = log.leader_epochs.entries
        moves = Moves(node)
        moves.all.move(node.partition(), b)
        assert await moves.next() == (0, b)
        assert (log.log_end_offset, log.leader_epochs.entries) == (7, terms)
        log.leader_epochs.assign(9, 7)
        log.end_at(8)
        terms = log.leader_epochs.entries
        future = node.directories.create_future(log, c, 0, node.partition().topic_id)
        gone = moves.all._swap(log, log.lend(), future)
        log.take_back(is_whole=True)
        node.directories.swapped(log, gone, node.now_ms)
        assert (log.parent, log.log_end_offset, log.leader_epochs.entries) == (c, 8, terms)
        await moves.all.stop()


async def test_a_step_that_fails_by_our_own_fault_ends_no_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with three_directories(tmp_path) as (node, (a, b, _)):
        moves, log = Moves(node), node.partition().log

        def fails(*_: object) -> None:
            raise ValueError("a defect")

        monkeypatch.setattr(node.directories, "drop_future", fails)
        future = node.directories.create_future(log, b, 0, node.partition().topic_id)
        moves.all._unwanted["other", 0] = a, b
        node.directories.futures["other", 0] = future
        moves.all._note(("other", 0))
        moves.all.move(node.partition(), b)
        assert await moves.next() == (0, b)
        await moves.all.stop()
