"""P11 and P15: three nodes with three replicas: what acks=all costs, and what leaders bring that are spread."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from bench.load import IN_FLIGHT, LARGE, ONE_BY_ONE, Load, Settings, produce
from bench.shares import held_to
from bench.topics import create_topic, delete_topic, wait_in_sync
from bench.versus.lines import Figure, Line, compared, sample_of
from bench.versus.systems import Effort, Sample
from bench.versus.three_nodes import NODES, ThreeNodes, three_of_each

RATIO = Figure("acks=all, of acks=1", "×", "higher", bar=None, own=0.5)
BULK = (Figure("MB/s", "MB/s", "higher"), Figure("CPU ms/MB, all nodes", "ms", "lower"), RATIO)
ONE = (
    Figure("requests/s", "requests/s", "higher"),
    Figure("p50", "ms", "lower"),
    Figure("p99", "ms", "lower"),
    Figure("CPU µs/request, all nodes", "µs", "lower"),
    RATIO,
)
SIZES, PARTITIONS = (100, 1000), (1, 12)
BULK_RECORDS = {100: 2_000_000, 1000: 400_000}
REQUEST_RECORDS = 20_000

SHARE = 0.4
"""Of one processor for each node, so that a node is what is slow, and three of them and the client fit on two."""
SPREAD = (
    Figure("requests/s, all on one", "requests/s", "higher", bar=None),
    Figure("requests/s, spread", "requests/s", "higher", bar=None),
    Figure("spread, of all on one", "×", "higher", bar=None, own=1.0),
    Figure("busiest node, all on one", "%", "lower", bar=None),
    Figure("busiest node, spread", "%", "lower", bar=None),
)
LEADERS = 6
SPREAD_SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}
TO_WARM_UP = 40_000
"""Records that are sent first to each placement, without a limit: a JVM compiles meanwhile, which with a share of a
processor would take minutes."""
TO_ESTIMATE = 2_000
SECONDS = 4
"""What is counted takes about so long, by the rate of the records before it."""
PLACES: tuple[Sequence[Sequence[int]], ...] = (
    [NODES] * LEADERS,
    [NODES[at % 3 :] + NODES[: at % 3] for at in range(LEADERS)],
)
"""The replicas of each partition, of which the first one leads: all on one, and spread."""


def _of_bulk(one: Load, every: Load, used_s: float) -> Sample:
    """Batches of 1 MB."""
    return sample_of(BULK, every.mb_per_s, used_s * 1e3 / every.megabytes, every.mb_per_s / one.mb_per_s)


def _of_requests(one: Load, every: Load, used_s: float) -> Sample:
    """One record per request."""
    cost, ratio = used_s * 1e6 / every.records, every.records_per_s / one.records_per_s
    return sample_of(ONE, every.records_per_s, every.p50_ms, every.p99_ms, cost, ratio)


class Way(NamedTuple):
    """One way to produce: what its topics are called, what the client is told, how much of which size, what counts."""

    topic: str
    settings: Settings
    records: Mapping[int, int]
    figures: Sequence[Figure]
    measured: Callable[[Load, Load, float], Sample]
    """Figures of a load with acks=1, of one with acks=all, and of the CPU seconds that all nodes used for it."""


WAYS = {
    "bulk": Way("bulk", LARGE, BULK_RECORDS, BULK, _of_bulk),
    "one record a request": Way(
        "single", {**ONE_BY_ONE, IN_FLIGHT: 5}, dict.fromkeys(SIZES, REQUEST_RECORDS), ONE, _of_requests
    ),
}


def replicated(effort: Effort) -> list[Line]:
    """P11: acks=all: how fast, in bulk and one record per request, and what do all pay?

    The nodes of both systems are there all the time.
    """
    lines = []
    with three_of_each() as systems:
        for (name, way), size, partitions in itertools.product(WAYS.items(), SIZES, PARTITIONS):
            records = effort.records(way.records[size])
            work = partial(_both, way=way, records=records, size=size, partitions=partitions)
            case = f"{name}, {size} B, {partitions} partition{'s' * (partitions > 1)}"
            lines += compared(effort, "P11", way.figures, systems, {case: work})
    return lines


def _both(nodes: ThreeNodes, number: int, *, way: Way, records: int, size: int, partitions: int) -> Sample:
    """With acks=1 and with acks=all: produce to a new topic, and delete it."""
    loads: list[Load] = []
    for acks in (1, "all"):
        topic = f"{way.topic}-{size}-{partitions}-{number}-{acks}"
        create_topic(nodes.address, topic, partitions, len(NODES))
        wait_in_sync(nodes.address, topic, len(NODES))
        before = nodes.cpu_s()
        measures = way.figures is ONE
        loads.append(produce(nodes.address, topic, records, size, {**way.settings, "acks": acks}, round_trips=measures))
        used_s = nodes.cpu_s() - before
        delete_topic(nodes.address, topic)
    one, every = loads
    return way.measured(one, every, used_s)


def spread_leaders(effort: Effort) -> list[Line]:
    """P15: what do leaders bring that are spread over the nodes, where all of them lay on one?

    The nodes of both systems are there all the time, those that are not asked unlimited and idle.
    """
    seconds = SECONDS * effort.scale
    with three_of_each() as systems:
        cases = {case: partial(_spread, size=size, seconds=seconds) for case, size in SPREAD_SIZES.items()}
        return compared(effort, "P15", SPREAD, systems, cases)


def _spread(nodes: ThreeNodes, number: int, *, size: int, seconds: float) -> Sample:
    """The rate with each placement of leaders, and how the second compares with the first.

    What the busiest node used of a processor tells whether a node was the limit.
    """
    found = []
    for place, replicas in enumerate(PLACES):
        topic = f"leaders-{size}-{number}-{place}"
        create_topic(nodes.address, topic, places=replicas)
        wait_in_sync(nodes.address, topic, len(NODES))
        if number == 0:
            found.append(_load(nodes, topic, TO_WARM_UP, size))
        else:
            with held_to(SHARE, nodes.pids):
                expected, _ = _load(nodes, topic, TO_ESTIMATE, size)
                found.append(_load(nodes, topic, max(int(expected * seconds), TO_ESTIMATE), size))
        delete_topic(nodes.address, topic)
    (on_one, busiest_of_one), (spread, busiest_spread) = found
    return sample_of(SPREAD, on_one, spread, spread / on_one, busiest_of_one, busiest_spread)


def _load(nodes: ThreeNodes, topic: str, records: int, size: int) -> tuple[float, float]:
    """Requests a second, and how much of a processor, in percent, the busiest node used."""
    before = {broker: broker.cpu() for broker in nodes.brokers.values()}
    load = produce(nodes.address, topic, records, size, {**ONE_BY_ONE, "sticky.partitioning.linger.ms": 0})
    used_s = max((broker.cpu() - earlier).total for broker, earlier in before.items())
    return load.records_per_s, 100 * used_s / load.seconds
