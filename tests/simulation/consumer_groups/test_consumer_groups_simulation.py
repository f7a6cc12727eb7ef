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


@pytest.mark.parametrize("seed", [79, 362])
def test_who_was_put_out_on_the_way_to_a_target_does_not_come_there(seed: int) -> None:
    simulate(seed)


def test_an_assignment_that_was_taken_back_is_followed_no_more() -> None:
    simulate(34)


def test_a_target_that_was_taken_back_is_not_what_a_member_had() -> None:
    simulate_both(481)


def test_an_epoch_ends_though_a_write_fails_by_which_a_member_went_from_its_target() -> None:
    simulate(730_016)


def test_who_was_replaced_twice_before_it_was_written_is_not_told_to_have_gone() -> None:
    simulate_both(801_056)


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)
        simulate_both(seed)
