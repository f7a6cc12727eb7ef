"""The id under which a replica votes: its directory's, unless it may have voted under that and has forgotten it."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG
from tests.unit.node.storage_groups.keeping import GROUP, GROUPS_ID, ME, OTHER, KeepingNode, keeping

from penstock.log.health import Health
from penstock.metadata.records import PartitionRecord
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups import start
from penstock.node.storage_groups.replica_id import read_replica_id, write_replica_id
from penstock.protocol.control.records import control_batch
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.raft.control import voters_record_of
from penstock.raft.effects import ElectionState
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.snapshot import encode_snapshot

HERE, ELSEWHERE = UUID(int=1), UUID(int=50)


async def id_after_a_start(
    path: Path, prepare: Callable[[KeepingNode], None] | None = None, **fields: Any
) -> UUID | None:
    """What is written in the place of the directory's id, where the metadata say so of the group."""
    node = KeepingNode(path)
    said: dict[str, Any] = {"replicas": [OTHER, ME], "leader_epoch": 3, "directories": [ELSEWHERE, HERE]} | fields
    said["directories"] = [node.directory_id if one == HERE else one for one in said["directories"]]
    group = PartitionRecord(partition_id=GROUP, topic_id=GROUPS_ID, isr=[OTHER], leader=-1, **said)
    for record in (*node.begin()[:-1], group):
        node.image.apply(record)
    if prepare is not None:
        prepare(node)
    try:
        await node.keeper.start()  # as far as it comes without the others
        await node.keeper.stop()
        (log,) = node.directories.logs.values()
        return read_replica_id(node.directories.open_files.disk, log.directory)
    finally:
        node.directories.close()


@pytest.mark.parametrize("adding", [[], [ME]], ids=["it was there", "it comes, perhaps back"])
async def test_who_has_no_log_where_it_may_have_voted_is_another_one(
    tmp_path: Path, adding: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """And stays that other one, though it still has nothing when it starts again."""
    drawn = await id_after_a_start(tmp_path, adding_replicas=adding)
    assert drawn is not None
    assert ("begins anew" in caplog.text) == (not adding)
    assert await id_after_a_start(tmp_path, adding_replicas=adding) == drawn


async def test_a_thread_of_its_disk_writes_another_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose disk was replaced has as many new replicas as it has groups, and each file is synced."""
    threads = list[int]()

    def noted(*given: Any) -> None:
        threads.append(threading.get_ident())
        write_replica_id(*given)

    monkeypatch.setattr(start, "write_replica_id", noted)
    assert await id_after_a_start(tmp_path) is not None
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.parametrize(
    "fields",
    [{"leader_epoch": 0}, {"directories": [ELSEWHERE, ELSEWHERE]}],
    ids=["the group has not begun", "it was on another disk"],
)
async def test_who_cannot_have_voted_there_is_its_directory(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert await id_after_a_start(tmp_path, **fields) is None


async def test_who_has_its_log_is_who_it_was(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        await node.replica()
    assert await id_after_a_start(tmp_path, replicas=[ME], directories=[HERE]) is None


async def test_a_group_that_is_younger_than_this_process_has_no_votes_to_forget(tmp_path: Path) -> None:
    def is_new(node: KeepingNode) -> None:
        node.keeper._new[GROUP] = None

    assert await id_after_a_start(tmp_path, is_new) is None


@pytest.mark.parametrize("has", ["a record", "a snapshot"])
async def test_who_has_some_of_its_log_has_forgotten_nothing(tmp_path: Path, has: str) -> None:
    def prepare(node: KeepingNode) -> None:
        log = node.directories.create(STORAGE_GROUPS, GROUP, GROUPS_ID, CONFIG)
        disk, voters = node.directories.open_files.disk, Quorum.of([Voter(ReplicaKey(ME, node.directory_id))])
        snapshots = StoredSnapshots(disk, log.directory, log.health)
        if has == "a record":
            batch = control_batch([voters_record_of(voters, 0)], base_offset=0, epoch=3)
            StoredLog(log, snapshots).append(batch)
            StateFile(disk, log.directory, log.health).write(ElectionState(3), voters)
        else:
            snapshots.write(SnapshotId(0, 0), encode_snapshot([], voters, epoch=0, now_ms=0))

    assert await id_after_a_start(tmp_path, prepare) is None


@pytest.mark.parametrize("is_full", [False, True])
def test_another_id_is_on_the_disk_before_any_other_node_hears_of_it(is_full: bool) -> None:
    written = list[tuple[str, bytes, bool]]()

    def replace_file(path: str, content: bytes, *, durable: bool = False) -> None:
        if is_full:
            raise OSError("no room")
        written.append((path, content, durable))

    disk: Any = SimpleNamespace(replace_file=replace_file)
    if is_full:
        with pytest.raises(KafkaError):
            write_replica_id(disk, "d", Health("d"), HERE)
    else:
        write_replica_id(disk, "d", Health("d"), HERE)
        assert [(path, durable) for path, _, durable in written] == [("d/replica-id", True)]
