"""Transactions in whole nodes: what is promised holds, and bugs that are planted in their logs and groups are found."""

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, plan_of, replicated_plan, seeds

from penstock.coordinator.shards.groups import GroupShard
from penstock.coordinator.transaction.transaction import State, Transaction
from penstock.log.aborted_transactions import AbortedTransactions
from penstock.log.producer_state import Producers
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import TWO_PHASES, Plan

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "2",
}
ONLY: dict[str, Any] = {"transacting": 1, "producers": 0, "consumers": 0, "settings": SETTINGS}
LONELY = plan_of("kill", "kill in a call", "stop", **ONLY)
THREE = replicated_plan("kill", "kill the leader", "pause the leader", "isolate the leader", **ONLY)
PREPARED: dict[str, Any] = {**ONLY, "transacting": 0, "preparing": 1, "settings": SETTINGS | TWO_PHASES}
LONELY_PREPARED = plan_of("kill", "kill in a call", "stop", **PREPARED)
THREE_PREPARED = replicated_plan("kill", "kill the leader", "pause the leader", "isolate the leader", **PREPARED)
CONSENSUS = replicated_plan("kill", "kill the leader", "isolate the leader", by_consensus=True, **ONLY)


@pytest.mark.parametrize(
    ("seed", "plan"),
    [
        (0, LONELY),
        (1, LONELY),
        (0, THREE),
        (1, THREE),
        (1, CONSENSUS),
        (1, LONELY_PREPARED),
        pytest.param(0, THREE_PREPARED, marks=pytest.mark.soak),
    ],
)
def test_the_rules_hold(seed: int, plan: Plan) -> None:
    outcome = simulate(seed, plan=plan)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert any("is committed" in line for line in outcome.trace)


def test_a_last_stable_offset_that_moves_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark counts, whatever is open."""
    monkeypatch.setattr(Producers, "last_stable_offset", lambda self, high_watermark: high_watermark)
    assert is_found_with(seeds(20), LONELY, "was aborted, and")


def test_a_cut_that_takes_too_much_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a replay of the last segments does not say anew is forgotten."""
    cut_to = AbortedTransactions.cut_to

    def cut_all(self: AbortedTransactions, end_offset: int, base_offset: int) -> None:
        cut_to(self, 0, base_offset)

    monkeypatch.setattr(AbortedTransactions, "cut_to", cut_all)
    assert is_found_with(seeds(20, first=1), LONELY, "the abort at", "was aborted, and", "has committed its own")


def test_pending_offsets_that_the_next_coordinator_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupShard, "read_pending", lambda *_, **__: None)
    assert is_found_with(seeds(60, first=49), LONELY, "has committed its own")


def test_a_transaction_that_is_forgotten_when_its_log_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Producers.restore

    def restore_without(self: Producers, rows: Any) -> None:
        restore(self, [(*row[:-1], -1) for row in rows])

    monkeypatch.setattr(Producers, "restore", restore_without)
    assert is_found_with(seeds(40), LONELY, "the transaction of producer", "was aborted, and", "is missing")


def test_a_prepared_transaction_that_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """That its producer is one of two phases counts for nothing."""

    def deadline_ms(known: Transaction) -> int | None:
        return known.start_ms + min(known.timeout_ms, 5_000) if known.state is State.ONGOING else None

    monkeypatch.setattr(Transaction, "deadline_ms", property(deadline_ms))
    assert is_found_with(seeds(20, first=2), LONELY_PREPARED, "was prepared by")
