"""Which replica a consumer reads from instead of the leader."""

from __future__ import annotations

import pytest

from penstock.replication.committed import Committed
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.read_replica import NO_REPLICA, nearest_replica

NEAR = frozenset((2, 3, 4))


@pytest.fixture
def leader() -> PartitionLeader:
    """Node 1 leads; 2 and 3, which are near, and 5 are in sync, 4 is near and is not. Their logs begin at 20."""
    leader = PartitionLeader(
        1, 4, 0, (1, 2, 3, 4, 5), (1, 2, 3, 5), log_end_offset=100, committed=Committed(50), now_ms=0
    )
    for replica, end in ((2, 60), (3, 80), (4, 100), (5, 100)):
        leader.on_fetched(replica, end, 77, 1, log_start_offset=20)
    return leader


@pytest.mark.parametrize(
    ("offset", "replica"), [(19, NO_REPLICA), (20, 3), (60, 3), (61, 3), (80, 3), (81, NO_REPLICA)]
)
def test_it_is_near_in_sync_and_has_the_offset(leader: PartitionLeader, offset: int, replica: int) -> None:
    assert nearest_replica(leader, offset, NEAR.__contains__) == replica


def test_of_those_that_are_as_far_the_one_that_was_heard_last_is_taken(leader: PartitionLeader) -> None:
    leader.on_fetched(2, 100, 77, 3, log_start_offset=20)
    leader.on_fetched(3, 100, 77, 2, log_start_offset=20)
    assert nearest_replica(leader, 50, NEAR.__contains__) == 2


def test_nobody_is_nearer_than_a_leader_that_is_near(leader: PartitionLeader) -> None:
    assert nearest_replica(leader, 50, lambda broker_id: broker_id in (1, 2)) == NO_REPLICA


def test_no_replica_is_what_the_protocol_says_of_none() -> None:
    assert NO_REPLICA == -1
