"""Replicas move from one log directory of a node to another while they are written, and a crash changes nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from random import Random
from uuid import UUID

import click
import pytest
from tests.unit.log.failing_disk import FailingDisk
from tests.unit.log.logs import all_batches, append, batch
from tests.unit.node.test_offline_directories import TOPIC, Running, running

from penstock.cli.replicas.directory_moves import begin_moves, cancel_moves, show_moves
from penstock.cli.replicas.disk_balance import execute_plans, plans_of_disks, show_plans
from penstock.cli.replicas.planned_moves import Limits
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.values import TopicPartition
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions import moves
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

CONFIG = LogConfig(segment_bytes=300)
TOPIC_ID = UUID(int=9)
LIMITS = Limits(most_moves=50, tolerance=0.1, measure=0.001)


async def alter(world: Running, path: str, *partitions: int, topic: str = TOPIC) -> list[int]:
    asked = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))])
    response = await world.ask(AlterReplicaLogDirsRequest(dirs=[asked]), 2)
    return [row.error_code for result in response.results for row in result.partitions]


async def test_a_replica_moves_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "SLICE_BYTES", 400)
    async with running(tmp_path) as world:
        await world.create()
        moving, target = world.in_directory("p1")[0], str(tmp_path / "p2")
        partition = world.node.broker.partitions.get(TOPIC, moving)
        assert partition is not None
        for _ in range(20):
            assert await world.produce(moving) == ErrorCode.NONE
        assert await alter(world, target, moving) == [ErrorCode.NONE]
        count = 20
        while partition.log.parent != target:
            assert await world.produce(moving) == ErrorCode.NONE
            count += 1
        for _ in range(5):
            assert await world.produce(moving) == ErrorCode.NONE
        assert all_batches(partition.log) == [(offset, offset) for offset in range(count + 5)]
        assert (tmp_path / "p2" / f"{TOPIC}-{moving}").is_dir()
        assert not (tmp_path / "p1" / f"{TOPIC}-{moving}").exists()
        topic, there = (
            world.node.broker.image.topics[TOPIC],
            world.node.parts.context.directories.roots[target].directory_id,
        )
        await world.until(lambda: topic.partitions[moving].directory_of(1) == there)
    async with running(tmp_path) as world:
        assert moving in world.in_directory("p2")
        again = world.node.broker.partitions.get(TOPIC, moving)
        assert again is not None
        assert again.log.log_end_offset == count + 5


async def test_what_is_done_to_a_copy_waits_for_its_own_disk_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied, cut where the log began anew, and synced by threads of the directory to which it goes."""
    workers: dict[str, threading.Thread] = {}

    def noted(name: str) -> None:
        work = getattr(PartitionLog, name)

        def does(log: PartitionLog, *given: object, **how: object) -> object:
            if log.directory.endswith("-future"):
                workers.setdefault(name, threading.current_thread())
            return work(log, *given, **how)

        monkeypatch.setattr(PartitionLog, name, does)

    async with running(tmp_path, None, **{"replica.alter.log.dirs.io.max.bytes.per.second": "1"}) as world:
        await world.create()
        moving, target = world.in_directory("p1")[0], str(tmp_path / "p2")
        partition = world.node.broker.partitions.get(TOPIC, moving)
        assert partition is not None
        assert await world.produce(moving) == ErrorCode.NONE
        for name in ("append_as_follower", "truncate_fully_and_start_at", "flush", "close"):
            noted(name)
        assert await alter(world, target, moving) == [ErrorCode.NONE]
        await world.until(lambda: "append_as_follower" in workers)
        assert await world.produce(moving) == ErrorCode.NONE
        partition.log.advance_log_start(2)
        world.node.broker.moves._quota.bytes_per_s = 1 << 40
        await world.until(lambda: partition.log.parent == target)
        disk = world.node.parts.context.directories.roots[target].threads
        assert workers.keys() == {"append_as_follower", "truncate_fully_and_start_at", "flush", "close"}
        assert {name for name, one in workers.items() if one not in disk._threads} == set()


