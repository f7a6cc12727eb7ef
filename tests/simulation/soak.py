"""New seeds of the machines alone: `python -m tests.simulation.soak MINUTES`, until one fails."""

import sys
import time
from collections.abc import Callable
from random import SystemRandom

from tests.simulation import controller_world, replication_world, simulate
from tests.simulation.delayed import group_world as delayed_group_world
from tests.simulation.delayed import world as delayed_world
from tests.simulation.transactions.simulate import simulate as simulate_transactions

WORLDS: dict[str, Callable[[int], object]] = {
    "replication": replication_world.simulate,
    "the controller": controller_world.simulate,
    "records that wait": delayed_world.simulate,
    "records that wait in a storage group": delayed_group_world.simulate,
    "the consensus": simulate.simulate,
    "transactions": lambda seed: simulate_transactions(seed, seed % 3, changes=seed % 2 == 1),
}
AT_ONCE = 100


def main() -> None:
    end = time.monotonic() + 60 * float(sys.argv[1])
    done = dict.fromkeys(WORLDS, 0)
    while time.monotonic() < end:
        for name, world in WORLDS.items():
            for _ in range(AT_ONCE):
                world(SystemRandom().randrange(1 << 32))
            done[name] += AT_ONCE
    print(", ".join(f"{count} seeds of {name}" for name, count in done.items()), "and nothing is wrong")


if __name__ == "__main__":
    main()
