"""A storage group whose disk hangs: others are begun, claimed, shortened and ended meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.storage_groups.test_keeper import GROUP, GROUPS_ID, ME, OTHER, keeping, orders

from penstock.metadata.records import PartitionRecord
from penstock.node.storage_groups import keeper, start
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
        while not first.group.partitions:
            await asyncio.sleep(0)
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        while node.groups.by_number:
            await asyncio.sleep(0)
        elsewhere = node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER)
        elsewhere.partition_id = GROUP + 1
        node.commit(elsewhere)
        goes_on.set()
        while node.keeper._settling or node.keeper._changed:
            await asyncio.sleep(0)
        assert node.groups.by_number == {}, "what came for it meanwhile was obeyed afterwards"
