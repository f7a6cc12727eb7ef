"""No task of a streams group is active twice, whatever happens, and all tasks run when it has stopped."""

import pytest
from tests.simulation.streams_groups.simulate import simulate

SEEDS = 8
MORE_SEEDS = 400


def test_a_task_is_active_once_and_all_are_run_in_the_end() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(outcome.fails for outcome in outcomes) > SEEDS
    assert sum(outcome.kills for outcome in outcomes) > SEEDS
    assert sum(outcome.made for outcome in outcomes) > 2 * SEEDS


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)
