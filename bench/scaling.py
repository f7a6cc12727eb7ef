"""What partitions and nodes bring: one, two and three nodes, each held to the same share of a processor."""

from dataclasses import dataclass
from typing import Final

from bench.load import create_topic, run
from bench.measure import Budget, Measure, measure
from bench.shares import held_to
from penstock.testing import Cluster

SHARE: Final = 0.2
"""Of one processor: three nodes and the client fit on two."""
RECORDS_A_NODE: Final = 20_000
SETTINGS: Final = {
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": 50,
    "sticky.partitioning.linger.ms": 0,
}
"""One record a request, so that the nodes are what is slow."""


@dataclass(frozen=True, slots=True)
class Case:
    """So many partitions on so many nodes."""

    nodes: int
    partitions: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.nodes} node{'s' * (self.nodes > 1)}, {self.partitions} partition{'s' * (self.partitions > 1)}"


CASES: Final = (Case(1, 1), Case(1, 6), Case(2, 6), Case(3, 6))


def scaling(runs: int) -> list[Measure]:
    """What do more partitions and more nodes bring, where each node has the same share of a processor?"""
    rates = {case: _rates(case, runs) for case in CASES}
    _, one, two, three = (sorted(rates[case]) for case in CASES)
    gained = {
        "two nodes by one, six partitions": ([many / few for many, few in zip(two, one, strict=True)], 1.5),
        "three nodes by one, six partitions": ([many / few for many, few in zip(three, one, strict=True)], 2.2),
    }
    return [
        *(measure(f"{case.name}, at {SHARE:.0%} each", "requests/s", found) for case, found in rates.items()),
        *(measure(name, "", ratios, Budget(bound, "at least")) for name, (ratios, bound) in gained.items()),
    ]


def _rates(case: Case, runs: int) -> list[float]:
    """Requests a second, after one run that is not counted."""
    found: list[float] = []
    with Cluster(nodes=case.nodes, process=True) as cluster:
        pids = [node.pid for node in cluster.nodes if node.pid is not None]
        for number in range(runs + 1):
            topic = f"scaling-{number}"
            create_topic(cluster.bootstrap_servers, topic, case.partitions)
            with held_to(SHARE, pids):
                load = run(
                    "produce",
                    cluster.bootstrap_servers,
                    topic,
                    records=RECORDS_A_NODE * case.nodes,
                    size=100,
                    **SETTINGS,
                )
            found.append(load.records_per_s)
    return found[1:]
