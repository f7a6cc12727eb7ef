"""Whole nodes and clients on virtual time: the rules hold for these seeds, and a seed says it all."""

import os
import subprocess
import sys

import pytest
from tests.simulation.soaked import soaked_after

from penstock.testing.simulator import simulate

SEEDS = [
    *soaked_after(8, ((seed, 1) for seed in range(100, 120))),
    *soaked_after(4, ((seed, 3) for seed in range(200, 220))),
    *soaked_after(1, ((seed, 5) for seed in range(300, 306))),
]
HARNESS = {
    (6013, 1): "a replica whose directory is offline may lose what was not flushed, as others may",
    (60006, 3): "replicas had compacted what it had not seen of a leader yet, as the controller was cut off",
    (60017, 3): "the same where a follower was looked at before its leader",
    (60020, 3): "a coordinator that was cut off and replaced may tell old offsets",
    (942758359, 3): "a member learned after a power cut what it had been given before",
    (2420694633, 3): "a replica had compacted what it cut off when power cuts had taken the leader's",
    (1476681646, 3): "outdated replicas had led and compacted before anybody looked",
    (1200412158, 3): "the last leader lost its power, and led again as the others had been killed",
    (2844931024, 3): "a log that it was the first to read began its indexes, and the node died of that",
    (2514099206, 3): "a follower that had copied a compacted log lost the newest of it with its power",
    (4209848885, 3): "an unclean election took a group's log, and its generations began anew",
    (60037, 3): "a replica was away for longer than tombstones stay, and keeps what was deleted",
}
"""Seeds in which the simulation itself was wrong."""


@pytest.mark.parametrize(("seed", "nodes"), [*SEEDS, *soaked_after(0, HARNESS)])
def test_the_rules_hold(seed: int, nodes: int) -> None:
    outcome = simulate(seed, nodes)
    replay = f"penstock simulate --seed {seed} --nodes {nodes} --trace\n"
    assert outcome.violations == [], replay + "\n".join(outcome.trace[-60:])
    assert outcome.acknowledged > 0


OTHER_CIRCUMSTANCES = """
import random, time
for clock in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"):
    setattr(time, clock, lambda: random.randrange(1 << 40))
memory = [object() if n % 3 else bytearray(random.randrange(1, 600)) for n in range(30_000)]
random.shuffle(memory)
del memory[::2]
"""
"""Clocks that are not the simulation's go wild, and new objects have addresses in no order."""


def hashes_of(*seeds: int, nodes: int, hash_seed: str, circumstances: str = "") -> list[str]:
    program = (
        f"from penstock.testing.simulator import simulate\n{circumstances}\n"
        f"print(*(simulate(seed, {nodes}).hash for seed in {seeds}))"
    )
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    return ran.stdout.split()


@pytest.mark.parametrize(("seed", "nodes"), [(100, 1), (20_002, 3), pytest.param(103, 5, marks=pytest.mark.soak)])
def test_a_seed_decides_everything(seed: int, nodes: int) -> None:
    (alone,) = hashes_of(seed, nodes=nodes, hash_seed="1")
    other, again = hashes_of(seed + 1000, seed, nodes=nodes, hash_seed="2", circumstances=OTHER_CIRCUMSTANCES)
    assert alone == again, "whatever ran before it, whenever, and wherever its objects lie"
    assert alone != other
