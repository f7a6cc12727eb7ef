"""What partitions and nodes bring: one, two and three nodes, each held to the same share of a processor."""

from typing import Final

from bench.load import ONE_BY_ONE, Settings, produce
from bench.measure import Budget, Measure, measure
from bench.shares import held_to
from bench.topics import create_topic
from penstock.testing import Cluster

SHARE: Final = 0.2
"""Of one processor: three nodes and the client fit on two."""
RECORDS_A_NODE: Final = 20_000
SETTINGS: Final[Settings] = {**ONE_BY_ONE, "sticky.partitioning.linger.ms": 0}
CASES: Final = ((1, 1), (1, 6), (2, 6), (3, 6))
"""Nodes, and partitions on them."""


def scaling(runs: int) -> list[Measure]:
    """What do more partitions and more nodes bring, where each node has the same share of a processor?"""
    rates = {
        f"{nodes} node{'s' * (nodes > 1)}, {partitions} partition{'s' * (partitions > 1)}": sorted(
            _rates(nodes, partitions, runs)
        )
        for nodes, partitions in CASES
    }
    _, one, two, three = rates.values()
    gained = {"two nodes by one, six partitions": (two, 1.5), "three nodes by one, six partitions": (three, 2.2)}
    return [
        *(measure(f"{case}, at {SHARE:.0%} each", "requests/s", found) for case, found in rates.items()),
        *(
            measure(name, "", [more / few for more, few in zip(many, one, strict=True)], Budget(bound, "at least"))
            for name, (many, bound) in gained.items()
        ),
    ]


def _rates(nodes: int, partitions: int, runs: int) -> list[float]:
    """Requests a second, after one run that is not counted."""
    found: list[float] = []
    with Cluster(nodes=nodes, process=True) as cluster:
        address = cluster.bootstrap_servers
        pids = [node.pid for node in cluster.nodes if node.pid is not None]
        for number in range(runs + 1):
            create_topic(address, f"scaling-{number}", partitions)
            with held_to(SHARE, pids):
                load = produce(address, f"scaling-{number}", RECORDS_A_NODE * nodes, 100, SETTINGS)
            found.append(load.records_per_s)
    return found[1:]
