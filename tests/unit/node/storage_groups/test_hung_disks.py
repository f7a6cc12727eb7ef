"""A storage group whose disk hangs: others are begun, claimed, shortened and ended meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.storage_groups.keeping import GROUP, GROUPS_ID, ME, OTHER, keeping
from tests.unit.node.storage_groups.test_keeper import orders
from tests.unit.node.turns import until

from penstock.metadata.records import PartitionRecord
from penstock.node.storage_groups import failed_replicas, keeper, start
from penstock.node.storage_groups.replica import GroupReplica
from penstock.raft.log_name import LogName


async def test_a_group_whose_disk_hangs_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on, begin = asyncio.Event(), asyncio.Event(), start.start_replica

    async def start_replica(name: LogName, *given: Any, **fields: Any) -> GroupReplica:
        if name.partition == GROUP + 1:
            hangs.set()
            await goes_on.wait()
        return await begin(name, *given, **fields)

    monkeypatch.setattr(keeper, "LOOK_S", 0)
    monkeypatch.setattr(failed_replicas, "RETRY_S", 0)
    monkeypatch.setattr(start, "start_replica", start_replica)
    async with keeping(tmp_path) as node:
        first = await node.replica()
        node.commit(
            PartitionRecord(
                partition_id=GROUP + 1, topic_id=GROUPS_ID, replicas=[ME], isr=[ME], leader=-1, leader_epoch=0,
                directories=[node.directory_id],
            )
        )  # fmt: skip
        await hangs.wait()
        assert node.keeper._count_offline() == 1
        assert (await node.claim()).group == GROUP
        node.commit(*orders())
        await until(lambda: first.group.partitions)
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: not node.groups.by_number)
        elsewhere = node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER)
        elsewhere.partition_id = GROUP + 1
        node.commit(elsewhere)
        goes_on.set()
        await until(lambda: not node.keeper._settling and not node.keeper._changed and not node.keeper._failed)
        assert node.groups.by_number == {}, "what came for it meanwhile was obeyed afterwards"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """One where each group hangs when it begins: that one does, and that it goes on."""
    hangs, goes_on, begin = asyncio.Event(), asyncio.Event(), start.start_replica

    async def start_replica(*given: Any, **fields: Any) -> GroupReplica:
        hangs.set()
        await goes_on.wait()
        return await begin(*given, **fields)

    monkeypatch.setattr(start, "start_replica", start_replica)
    return hangs, goes_on


async def test_a_start_waits_for_a_disk_that_hangs_no_longer_than_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: tuple[asyncio.Event, asyncio.Event]
) -> None:
    monkeypatch.setattr(keeper, "START_S", 0)
    async with keeping(tmp_path) as node:
        assert node.groups.by_number == {}
        disk[1].set()
        assert (await node.replica()).number == GROUP


async def test_a_stop_waits_for_threads_that_use_the_files_of_a_group_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: tuple[asyncio.Event, asyncio.Event]
) -> None:
    hangs, goes_on = disk
    monkeypatch.setattr(keeper, "START_S", 0)
    async with keeping(tmp_path) as node:
        await hangs.wait()
        stops = asyncio.create_task(node.keeper.stop())
        await asyncio.wait([stops], timeout=0.01)
        assert not stops.done()
        goes_on.set()
        await stops
        assert [one.is_running for one in node.groups.by_number.values()] == [False]
