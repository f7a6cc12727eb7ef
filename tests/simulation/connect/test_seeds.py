"""Connect's workers, killed, paused and cut off between any two steps: nothing is missing in the end."""

import pytest
from tests.simulation.connect.world import simulate


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_missing(seed: int) -> None:
    assert simulate(seed).violations == []


def test_a_seed_decides_everything() -> None:
    assert simulate(3, seconds=5).hash == simulate(3, seconds=5).hash
