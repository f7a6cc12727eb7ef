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
PARTITIONS = 6
SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}
TO_WARM_UP = 60_000
"""Records that are sent first to each placement, without a limit: a JVM compiles meanwhile, which with a share of a
processor would take minutes."""
TO_ESTIMATE = 300
SECONDS = 5
"""What is counted takes about so long, by the rate of the records before it."""
SETTINGS: dict[str, str | int] = {
    "acks": 1,
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": 50,
    "sticky.partitioning.linger.ms": 0,
}
"""One record a request, many in flight: what counts is the nodes' work, not how long they wait for each other."""
PLACES: dict[str, Sequence[Sequence[int]]] = {
    ON_ONE.name: [NODES] * PARTITIONS,
    SPREAD.name: [NODES[at % 3 :] + NODES[: at % 3] for at in range(PARTITIONS)],
}
"""The replicas of each partition; the first of them leads."""


def measured(nodes: ThreeNodes, number: int, *, size: int, seconds: float) -> Sample:
    """The rate with each placement of leaders, and how the second compares with the first."""
    found: Sample = {}
    for place, (name, replicas) in enumerate(PLACES.items()):
        topic = f"leaders-{size}-{number}-{place}"
        create_assigned(nodes.address, topic, replicas)
        nodes.wait_in_sync(topic)
        if number == 0:
            found[name] = _rate(nodes, topic, TO_WARM_UP, size)
        else:
            with held_to(SHARE, nodes.pids):
                expected = _rate(nodes, topic, TO_ESTIMATE, size)
                found[name] = _rate(nodes, topic, max(int(expected * seconds), TO_ESTIMATE), size)
        delete_topic(nodes.address, topic)
    return {**found, GAIN.name: found[SPREAD.name] / found[ON_ONE.name]}


def _rate(nodes: ThreeNodes, topic: str, records: int, size: int) -> float:
    return run("produce", nodes.address, topic, records=records, size=size, **SETTINGS).records_per_s


def ask(effort: Effort) -> list[Line]:
    """Ask; the nodes of both systems are there all the time, those that are not asked unlimited and idle."""
    lines = []
    with three_of_each() as systems:
        for case, size in SIZES.items():
            turn = partial(measured, size=size, seconds=SECONDS * effort.scale)
            lines += lines_of(case, (ON_ONE, SPREAD, GAIN), in_turn(effort, f"P15 {case}", systems, turn))
    return lines
