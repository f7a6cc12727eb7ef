"""No two members of a consumer group read a partition, whatever happens, and all is read when it has stopped."""

import pytest
from tests.simulation.consumer_groups.simulate import simulate, simulate_both

SEEDS = 15
MORE_SEEDS = 300


def test_a_partition_has_one_reader_and_all_are_read_in_the_end() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(outcome.fails for outcome in outcomes) > SEEDS
    assert sum(outcome.kills for outcome in outcomes) > SEEDS


def test_so_it_is_in_a_group_that_goes_from_one_protocol_to_the_other_and_back() -> None:
    outcomes = [simulate_both(seed) for seed in range(SEEDS // 2)]
    assert sum(outcome.upgrades for outcome in outcomes) > SEEDS // 2
    assert sum(outcome.downgrades for outcome in outcomes) > SEEDS // 2


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)
        simulate_both(seed)
