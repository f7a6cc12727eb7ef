"""P15: what do leaders bring that are spread over the nodes, where all of them lay on one?"""

from collections.abc import Sequence
from functools import partial

from bench.load import create_assigned, delete_topic, run
from bench.shares import held_to
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import Effort, Sample, in_turn
from bench.versus.three_nodes import NODES, ThreeNodes, three_of_each

TITLE = "Six leaders on one of three nodes, and spread over them"
SHARE = 0.4
"""Of one processor for each node, so that a node is what is slow, and three of them and the client fit on two."""
SPREAD = Figure("requests/s, spread", "requests/s", "higher", bar=None)
ON_ONE = Figure("requests/s, all on one", "requests/s", "higher", bar=None)
GAIN = Figure("spread, of all on one", "×", "higher", bar=None, own=1.0)
BUSIEST_OF_ONE = Figure("busiest node, all on one", "%", "lower", bar=None)
BUSIEST_SPREAD = Figure("busiest node, spread", "%", "lower", bar=None)
FIGURES = (ON_ONE, SPREAD, GAIN, BUSIEST_OF_ONE, BUSIEST_SPREAD)
PARTITIONS = 6
SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}
TO_WARM_UP = 40_000
"""Records that are sent first to each placement, without a limit: a JVM compiles meanwhile, which with a share of a
processor would take minutes."""
TO_ESTIMATE = 2_000
SECONDS = 4
"""What is counted takes about so long, by the rate of the records before it."""
SETTINGS: dict[str, str | int] = {
    "acks": 1,
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": 50,
    "sticky.partitioning.linger.ms": 0,
}
"""One record a request, many in flight: what counts is the nodes' work, not how long they wait for each other."""
PLACES: dict[tuple[str, str], Sequence[Sequence[int]]] = {
    (ON_ONE.name, BUSIEST_OF_ONE.name): [NODES] * PARTITIONS,
    (SPREAD.name, BUSIEST_SPREAD.name): [NODES[at % 3 :] + NODES[: at % 3] for at in range(PARTITIONS)],
}
"""The replicas of each partition, of which the first one leads, by the names of the two figures that they give."""


def measured(nodes: ThreeNodes, number: int, *, size: int, seconds: float) -> Sample:
    """The rate with each placement of leaders, and how the second compares with the first.

    What the busiest node used of a processor tells whether a node was the limit.
    """
    found: Sample = {}
    for place, ((rate, busiest), replicas) in enumerate(PLACES.items()):
        topic = f"leaders-{size}-{number}-{place}"
        create_assigned(nodes.address, topic, replicas)
        nodes.wait_in_sync(topic)
        if number == 0:
            found[rate], found[busiest] = _load(nodes, topic, TO_WARM_UP, size)
        else:
            with held_to(SHARE, nodes.pids):
                expected, _ = _load(nodes, topic, TO_ESTIMATE, size)
                records = max(int(expected * seconds), TO_ESTIMATE)
                found[rate], found[busiest] = _load(nodes, topic, records, size)
        delete_topic(nodes.address, topic)
    return {**found, GAIN.name: found[SPREAD.name] / found[ON_ONE.name]}


def _load(nodes: ThreeNodes, topic: str, records: int, size: int) -> tuple[float, float]:
    """Requests a second, and how much of a processor, in percent, the busiest node used."""
    before = {broker: broker.cpu() for broker in nodes.brokers.values()}
    load = run("produce", nodes.address, topic, records=records, size=size, **SETTINGS)
    used_s = max(broker.cpu_since(earlier).total for broker, earlier in before.items())
    return load.records_per_s, 100 * used_s / load.seconds


def ask(effort: Effort) -> list[Line]:
    """Ask; the nodes of both systems are there all the time, those that are not asked unlimited and idle."""
    lines = []
    with three_of_each() as systems:
        for case, size in SIZES.items():
            turn = partial(measured, size=size, seconds=SECONDS * effort.scale)
            lines += lines_of(case, FIGURES, in_turn(effort, f"P15 {case}", systems, turn))
    return lines
