"""A storage group on virtual time, with crashes, power cuts and cut links: what clients see is linearizable."""

import os
import subprocess
import sys

import pytest
from tests.simulation.storage_groups.world import simulate

SEEDS = range(12)
KEPT = {3: ("power",), 24: ("power", "slow sync")}
"""Seeds that find a bug of `tests/planted`, and the faults with which they do."""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_hold(seed: int) -> None:
    outcome = simulate(seed, seconds=10)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.answered > 20
    assert outcome.forgotten > 0, "the partitions' logs have taken the place of the group's"


@pytest.mark.parametrize("seed", KEPT)
def test_the_rules_hold_where_a_bug_was_found(seed: int) -> None:
    outcome = simulate(seed, faults=KEPT[seed], seconds=10)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])


def test_replicas_copy_what_the_group_has_forgotten() -> None:
    assert any(simulate(seed, faults=("power", "cut"), seconds=10).copied for seed in SEEDS)


def test_voters_change() -> None:
    assert any(simulate(seed, faults=("kill",), seconds=5).changes for seed in SEEDS)


def test_appends_are_collected_while_they_linger() -> None:
    assert any(simulate(seed, faults=(), seconds=1).entries_per_proposal > 1.5 for seed in SEEDS)


def test_a_seed_decides_everything() -> None:
    first = hash_of(1, "1")
    assert first == hash_of(1, "2")
    assert first != hash_of(1001, "1")


def hash_of(seed: int, hash_seed: str) -> str:
    program = (
        "from tests.simulation.storage_groups.world import simulate\n"
        f"print(simulate({seed}, faults=('power of all', 'cut'), seconds=4).hash)"
    )
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    return ran.stdout
