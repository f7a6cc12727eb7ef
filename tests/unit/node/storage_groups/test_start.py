from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionImage
from penstock.node.environment.context import NodeContext
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.start import LogsBeside, first_voters, group_settings
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId

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
        NEW._replace(directories=(DIRECTORIES[0], UNASSIGNED_DIRECTORY, DIRECTORIES[2])),
        NEW._replace(directories=(DIRECTORIES[0], DIRECTORIES[1], LOST_DIRECTORY)),
        NEW._replace(directories=()),
    ],
    ids=["led", "was led", "not assigned", "lost", "unknown"],
)
def test_nobody_votes_by_himself_in_a_group_that_has_begun_or_whose_disks_are_not_known(group: PartitionImage) -> None:
    assert first_voters(group) is None


def test_an_idle_group_fetches_seldom_but_is_never_reminded_and_never_late() -> None:
    for settings in (RaftSettings(), RaftSettings(fetch_timeout_ms=60_000, request_timeout_ms=600)):
        found = group_settings(settings)
        assert found.leases
        assert found.fetch_max_wait_ms < min(found.begin_epoch_interval_ms, found.request_timeout_ms)
    assert group_settings(RaftSettings()).fetch_max_wait_ms == 800


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
