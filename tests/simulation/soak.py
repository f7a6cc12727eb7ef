"""New seeds of the machines alone, until one fails.

`python -m tests.simulation.soak --minutes 10` draws seeds of all worlds, `--seeds 0..9999 --world share` takes these of
the worlds with that in their names.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import SystemRandom
from typing import Final

from tests.simulation import controller_world, replication_world, simulate
from tests.simulation.connect import world as connect_world
from tests.simulation.consumed import simulate as consumed
from tests.simulation.consumer_groups import simulate as consumer_groups
from tests.simulation.delayed import copy_world as delayed_copy_world
from tests.simulation.delayed import group_world as delayed_group_world
from tests.simulation.delayed import world as delayed_world
from tests.simulation.once import simulate as once
from tests.simulation.raft_kv import world as raft_kv
from tests.simulation.share_groups import simulate as share_groups
from tests.simulation.share_partitions import simulate as share_partitions
from tests.simulation.share_partitions.ordered import OrderedWorld
from tests.simulation.share_states import world as share_states
from tests.simulation.storage_groups import keeper_world
from tests.simulation.storage_groups import world as storage_groups
from tests.simulation.streams_groups import simulate as streams_groups
from tests.simulation.transactions import simulate as transactions
from tests.simulation.work import world as work

World = Callable[[int], object]


def of_any_version(seed: int) -> object:
    return transactions.simulate(seed, seed % 3, changes=seed % 2 == 1)


WORLDS: Final[dict[str, World]] = {
    "replication": replication_world.simulate,
    "the controller": controller_world.simulate,
    "records that wait": delayed_world.simulate,
    "records that wait in a storage group": delayed_group_world.simulate,
    "records that wait and their copies": delayed_copy_world.simulate,
    "the consensus": simulate.simulate,
    "transactions": of_any_version,
    "exactly once": once.simulate,
    "consumer groups": consumer_groups.simulate,
    "consumer groups of both protocols": consumer_groups.simulate_both,
    "streams groups": streams_groups.simulate,
    "share groups": share_groups.simulate,
    "share partitions": share_partitions.simulate,
    "share partitions in the order of keys": partial(share_partitions.simulate, kind=OrderedWorld),
    "share states": share_states.simulate,
    "what all have consumed": consumed.simulate,
    "storage groups": storage_groups.simulate,
    "the keeper of storage groups": keeper_world.simulated,
    "the key-value example": raft_kv.simulate,
    "connectors": connect_world.simulate,
    "connectors exactly once": partial(connect_world.simulate, is_exact=True),
    "work": work.simulate,
}
AT_ONCE: Final = 20


def simulated(name: str, seeds: range) -> None:
    """Raises AssertionError with the first seed that fails."""
    for seed in seeds:
        try:
            found = WORLDS[name](seed)
            violations = found if isinstance(found, list) else getattr(found, "violations", [])
            if violations:
                raise AssertionError(violations)
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error


def drawn(minutes: float) -> Iterator[range]:
    end, random = time.monotonic() + 60 * minutes, SystemRandom()
    while time.monotonic() < end:
        first = random.randrange(1 << 32)
        yield range(first, first + AT_ONCE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="so long, without --seeds (%(default)s)")
    parser.add_argument("--seeds", help="A..B: all of these of each world")
    parser.add_argument("--world", default="", help="only worlds with this in their names")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    names, rounds = [name for name in WORLDS if args.world in name], drawn(args.minutes)
    if not names:
        parser.error(f"no world has {args.world!r} in its name: {', '.join(WORLDS)}")
    if args.seeds is not None:
        first, last = map(int, args.seeds.split(".."))
        rounds = (range(at, min(at + AT_ONCE, last + 1)) for at in range(first, last + 1, AT_ONCE))
    count = 0
    with ProcessPoolExecutor(args.processes, initializer=logging.disable) as processes:
        for seeds in rounds:
            for _ in processes.map(simulated, names, [seeds] * len(names)):
                pass
            count += len(seeds)
            print(f"\r{count:,} seeds of each world", end="", file=sys.stderr)
    print(f"{count:,} seeds of each of {', '.join(names)}, and nothing is wrong")


if __name__ == "__main__":
    main()
