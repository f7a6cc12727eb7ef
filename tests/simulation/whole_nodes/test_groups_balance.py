"""Storage groups that come back to who should lead them are handed over, while nodes die and lose their power."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import replicated_plan

from penstock.leadership.transfer import Effect
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.testing.simulator import simulate

BALANCED = {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}
PLAN = replicated_plan(
    "kill the leader", "power", flushes_each=False, by_consensus=True, producers=2, settings=BALANCED
)
SEEDS = range(3)


def test_nothing_acknowledged_is_lost_and_all_lead_what_they_should_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    effects: list[Effect] = []
    do = StorageGroupHandOver._do

    def note(self: StorageGroupHandOver, wanted: Any) -> None:
        effects.extend(wanted)
        do(self, wanted)

    monkeypatch.setattr(StorageGroupHandOver, "_do", note)
    assert [violation for seed in SEEDS for violation in simulate(seed, plan=PLAN).violations] == []
    assert Effect.FORWARD in effects
