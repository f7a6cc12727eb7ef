"""What replicas cost that nobody writes to: three nodes, each of which holds 10,000 partitions."""

import time
from typing import Final

from bench.drills.full_node import fill
from bench.measure import Budget, Measure, measure
from bench.versus.systems import PENSTOCK
from bench.versus.three_nodes import NODES, three_nodes

PARTITIONS: Final = 10_000
LOOKED_AT_S: Final = 10.0


def idle_replicas(runs: int) -> list[Measure]:
    """What does a node use that holds 10,000 partitions of three replicas each, which nobody writes to?"""
    shares: dict[int, list[float]] = {node: [] for node in NODES}
    megabytes: dict[int, list[float]] = {node: [] for node in NODES}
    with three_nodes(PENSTOCK) as nodes:
        for topic in fill(nodes.address, PARTITIONS, len(NODES)).topics:
            nodes.wait_in_sync(topic)
        for number in range(runs + 1):
            before = {node: broker.cpu() for node, broker in nodes.brokers.items()}
            begun = time.perf_counter()
            time.sleep(LOOKED_AT_S)
            seconds = time.perf_counter() - begun
            for node, broker in nodes.brokers.items():
                if number:
                    shares[node].append(broker.cpu_since(before[node]).total / seconds * 100)
                    megabytes[node].append(broker.resident_mb)
    name = f"a node that holds {PARTITIONS:,} idle replicas"
    return [
        measure(f"CPU of {name}: that which uses most", "%", _most(shares), Budget(4.0)),
        measure(f"resident memory of {name}: that which has most", "MB", _most(megabytes), Budget(90.0)),
    ]


def _most(found: dict[int, list[float]]) -> list[float]:
    return [max(figures) for figures in zip(*found.values(), strict=True)]
