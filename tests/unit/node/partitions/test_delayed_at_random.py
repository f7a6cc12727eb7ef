"""Short histories of the simulations of records that wait: once, not early, in order, and none is lost."""

import pytest
from tests.simulation.delayed import group_world, world


@pytest.mark.parametrize("seed", range(4))
def test_a_leader_delivers_what_waits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(world, "EVENTS", 150)
    assert world.simulate(1_000 + seed).epochs


@pytest.mark.parametrize("seed", range(2))
def test_a_leader_within_a_storage_group_does(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(world, "EVENTS", 150)
    assert group_world.simulate(1_000 + seed).epochs
