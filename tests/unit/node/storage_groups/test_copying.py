"""What a replica copies that its disk has lost, and from whom."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.lone_group import AtOnce, start_alone
from tests.unit.node.storage_groups.test_group import ORDERS, Node, opened, produce
from tests.unit.node.turns import until

from penstock.log.partition_log import PartitionLog
from penstock.node.storage_groups.copying import (
    LostRecordsError,
    ask_all,
    copy_lost,
    copy_missing,
    flush_apart,
    read_for_copy,
)
from penstock.node.storage_groups.failed_replicas import FailedReplicas
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch, iterate_batches
from penstock.replication.storage_groups.entries import PartitionId
from penstock.testing.simulator.loop import VirtualLoop


async def two_of_which_one_loses(tmp_path: Path, *, keeps: int) -> tuple[Node, Node]:
    """Two nodes that had the same five records of a group's partition; the second has so many bytes of it left."""
    for name in ("whole", "loser"):
        async with Node(tmp_path / name) as group:
            await opened(group, ORDERS)
            for _ in range(5):
                await produce(group, ORDERS)
            await group.snapshot()
    (segment,) = (tmp_path / "loser" / "orders-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:keeps])
    return Node(tmp_path / "whole"), Node(tmp_path / "loser")


@pytest.mark.parametrize(("keeps", "left"), [(0, 0), (100, 0), (500, 2)])
async def test_a_replica_starts_when_it_has_copied_what_its_disk_has_lost(
    tmp_path: Path, keeps: int, left: int
) -> None:
    whole, loser = await two_of_which_one_loses(tmp_path, keeps=keeps)
    why = rf"orders-0 ends at {left}, .* before 5: its disk has lost records"
    with pytest.raises(LostRecordsError, match=why) as lost:
        await start_alone(loser.group, loser.directories)

    async def ask(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        if node_id == 2:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        return (0, b"") if node_id == 3 else read_for_copy(whole.open(partition, "orders"), offset, 1)

    await copy_lost(lost.value.lacking, [2, 3, 4], ask, lambda topic_id, since: False, loser.threads_of)
    loser.directories.close()
    whole.directories.close()
    async with Node(tmp_path / "loser") as group:
        assert (await produce(group, ORDERS)).first_offset == 5


async def test_where_nobody_has_it_any_more_the_log_begins_where_others_do() -> None:
    async def ask(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        return node_id * 10, b""

    assert await ask_all([3, 2, 4], ask, ORDERS, 5) == (20, b"")
    with pytest.raises(KafkaError):
        await ask_all([], ask, ORDERS, 5)


async def test_who_has_records_is_asked_before_who_begins_later() -> None:
    batch = bytes(encode_batch([Record(value=b"x")], base_offset=5))

    async def ask(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        return (20, b"") if node_id == 2 else (0, batch)

    assert await ask_all([2, 3], ask, ORDERS, 5) == (0, batch)


async def test_what_is_repaired_is_tried_again_at_once_and_what_is_not_later() -> None:
    woken = asyncio.Event()
    failed = FailedReplicas(woken.set)
    lost = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    async def fails() -> None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)

    for number, work in ((0, partial(asyncio.sleep, 0)), (1, fails), (2, asyncio.Event().wait)):
        failed.add(number, lost)
        failed.heal(number, work)
    await until(woken.is_set)
    await asyncio.sleep(0)
    assert failed.take_due() == [0]
    assert [*failed] == [1, 2]
    await failed.stop()


async def test_a_disk_that_hangs_keeps_no_other_from_its_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = [ThreadPoolExecutor(1) for _ in "ab"]
    nodes = [Node(tmp_path / name) for name in "ab"]
    logs = [node.open(ORDERS, "orders") for node in nodes]
    goes_on, synced, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()
    disks[0].submit(goes_on.wait)
    flush = PartitionLog.flush

    def flushes(log: PartitionLog) -> None:
        flush(log)
        loop.call_soon_threadsafe(synced.set)

    monkeypatch.setattr(PartitionLog, "flush", flushes)
    flushing = asyncio.ensure_future(flush_apart(logs, lambda log: disks[logs.index(log)]))
    await synced.wait()
    assert not flushing.done()
    goes_on.set()
    await flushing
    for node, disk in zip(nodes, disks, strict=True):
        node.directories.close()
        disk.shutdown()


@pytest.mark.parametrize(("count", "more"), [(1, ""), (3, ", and 2 more have lost some")])
def test_what_a_disk_has_lost_is_told_of_the_first_and_how_many_more(count: int, more: str) -> None:
    one: Any = SimpleNamespace(topic="orders", id=SimpleNamespace(number=4), end_offset=7)
    error = LostRecordsError([(one, 9)] * count)
    assert error.message == (
        "the log of orders-4 ends at 7, and the storage group has forgotten what came before 9: its disk has lost"
        f" records{more}"
    )


@pytest.mark.parametrize(("offset", "count"), [(1, 0), (2, 3), (4, 1), (5, 0), (6, 0)])
async def test_what_others_copy_lies_between_the_ends_of_a_log(tmp_path: Path, offset: int, count: int) -> None:
    node = Node(tmp_path)
    log = node.open(ORDERS, "orders")
    for base in range(5):
        log.append_as_follower(memoryview(encode_batch([Record(value=b"x")], base_offset=base)))
    log.advance_log_start(2)
    start_offset, batches = read_for_copy(log, offset, 1 << 20)
    assert (start_offset, sum(1 for _ in iterate_batches(batches))) == (2, count)
    node.directories.close()


def test_a_copy_goes_on_at_once_after_something_came_and_in_a_moment_where_nothing_did() -> None:
    loop = VirtualLoop(Random(1))
    begun, asked = round(10 * loop.time()), list[tuple[int, int]]()

    class Copied:
        id, end_offset = ORDERS, 0
        log = SimpleNamespace(flush=lambda: asked.append((round(10 * loop.time()) - begun, -1)))

        def copy(self, start_offset: int, batches: bytes) -> bool:
            self.end_offset += len(batches)
            return bool(batches)

    async def fetch(partition: PartitionId, offset: int) -> tuple[int, bytes]:
        asked.append((round(10 * loop.time()) - begun, offset))
        if len(asked) in (2, 5):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) if len(asked) == 2 else OSError("gone")
        assert len(asked) < 8, "it has all"
        return 0, b"" if len(asked) == 3 else b"xx"

    copied: Any = Copied()
    loop.run_until_complete(copy_missing([(copied, 8)], fetch, lambda _: False, lambda _: AtOnce()))
    assert asked == [(0, 0), (0, 2), (1, 2), (2, 2), (2, 4), (3, 4), (3, 6), (3, -1)]


async def test_a_disk_that_refuses_what_is_copied_ends_the_copy(tmp_path: Path) -> None:
    class Full:
        id, end_offset = ORDERS, 0

        def copy(self, start_offset: int, batches: bytes) -> bool:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    async def fetch(partition: PartitionId, offset: int) -> tuple[int, bytes]:
        return 0, b"x"

    full: Any = Full()
    with pytest.raises(KafkaError, match="no room"):
        await copy_missing([(full, 8)], fetch, lambda _: False, lambda _: None)
