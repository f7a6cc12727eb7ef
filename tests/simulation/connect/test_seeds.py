"""Connect's workers, killed, paused and cut off between any two steps: nothing is missing in the end."""

import gc

import pytest
from tests.simulation.connect.world import World, simulate
from tests.simulation.soaked import soaked_after


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_missing(seed: int) -> None:
    assert simulate(seed).violations == []


@pytest.mark.parametrize("seed", soaked_after(1, range(40)))
def test_rows_come_once_from_sources_that_write_transactions(seed: int) -> None:
    outcome = simulate(seed, is_exact=True)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])


def test_a_seed_decides_everything() -> None:
    assert simulate(3, seconds=5).hash == simulate(3, seconds=5).hash


def test_a_world_that_is_over_leaves_nothing_behind() -> None:
    """What is left of it would run its last code at any time later, beside another world or as Python ends."""
    simulate(4)
    assert not [one for one in gc.get_objects() if type(one) is World]
