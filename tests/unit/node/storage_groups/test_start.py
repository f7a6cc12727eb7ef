from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.storage_groups.keeping import keeping

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.log.health import Health
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionImage
from penstock.node.environment.context import NodeContext
from penstock.node.quorum.state_file import QuorumStateError
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups import start
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.start import (
    GROUP_LOG,
    DamagedGroupLogError,
    LogsBeside,
    first_voters,
    group_settings,
)
from penstock.protocol.records import iterate_batches
from penstock.raft.control import quorums_in
from penstock.raft.effects import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.snapshot import encode_snapshot

DIRECTORIES = (UUID(int=1001), UUID(int=1002), UUID(int=1003))
NEW = PartitionImage(-1, 0, 0, (3, 1, 2), (3, 1, 2), DIRECTORIES)


def test_a_group_that_has_not_begun_is_voted_by_the_disks_of_its_replicas() -> None:
    keys = [ReplicaKey(3, DIRECTORIES[0]), ReplicaKey(1, DIRECTORIES[1]), ReplicaKey(2, DIRECTORIES[2])]
    assert first_voters(NEW) == Quorum.of(map(Voter, keys))


@pytest.mark.parametrize(
    "group",
    [
        NEW._replace(leader=3, leader_epoch=1),
        NEW._replace(leader_epoch=2),
        NEW._replace(leader_epoch=1),
        NEW._replace(leader=3),
        NEW._replace(directories=(DIRECTORIES[0], UNASSIGNED_DIRECTORY, DIRECTORIES[2])),
        NEW._replace(directories=(DIRECTORIES[0], DIRECTORIES[1], LOST_DIRECTORY)),
        NEW._replace(directories=()),
    ],
    ids=["led", "was led", "was led once", "is led", "not assigned", "lost", "unknown"],
)
def test_nobody_votes_by_himself_in_a_group_that_has_begun_or_whose_disks_are_not_known(group: PartitionImage) -> None:
    assert first_voters(group) is None


def test_an_idle_group_fetches_seldom_but_is_never_reminded_and_never_late() -> None:
    for settings in (RaftSettings(), RaftSettings(fetch_timeout_ms=60_000, request_timeout_ms=600)):
        found = group_settings(settings)
        assert found.leases
        assert not found.auto_join, "the metadata say who votes"
        assert found.fetch_max_wait_ms < min(found.begin_epoch_interval_ms, found.request_timeout_ms)
    assert group_settings(RaftSettings()).fetch_max_wait_ms == 800
    assert group_settings(RaftSettings(fetch_timeout_ms=60_000, request_timeout_ms=600)).fetch_max_wait_ms == 480


def test_the_logs_of_partitions_lie_beside_their_groups_own(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.mkdir()
    directories = LogDirectories(list(map(str, paths)), node_id=1, random=Random(1), cluster_id="test")
    directories.open_all(lambda topic: LogConfig())
    directories.begin()
    context = cast("NodeContext", SimpleNamespace(directories=directories, image=ClusterImage(), now_ms=lambda: 0))
    own = directories.create("__storage_group", 0, UUID(int=1), LogConfig())
    logs = LogsBeside(PartitionLogs(context, lambda _: LogConfig()), directories.id_of(own))
    partitions = [logs.open(PartitionId(UUID(int=2), number), "orders") for number in range(6)]
    assert {log.parent for log in partitions} == {own.parent}
    directories.close()


def test_a_groups_log_keeps_all_until_a_snapshot_stands_for_it() -> None:
    assert LogConfig(segment_bytes=16 << 20, retention_ms=-1, cleanup_policy=frozenset()) == GROUP_LOG


@pytest.mark.parametrize("has_voters", [True, False])
@pytest.mark.parametrize("has_snapshot", [True, False])
@pytest.mark.parametrize("has_log", [True, False])
def test_the_voters_are_written_where_there_is_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_voters: bool, has_snapshot: bool, has_log: bool
) -> None:
    """At the very beginning of the group's log, before its first epoch."""
    disk, log = Disk(), cast("Any", SimpleNamespace(directory=str(tmp_path), health=Health(str(tmp_path))))
    log.log_end_offset = int(has_log)
    monkeypatch.setattr(start, "StoredLog", lambda *_: None)
    voters, before = Quorum.of([Voter(ReplicaKey(1))]), SnapshotId(0, 5)
    if has_snapshot:
        StoredSnapshots(disk, str(tmp_path), log.health).write(before, encode_snapshot([], voters, epoch=5, now_ms=0))
    snapshots, _ = start._open(disk, log, voters if has_voters else None, 7)
    is_first = has_voters and not has_snapshot and not has_log
    assert len(list(tmp_path.glob("*.checkpoint"))) == int(is_first or has_snapshot)
    assert snapshots.latest == (SnapshotId(0, 0) if is_first else before if has_snapshot else None)
    if is_first:
        content = snapshots.load(SnapshotId(0, 0))
        assert {header.partition_leader_epoch for _, header in iterate_batches(content)} == {0}
        assert [quorum for _, quorum in quorums_in(content, Quorum())][-1] == voters


@pytest.mark.parametrize(
    ("end_offset", "state", "is_damaged"),
    [
        (0, ElectionState(), False),
        (1, ElectionState(), True),
        (1, ElectionState(1), False),
        (0, ElectionState(1), False),
        (1, QuorumStateError("torn"), True),
    ],
)
def test_who_may_have_voted_and_has_no_vote_is_damaged(
    end_offset: int, state: ElectionState | Exception, is_damaged: bool
) -> None:
    def read() -> ElectionState:
        if isinstance(state, Exception):
            raise state
        return state

    log: Any = SimpleNamespace(log_end_offset=end_offset, directory="/disk/log")
    file: Any = SimpleNamespace(read=read, path="/disk/log/quorum-state")
    if is_damaged:
        with pytest.raises(DamagedGroupLogError, match=r"(torn|could vote twice).* move /disk/log away"):
            start._check_votes(log, file)
    else:
        start._check_votes(log, file)


async def test_a_group_whose_disks_config_was_another_one_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a replica that begins asks around who leads."""
    looked = list[bool]()
    look = Raft.look_around

    def looks(raft: Raft) -> Any:
        looked.append(True)
        return look(raft)

    monkeypatch.setattr(Raft, "look_around", looks)
    for number in (1, 2):
        async with keeping(tmp_path) as node:
            replica = await node.replica()
            assert replica.own_log.config is GROUP_LOG
            assert len(looked) == number


async def test_a_replica_whose_vote_is_gone_takes_no_part(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with keeping(tmp_path) as node:
        state = Path((await node.replica()).own_log.directory) / "quorum-state"
    state.unlink()
    async with keeping(tmp_path) as node:
        assert node.groups.by_number == {}
    assert "could vote twice" in caplog.text
