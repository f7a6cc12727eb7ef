"""Storage groups move to other brokers and other disks, while nodes die, hang and are cut off."""

from __future__ import annotations

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import THREE, is_found_with, replicated_plan, seeds

from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.partitions.partition import Partition
from penstock.node.storage_groups.group import StorageGroup
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import NodePlan

SETTINGS = {
    "log.dirs": "/data,/data2,/data3",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
    "handover.commit.first": "true",
}
FIVE = (*THREE, NodePlan(4, "broker"), NodePlan(5, "broker"))
FAULTS = ("kill the leader", "power", "power all", "pause", "isolate", "cut", "a dead disk", "a new disk")


@pytest.mark.parametrize("scheme", soaked_after(1, ["2", "1", "3"]))
def test_nothing_acknowledged_is_lost_and_all_moves_end(scheme: str) -> None:
    settings = SETTINGS | {"storage.group.handover.scheme": scheme}
    plan = replicated_plan(*FAULTS, flushes_each=False, by_consensus=True, moves=True, settings=settings)
    outcome = simulate(int(scheme), plan=plan.replace(nodes=FIVE))
    assert outcome.violations == []
    assert outcome.acknowledged > 0


def test_a_node_that_leaves_and_comes_back_at_once_gets_the_vote_that_the_leader_has_for_it() -> None:
    """A group of one voter had a second one whose log was gone, and waited for it for ever."""
    faults = ("lost logs", "lost logs", "kill the leader", "power", "power all", "a new disk", "stop")
    settings = SETTINGS | {"storage.group.max.bytes.between.snapshots": "2000"}
    plan = replicated_plan(*faults, flushes_each=False, by_consensus=True, moves=True, settings=settings)
    assert simulate(1, plan=plan.replace(nodes=FIVE)).violations == []


def test_a_leader_that_answers_without_a_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageGroup, "can_be_read", StorageGroup.leads)
    plan = replicated_plan("isolate", "pause", by_consensus=True, producers=2)
    assert is_found_with(range(10), plan, "hold the lease of storage group")


@pytest.mark.soak
def test_a_broker_that_answers_because_the_metadata_name_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leader: property = vars(ConsensusPartition)["leader"]
    monkeypatch.setattr(ConsensusPartition, "leader", leader.getter(lambda it: it._named))
    monkeypatch.setattr(ConsensusPartition, "role", property(lambda it: it._named or it.follower))
    monkeypatch.setattr(ConsensusPartition, "check_leader", Partition.check_leader)
    plan = replicated_plan("isolate the leader", "isolate", by_consensus=True, producers=2)
    assert is_found_with(seeds(10, first=6), plan, "after somebody knew of")
