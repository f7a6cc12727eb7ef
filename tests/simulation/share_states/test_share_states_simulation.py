"""What a share coordinator acknowledged is told to every later leader, whatever happens to it and to its log."""

import pytest
from tests.simulation.share_states.world import simulate

SEEDS = 5
MORE_SEEDS = 300
KEPT = 100_027
"""A late request begins in its old epoch again what was deleted."""


def test_what_was_acknowledged_is_told_from_what_is_left_of_the_log() -> None:
    outcomes = [simulate(seed) for seed in (*range(SEEDS), KEPT)]
    assert sum(outcome.fails for outcome in outcomes) > SEEDS
    assert sum(outcome.kills for outcome in outcomes) > SEEDS
    assert sum(outcome.begin > 0 for outcome in outcomes) > SEEDS // 2


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)
