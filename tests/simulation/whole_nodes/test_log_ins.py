"""Whole nodes at which everybody has to log in, nodes included, and again every two seconds: the same rules hold."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation.soaked import soaked_after

from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import LOG_INS, draw


@pytest.mark.parametrize(("seed", "nodes"), soaked_after(1, [(4, 3), (5, 5)]))
def test_the_rules_hold(seed: int, nodes: int) -> None:
    plan = draw(Random(seed), nodes)
    outcome = simulate(seed, plan=plan.replace(settings=plan.settings | LOG_INS))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.acknowledged > 0
