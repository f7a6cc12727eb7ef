"""A log that begins in the middle and has no records does so after a power cut, too: no offset is given twice."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.records import PartitionChangeRecord
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
        future = node.directories.create_future(log, str(tmp_path), 1)
        assert _next_slice(log, future) is None
        future.close()
        assert SEGMENT in synced[future.directory]
        assert "00000000000000000000.log" not in synced[future.directory]


def test_a_copy_whose_log_became_empty(tmp_path: Path, synced: dict[str, list[str]]) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.produce(b"old")
        future = node.directories.create_future(node.partition().log, str(tmp_path), 0)
        log = node.partition().log
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
