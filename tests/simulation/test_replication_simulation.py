"""Replication alone under thousands of events: who leads, who is in sync, what is committed, and what is cut."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.simulation import replication_planted as planted
from tests.simulation.every_python import told_in_every_python
from tests.simulation.replication_world import SimulationError, simulate
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import FOUND, seeds

Bug = Callable[[pytest.MonkeyPatch], None]
ROOT = Path(__file__).resolve().parents[2]
SEEDS = 300
CHUNK = 100
PLANTED: dict[Bug, Sequence[int]] = {
    planted.high_watermark_of_the_committed_isr: seeds(100, first=10),
    planted.in_sync_before_the_start_of_the_epoch: seeds(100, first=12),
    planted.cut_to_the_high_watermark: seeds(100, first=2),
    planted.divergence_is_not_cut: seeds(100, first=8),
    planted.old_broker_epochs_accepted: [1045, *range(1000, 1100)],
    planted.unclean_without_leave: seeds(100, first=1),
    planted.refusal_before_the_answer: seeds(100, first=13),
    planted.high_watermark_goes_back: seeds(100),
    planted.committed_by_too_few: seeds(100),
    planted.held_back_until_in_sync: seeds(100, first=2),
}
"""In one of these seeds the bug must be found."""


def search(tried: Sequence[int]) -> None:
    for seed in tried:
        simulate(seed)


@pytest.mark.parametrize("first", soaked_after(1, range(0, SEEDS, CHUNK)))
def test_seeds(first: int) -> None:
    outcomes = [simulate(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * CHUNK, "hardly anything is acknowledged"
    assert sum(outcome.epochs for outcome in outcomes) > 2 * CHUNK, "there are hardly any elections"


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=FOUND):
        search(PLANTED[bug])


def test_a_seed_is_the_same_in_every_python() -> None:
    """The order of sets of strings changes with each start of Python; nothing may depend on it."""
    script = "from tests.simulation.replication_world import simulate; print([simulate(seed) for seed in range(5)])"
    assert told_in_every_python(script).count(b"trace_hash") == 5