async def test_producers_wait_for_a_disk_that_hangs_where_the_copy_gets_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody else does."""
    rename, hangs, goes_on = Disk.rename, threading.Event(), threading.Event()

    def hanging(disk: Disk, source: str, target: str) -> None:
        if source.endswith("-future"):
            hangs.set()
            assert goes_on.wait(60)
        rename(disk, source, target)

    monkeypatch.setattr(Disk, "rename", hanging)
    async with running(tmp_path) as world:
        await world.create()
        (moving, *_), (other, *_), target = world.in_directory("p1"), world.in_directory("p2"), str(tmp_path / "p2")
        partition = world.node.broker.partitions.get(TOPIC, moving)
        assert partition is not None
        assert await world.produce(moving) == ErrorCode.NONE
        assert await alter(world, target, moving) == [ErrorCode.NONE]
        await world.until(hangs.is_set)
        waiting = asyncio.ensure_future(world.produce(moving))
        assert await world.produce(other) == ErrorCode.NONE
        rows = (await world.ask(DescribeLogDirsRequest(topics=None), 4)).results
        assert {row.error_code for row in rows} == {ErrorCode.NONE}
        assert not waiting.done()
        goes_on.set()
        assert await waiting == ErrorCode.NONE
        assert (partition.log.parent, all_batches(partition.log)) == (target, [(0, 0), (1, 1)])


async def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.create(1)
        assert await alter(world, "/elsewhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await alter(world, str(tmp_path / "p2"), 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        (here,) = [name for name in ("p1", "p2") if world.in_directory(name)]
        assert await alter(world, str(tmp_path / here), 0) == [ErrorCode.NONE], "it lies there"
        assert not world.node.broker.moves._wanted


async def test_a_move_back_home_drops_the_copy(tmp_path: Path) -> None:
    settings = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}
    async with running(tmp_path, None, **settings) as world:
        await world.create()
        moving = world.in_directory("p1")[0]
        assert await world.produce(moving) == ErrorCode.NONE
        assert await alter(world, str(tmp_path / "p2"), moving) == [ErrorCode.NONE]
        await world.until(lambda: (TOPIC, moving) in world.node.parts.context.directories.futures)
        described = await world.ask(DescribeLogDirsRequest(topics=None), 4)
        rows = [row for found in described.results for topic in found.topics for row in topic.partitions]
        assert any(row.is_future_key and row.partition_index == moving for row in rows)
        assert await alter(world, str(tmp_path / "p1"), moving) == [ErrorCode.NONE]
        await world.node.broker.moves.stop()  # it sleeps for the throttle
        for key in list(world.node.broker.moves._unwanted):
            await world.node.broker.moves._drop(key)
        assert world.node.parts.context.directories.futures == {}


async def test_a_move_that_is_called_back_while_its_copy_is_flushed_is_not_swapped_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushing, goes_on = threading.Event(), threading.Event()
    flush = PartitionLog.flush

    def flush_late(log: PartitionLog) -> None:
        if log.directory.endswith("-future"):
            flushing.set()
            goes_on.wait(60)
        flush(log)

    monkeypatch.setattr(PartitionLog, "flush", flush_late)
    async with running(tmp_path) as world:
        await world.create()
        moving = world.in_directory("p1")[0]
        assert await world.produce(moving) == ErrorCode.NONE
        assert await alter(world, str(tmp_path / "p2"), moving) == [ErrorCode.NONE]
        await world.until(flushing.is_set)
        assert await alter(world, str(tmp_path / "p1"), moving) == [ErrorCode.NONE]
        goes_on.set()
        await world.until(lambda: not world.node.parts.context.directories.futures)
        assert moving in world.in_directory("p1")
        assert moving not in world.in_directory("p2")


async def test_a_move_waits_for_its_limit_and_heeds_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "SLICE_BYTES", 100)
    monkeypatch.setattr(moves, "THROTTLE_S", 0.01)
    limit = "replica.alter.log.dirs.io.max.bytes.per.second"
    async with running(tmp_path, None, **{limit: "0"}) as world:
        await world.create()
        moving, target = world.in_directory("p1")[0], str(tmp_path / "p2")
        for _ in range(5):
            assert await world.produce(moving) == ErrorCode.NONE
        assert await alter(world, target, moving) == [ErrorCode.NONE]
        futures = world.node.parts.context.directories.futures
        await world.until(lambda: (TOPIC, moving) in futures and futures[TOPIC, moving].log_end_offset > 0)
        assert futures[TOPIC, moving].log_end_offset == 1, "one slice overshoots, then it waits"
        async with Admin(world.bootstrap) as admin:
            await admin.configs.alter(ResourceType.BROKER, "1", [ConfigChange(limit, ConfigOperation.SET, "1000000")])
        await world.until(lambda: moving in world.in_directory("p2"))


async def test_the_command_begins_moves_and_shows_how_far_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path) as world:
        await world.create()
        partition = TopicPartition(TOPIC, world.in_directory("p1")[0])
        wanted = {(partition, 1): str(tmp_path / "p2")}
        async with Admin(world.bootstrap) as admin:
            await show_moves(admin, wanted)
            await begin_moves(admin, wanted)
            await world.until(lambda: partition.partition in world.in_directory("p2"))
            await show_moves(admin, wanted)
            with pytest.raises(click.ClickException, match=f"{partition}-1: LOG_DIR_NOT_FOUND"):
                await begin_moves(admin, {(partition, 1): "/nowhere"})
    assert capsys.readouterr().out.splitlines() == [
        f"Partition {partition} on broker 1 is not being moved from log dir {tmp_path / 'p1'}.",
        f"Successfully started log directory move for: {partition}-1",
        f"Reassignment of replica {partition}-1 completed successfully.",
    ]


async def test_the_command_calls_moves_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "THROTTLE_S", 0.01)
    async with running(tmp_path, None, **{"replica.alter.log.dirs.io.max.bytes.per.second": "0"}) as world:
        await world.create()
        partition = TopicPartition(TOPIC, world.in_directory("p1")[0])
        wanted = {(partition, 1): str(tmp_path / "p2")}
        assert await world.produce(partition.partition) == ErrorCode.NONE
        async with Admin(world.bootstrap) as admin:
            await cancel_moves(admin, wanted, 1_000)
            assert capsys.readouterr().out == "None of the specified partition moves are active.\n"
            await begin_moves(admin, wanted)
            futures = world.node.parts.context.directories.futures
            await world.until(lambda: (TOPIC, partition.partition) in futures)
            assert await show_moves(admin, wanted)
            await cancel_moves(admin, wanted, 1_000)
            await world.until(lambda: not futures)
            assert not await show_moves(admin, wanted)
        assert partition.partition in world.in_directory("p1")


async def test_the_command_spreads_replicas_over_the_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path) as world:
        await world.create()
        async with Admin(world.bootstrap) as admin:
            everything = {(TopicPartition(TOPIC, index), 1): str(tmp_path / "p2") for index in range(4)}
            await begin_moves(admin, everything)
            await world.until(lambda: world.in_directory("p2") == [0, 1, 2, 3])
            assert [await world.produce(index) for index in range(4)] == [ErrorCode.NONE] * 4
            plans = await plans_of_disks(admin, LIMITS)
            show_plans(plans, as_json=True)
            told = json.loads(capsys.readouterr().out.partition("\n")[2])
            assert [(row["from"], row["to"]) for row in told["moves"]] == [
                (str(tmp_path / "p2"), str(tmp_path / "p1"))
            ] * 2
            assert [row["replica_bytes_planned"] for row in told["disks"]] == [
                told["disks"][1]["replica_bytes"] // 2
            ] * 2
            await execute_plans(admin, plans)
            await world.until(lambda: len(world.in_directory("p1")) == len(world.in_directory("p2")) == 2)
            nowhere = plans[0].replace(moves=[it.replace(taker="/nowhere") for it in plans[0].moves])
            with pytest.raises(click.ClickException, match=f"{TOPIC}-[0-3] on broker 1: LOG_DIR_NOT_FOUND"):
                await execute_plans(admin, [nowhere])
            (plan,) = await plans_of_disks(admin, LIMITS)
            assert (plan.moves, plan.left) == ([], [])


async def test_no_plan_is_made_while_replicas_move_between_directories(tmp_path: Path) -> None:
    async with running(tmp_path, None, **{"replica.alter.log.dirs.io.max.bytes.per.second": "0"}) as world:
        await world.create()
        partition = TopicPartition(TOPIC, world.in_directory("p1")[0])
        assert await world.produce(partition.partition) == ErrorCode.NONE
        async with Admin(world.bootstrap) as admin:
            await begin_moves(admin, {(partition, 1): str(tmp_path / "p2")})
            await world.until(lambda: world.node.parts.context.directories.futures)
            with pytest.raises(click.ClickException, match="on their way to other directories already"):
                await plans_of_disks(admin, LIMITS)
            await begin_moves(admin, {(partition, 1): str(tmp_path / "p1")})


# the swap, and a crash in it


def opened(tmp_path: Path, disk: FailingDisk | None = None) -> LogDirectories:
    paths = [str(tmp_path / "p1"), str(tmp_path / "p2")]
    directories = LogDirectories(paths, node_id=1, random=Random(1), disk=disk or FailingDisk())
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    return directories


def test_a_disk_that_cannot_be_read_is_an_error_of_one_move(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = opened(tmp_path, disk)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(1))
    future = directories.create_future(log, str(tmp_path / "p2"), 0, TOPIC_ID)
    found = moves._next_slice(log, future)
    assert found is not None
    disk.fail("read", "p1/")
    with pytest.raises(KafkaError) as refused:
        moves._grow(future, log.bytes_of(found), log.log_end_offset)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def with_a_copy(tmp_path: Path, disk: FailingDisk | None = None) -> LogDirectories:
    directories = opened(tmp_path, disk)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    for _ in range(9):
        append(log, batch(1))
    future = directories.create_future(log, str(tmp_path / "p2"), 0, TOPIC_ID)
    while (found := moves._next_slice(log, future)) is not None:
        moves._grow(future, log.bytes_of(found), log.log_end_offset)
    future.close()
    return directories


def test_a_copy_takes_the_place_of_the_log(tmp_path: Path) -> None:
    directories = with_a_copy(tmp_path)
    log = directories.logs["t", 0]
    directories.swapped(log, directories.swap(log), 0)
    assert log.parent == str(tmp_path / "p2")
    assert append(log, batch(1)) == 9
    directories.abandon()
    again = opened(tmp_path)
    assert len(all_batches(again.logs["t", 0])) == 10
    assert again.logs["t", 0].topic_id == TOPIC_ID


def test_a_swap_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = with_a_copy(tmp_path, disk)
    disk.fail("rename", "-future", always=True)
    disk.fail("rename", "-delete", always=True)
    with pytest.raises(KafkaError):
        directories.swapped(directories.logs["t", 0], directories.swap(directories.logs["t", 0]), 0)
    directories.abandon()
    assert [path.name[:4] for path in (tmp_path / "p1").glob("t-0*")] == ["t-0."]
    again = opened(tmp_path)
    assert again.logs["t", 0].parent == str(tmp_path / "p2")
    assert len(all_batches(again.logs["t", 0])) == 9
    assert again.futures == {}


def test_a_copy_that_cannot_be_renamed_leaves_the_log_where_it_was(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = with_a_copy(tmp_path, disk)
    disk.fail("rename", "-future")
    log = directories.logs["t", 0]
    with pytest.raises(KafkaError):
        directories.swapped(log, directories.swap(log), 0)
    assert log.parent == str(tmp_path / "p1")
    assert append(log, batch(1)) == 9
    assert [directory.path for directory in directories.roots.offline] == [str(tmp_path / "p2")]


def test_a_copy_whose_log_is_gone_is_no_log(tmp_path: Path) -> None:
    directories = with_a_copy(tmp_path)
    directories.delete(directories.logs["t", 0], 0)
    directories.abandon()
    again = opened(tmp_path)
    assert again.logs == {}
    path = Path(again.set_future_aside(("t", 0)))
    assert path.is_dir()
    assert path.name.endswith("-stray")
    assert again.futures == {}


def test_a_copy_is_cut_where_its_log_was_cut(tmp_path: Path) -> None:
    directories = with_a_copy(tmp_path)
    log, future = directories.logs["t", 0], directories.futures["t", 0]
    log.truncate_to(4)
    for _ in range(7):
        append(log, batch(1), epoch=3)
    log.advance_log_start(2)
    while (cut := moves._cut(log, future)) is not None:
        cut()
    while (found := moves._next_slice(log, future)) is not None:
        moves._grow(future, log.bytes_of(found), log.log_end_offset)
    while (cut := moves._cut(log, future)) is not None:
        cut()
    assert all_batches(future) == all_batches(log)
    assert future.leader_epochs.entries == log.leader_epochs.entries


def test_a_replica_is_made_where_it_was_to_move_before_it_was_here(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    directories.preferred["t", 0] = str(tmp_path / "p2")
    assert directories.create("t", 0, TOPIC_ID, CONFIG).parent == str(tmp_path / "p2")


async def test_a_move_that_fails_by_our_own_fault_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_future = LogDirectories.create_future

    def fail_first(
        directories: LogDirectories, log: PartitionLog, path: str, begin: int, topic_id: UUID
    ) -> PartitionLog:
        monkeypatch.setattr(LogDirectories, "create_future", create_future)
        raise ZeroDivisionError

    monkeypatch.setattr(LogDirectories, "create_future", fail_first)
    async with running(tmp_path) as world:
        await world.create()
        target, (first, second, *_) = str(tmp_path / "p2"), world.in_directory("p1")
        assert await alter(world, target, first) == [ErrorCode.NONE]
        await world.until(lambda: "does not move" in caplog.text)
        assert await alter(world, target, second) == [ErrorCode.NONE]
        await world.until(lambda: second in world.in_directory("p2"))
        assert first in world.in_directory("p1")
