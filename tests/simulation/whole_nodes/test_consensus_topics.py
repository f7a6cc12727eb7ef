"""Topics that a storage group replicates, on whole nodes: power cuts of all take nothing that was acknowledged."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.log.validation import AppendResult
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.testing.simulator import simulate

PLAN = replicated_plan(
    "power all", "kill the leader", "isolate the leader", flushes_each=False, by_consensus=True, producers=2
)
"""Nothing but the groups' logs is flushed."""


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []
    assert outcome.acknowledged > 0


def test_a_batch_that_is_acknowledged_before_a_majority_has_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = ConsensusPartition.append

    def without_waiting(partition: ConsensusPartition, batches: memoryview, **how: Any) -> AppendResult:
        return append(partition, batches, **how)._replace(last_offset=-1)

    monkeypatch.setattr(ConsensusPartition, "append", without_waiting)
    assert is_found_with(seeds(10, first=27), PLAN, "is gone", "was given to")
