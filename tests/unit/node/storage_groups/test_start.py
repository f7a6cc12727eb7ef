from uuid import UUID

import pytest

from penstock.metadata.topics import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionImage
from penstock.node.storage_groups.start import first_voters, group_settings
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter

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
