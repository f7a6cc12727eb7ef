"""The id under which a replica votes: its directory's, unless it may have voted under that and has forgotten it."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.storage_groups.test_keeper import GROUP, GROUPS_ID, ME, OTHER, KeepingNode, keeping

from penstock.metadata.records import PartitionRecord
from penstock.node.storage_groups.replica_id import read_replica_id

HERE, ELSEWHERE = UUID(int=1), UUID(int=50)


async def id_after_a_start(path: Path, **fields: Any) -> UUID | None:
    """What is written in the place of the directory's id, where the metadata say so of the group."""
    node = KeepingNode(path)
    said: dict[str, Any] = {"replicas": [OTHER, ME], "leader_epoch": 3, "directories": [ELSEWHERE, HERE]} | fields
    said["directories"] = [node.directory_id if one == HERE else one for one in said["directories"]]
    group = PartitionRecord(partition_id=GROUP, topic_id=GROUPS_ID, isr=[OTHER], leader=-1, **said)
    for record in (*node.begin()[:-1], group):
        node.image.apply(record)
    try:
        await node.keeper.start()  # as far as it comes without the others
        await node.keeper.stop()
        (log,) = node.directories.logs.values()
        return read_replica_id(node.directories.open_files.disk, log.directory)
    finally:
        node.directories.close()


async def test_who_has_lost_its_log_where_it_may_have_voted_is_another_one(tmp_path: Path) -> None:
    """And stays that other one, though it still has nothing when it starts again."""
    drawn = await id_after_a_start(tmp_path)
    assert drawn is not None
    assert await id_after_a_start(tmp_path) == drawn


@pytest.mark.parametrize(
    "fields",
    [{"leader_epoch": 0}, {"adding_replicas": [ME]}, {"directories": [ELSEWHERE, ELSEWHERE]}],
    ids=["the group has not begun", "it is added", "it was on another disk"],
)
async def test_who_cannot_have_voted_there_is_its_directory(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert await id_after_a_start(tmp_path, **fields) is None


async def test_who_has_its_log_is_who_it_was(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        await node.replica()
    assert await id_after_a_start(tmp_path, replicas=[ME], directories=[HERE]) is None
