"""Moves between log directories that fail, are given up or cannot go on; and what producers send meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.on_disk import Node, node_on, topic_records
from tests.unit.node.partitions.test_moves import Moves, three_directories

from penstock.log.log_content import LogContent
from penstock.log.partition_log import PartitionLog
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.partitions import moves as module
from penstock.node.partitions.moves import DirectoryMoves, Pause, _back
from penstock.protocol.errors import ErrorCode, KafkaError

KEY = "orders", 0


def without_disks(node: Node, futures: dict[Any, Any]) -> DirectoryMoves:
    """Moves that nobody works on."""
    context = cast("Any", SimpleNamespace(directories=SimpleNamespace(futures=futures), now_ms=lambda: 0))
    return DirectoryMoves(context, node.table, node.throttles.directories, lambda _: None)


@pytest.mark.parametrize("has_copy", [True, False])
def test_who_is_given_up_moves_no_more_and_its_copy_goes(tmp_path: Path, has_copy: bool) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        partition, futures = node.partition(), dict[Any, Any]()
        moves = without_disks(node, futures)
        moves.move(partition, "/there")
        moves._news.clear()
        if has_copy:
            futures[KEY] = SimpleNamespace(parent="/there")
        moves.forget(partition)
        lane = partition.log.parent, "/there"
        assert moves._wanted == {}
        assert (moves._unwanted, list(moves._news)) == (({KEY: lane}, [KEY]) if has_copy else ({}, []))


def storage_error(*_: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


@pytest.mark.parametrize(("works_at", "times"), [(None, 3), (2, 5)])
async def test_a_copy_that_fails_too_often_in_a_row_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works_at: int | None, times: int
) -> None:
    """The second of these goes on a bit at its third attempt."""
    tries = list[int]()
    cut = module._cut

    def fails(*given: Any) -> Any:
        tries.append(1)
        if len(tries) - 1 == works_at:
            return None
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    monkeypatch.setattr(module, "RETRY_S", 0)
    monkeypatch.setattr(module, "MAX_FAILURES", 3)
    with three_directories(tmp_path) as (node, (a, b, _)):
        moves, partition = Moves(node), node.partition()
        node.produce(b"one")
        monkeypatch.setattr(DirectoryMoves, "_copy", lambda *_: asyncio.sleep(0))
        monkeypatch.setattr(module, "_cut", fails)
        moves.all.move(partition, b)
        while moves.all._wanted or node.directories.futures:
            await asyncio.sleep(0)
        monkeypatch.setattr(module, "_cut", cut)
        assert (len(tries), partition.log.parent) == (times + (works_at is not None), a)
        await moves.all.stop()


async def test_a_copy_on_a_disk_that_fails_is_dropped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = list[int]()
    with three_directories(tmp_path) as (node, (a, b, _)):

        def fails(_: object, future: Any) -> None:
            tries.append(1)
            future.health.report(OSError(5, "broken"), "a test")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "broken")

        monkeypatch.setattr(module, "RETRY_S", 3_600)
        monkeypatch.setattr(module, "_cut", fails)
        moves, partition = Moves(node), node.partition()
        moves.all.move(partition, b)
        while moves.all._wanted or not tries:
            await asyncio.sleep(0)
        assert (len(tries), partition.log.parent) == (1, a)
        moves.all._tasks.cancel()


async def test_a_copy_that_nobody_wants_when_it_is_made_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with three_directories(tmp_path) as (node, (a, b, _)):
        moves, partition = Moves(node), node.partition()
        in_thread = DirectoryMoves._in_thread

        async def given_up(self: DirectoryMoves, path: str, work: Any) -> Any:
            found = await in_thread(self, path, work)
            self._wanted.pop(KEY, None)
            return found

        monkeypatch.setattr(DirectoryMoves, "_in_thread", given_up)
        moves.all.move(partition, b)
        while not node.directories.futures:
            await asyncio.sleep(0)
        while node.directories.futures:
            await asyncio.sleep(0)
        assert partition.log.parent == a
        await moves.all.stop()


async def test_who_waits_for_a_log_that_moves_goes_on_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with three_directories(tmp_path) as (node, (_, b, _c)):
        node.produce(b"one")
        partition = node.partition()
        log, moves = partition.log, Moves(node)
        content = log.lend()
        went_on, back = list[bool](), asyncio.ensure_future(_back(log))
        await asyncio.sleep(0)
        log.when_back(lambda: went_on.append(log.is_lent))
        for waiting in log.take_back(is_whole=True):
            waiting()
        second = log.lend()
        assert second is content
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not back.done(), "it is lent again"
        for waiting in log.take_back(is_whole=True):
            waiting()
        await back
        assert went_on == [False]
        lend = PartitionLog.lend

        def lent(log: PartitionLog) -> LogContent:
            found = lend(log)
            log.when_back(lambda: went_on.append(partition.hand_over is None))
            return found

        monkeypatch.setattr(PartitionLog, "lend", lent)
        moves.all.move(partition, b)
        assert await moves.next() == (0, b)
        assert went_on == [False, False], "before those who were held back"
        assert partition.hand_over is None
        await moves.all.stop()


class Sent:
    """A request with so many bytes of records."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.appended = 0

    def append(self) -> None:
        self.appended += 1

    def refused(self, error: KafkaError) -> None:
        raise AssertionError("all are appended")


def test_so_much_is_held_while_a_replica_changes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD_BYTES", 10)
    with node_on(tmp_path, *topic_records()) as node:
        partition = node.partition()
        pause, first, second = Pause(partition), Sent(9), Sent(1)
        assert partition.hand_over is pause
        pause.hold(first)
        assert pause.takes
        pause.hold(second)
        assert not pause.takes
        pause.forget(second)
        pause.forget(second)
        pause.forget(Sent(5))
        assert pause.takes
        pause.hold(second)
        pause.forget(first)
        assert pause.takes
        pause.end()
        assert (first.appended, second.appended, partition.hand_over) == (0, 1, None)
        pause.end()
        assert second.appended == 1


def test_a_hand_over_that_is_under_way_goes_on_holding_back(tmp_path: Path) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        partition, other = node.partition(), cast("Any", object())
        partition.hand_over = other
        pause = Pause(partition)
        assert partition.hand_over is other
        pause.end()
        assert partition.hand_over is other
        node.commit(PartitionChangeRecord(topic_id=partition.topic_id, partition_id=0, leader=2))
        assert not pause.takes
