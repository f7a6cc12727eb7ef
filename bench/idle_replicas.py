"""What replicas cost that nobody writes to: three nodes, each of which holds 10,000 partitions."""

import time
from typing import Final

from bench.measure import Budget, Measure, measure
from bench.topics import fill
from bench.versus.systems import PENSTOCK
from bench.versus.three_nodes import NODES, three_nodes

PARTITIONS: Final = 10_000
LOOKED_AT_S: Final = 10.0


def idle_replicas(runs: int) -> list[Measure]:
    """What does a node use that holds 10,000 partitions of three replicas each, which nobody writes to?"""
    shares, megabytes = [], []
    with three_nodes(PENSTOCK) as nodes:
        fill(nodes.address, PARTITIONS, len(NODES), waits=True)
        brokers = nodes.brokers.values()
        for _ in range(runs + 1):
            before, begun = [broker.cpu() for broker in brokers], time.perf_counter()
            time.sleep(LOOKED_AT_S)
            seconds = time.perf_counter() - begun
            used = [broker.cpu() - earlier for broker, earlier in zip(brokers, before, strict=True)]
            shares.append(max(cpu.total for cpu in used) / seconds * 100)
            megabytes.append(max(broker.resident_mb for broker in brokers))
    name = f"a node that holds {PARTITIONS:,} idle replicas"
    return [
        measure(f"CPU of {name}: that which uses most", "%", shares[1:], Budget(4.0)),
        measure(f"resident memory of {name}: that which has most", "MB", megabytes[1:], Budget(90.0)),
    ]
