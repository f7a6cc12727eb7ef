"""What coordinators of transactions decide is carried out exactly, whatever happens in between, from seeds."""

from __future__ import annotations

import pytest
from tests.simulation.transactions.simulate import simulate

SEEDS = 40


@pytest.mark.parametrize("version", [0, 1, 2])
def test_transactions_are_whole_and_zombies_fenced(version: int) -> None:
    for seed in range(SEEDS):
        outcome = simulate(seed, version)
        assert outcome.told_committed or outcome.told_aborted


def test_what_is_prepared_ends_as_it_was_decided_elsewhere() -> None:
    worlds = [simulate(2_000 + seed, 2, two_phases=True) for seed in range(SEEDS)]
    assert sum(world.carried_out for world in worlds) >= SEEDS // 2


def test_the_version_changes_while_producers_run() -> None:
    for seed in range(SEEDS):
        simulate(1_000 + seed, 1, changes=True)
        simulate(3_000 + seed, 2, changes=True, two_phases=True)
