"""Leaders whose disk is full give way to replicas in sync that have room, and producers go on; a leader that stays is
found."""

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import first_found, replicated_plan

from penstock.node.partitions.hand_over import PartitionHandOver
from penstock.node.partitions.in_sync_replicas import InSyncReplicas
from penstock.testing.simulator import simulate

SEEDS = range(4)
BALANCED = {
    "log.dirs": "/data,/data2",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
PLAN = replicated_plan("a full disk", settings=BALANCED, topics=3, producers=3, min_in_sync=1, seconds=30)


def test_leaders_give_way_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    begin = PartitionHandOver.__init__

    def note(self: PartitionHandOver, partition: Any, *rest: Any) -> None:
        begin(self, partition, *rest)
        if partition.log.health.is_full:
            given.append(str(partition))

    monkeypatch.setattr(PartitionHandOver, "__init__", note)
    for seed in SEEDS[:2]:
        outcome = simulate(seed, plan=PLAN)
        assert outcome.violations == []
        refused = [line for line in outcome.trace if "failed: " in line and "KAFKA_STORAGE_ERROR" in line]
        assert refused == [], "producers go on"
    assert given


def test_a_leader_that_keeps_what_it_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InSyncReplicas, "refused", lambda self, partition: None)
    assert "which it cannot write" in first_found(SEEDS, PLAN)
