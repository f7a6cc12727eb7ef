"""P11: three replicas on three nodes, acks=all: how fast, in bulk and one record per request, and what do all pay?"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from bench.load import LARGE, Load, create_topic, delete_topic, run
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import MB, Effort, Sample, in_turn
from bench.versus.three_nodes import NODES, ThreeNodes, three_of_each

TITLE = "Three nodes, three replicas, acks=all"
OF_ONE = "acks=all, of acks=1"
RATIO = Figure(OF_ONE, "×", "higher", bar=None, own=0.5)
RATE = Figure("MB/s", "MB/s", "higher")
CPU = Figure("CPU ms/MB, all nodes", "ms", "lower")
BULK = (RATE, CPU, RATIO)
REQUESTS = Figure("requests/s", "requests/s", "higher")
P50 = Figure("p50", "ms", "lower")
P99 = Figure("p99", "ms", "lower")
REQUEST_CPU = Figure("CPU µs/request, all nodes", "µs", "lower")
ONE = (REQUESTS, P50, P99, REQUEST_CPU, RATIO)
SIZES, PARTITIONS = (100, 1000), (1, 12)
BULK_RECORDS = {100: 2_000_000, 1000: 400_000}
REQUEST_RECORDS = 20_000
IN_FLIGHT = 5
ONE_BY_ONE: dict[str, str | int] = {
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": IN_FLIGHT,
    "round.trips": 1,
}


def produced(nodes: ThreeNodes, topic: str, partitions: int, **load: str | int) -> tuple[Load, float]:
    """Produce to a new topic, and delete it; what was done, and the CPU seconds of all nodes."""
    create_topic(nodes.address, topic, partitions, len(NODES))
    nodes.wait_in_sync(topic)
    before = nodes.cpu_s()
    done = run("produce", nodes.address, topic, **load)  # type: ignore[arg-type]
    used = nodes.cpu_s() - before
    delete_topic(nodes.address, topic)
    return done, used


Measured = Callable[[Load, Load, float], Sample]
"""Figures of a load with acks=1, of one with acks=all, and of the CPU seconds that all nodes used for the second."""


def of_bulk(one: Load, every: Load, used_s: float) -> Sample:
    """Batches of 1 MB."""
    return {
        RATE.name: every.mb_per_s,
        CPU.name: used_s * 1e3 / (every.size_bytes / MB),
        RATIO.name: every.mb_per_s / one.mb_per_s,
    }


def of_requests(one: Load, every: Load, used_s: float) -> Sample:
    """One record per request."""
    return {
        REQUESTS.name: every.records_per_s,
        P50.name: every.p50_ms,
        P99.name: every.p99_ms,
        REQUEST_CPU.name: used_s * 1e6 / every.records,
        RATIO.name: every.records_per_s / one.records_per_s,
    }


class Way(NamedTuple):
    """One way to produce: what its topics are called, what the client is told, how much of which size, what counts."""

    topic: str
    name: str
    settings: Mapping[str, str | int]
    records: Mapping[int, int]
    figures: Sequence[Figure]
    measured: Measured


WAYS = (
    Way("bulk", "bulk", LARGE, BULK_RECORDS, BULK, of_bulk),
    Way("single", "one record a request", ONE_BY_ONE, dict.fromkeys(SIZES, REQUEST_RECORDS), ONE, of_requests),
)


def both(nodes: ThreeNodes, number: int, *, way: Way, records: int, size: int, partitions: int) -> Sample:
    """With acks=1 and with acks=all."""
    topic = f"{way.topic}-{size}-{partitions}-{number}"
    load = {"records": records, "size": size, **way.settings}
    one, _ = produced(nodes, f"{topic}-one", partitions, acks=1, **load)
    every, used_s = produced(nodes, f"{topic}-all", partitions, acks="all", **load)
    return way.measured(one, every, used_s)


def ask(effort: Effort) -> list[Line]:
    """Ask; the nodes of both systems are there all the time."""
    lines = []
    with three_of_each() as systems:
        for way, size, partitions in itertools.product(WAYS, SIZES, PARTITIONS):
            case = f"{way.name}, {size} B, {partitions} partition{'s' * (partitions > 1)}"
            records = effort.records(way.records[size])
            turn = partial(both, way=way, records=records, size=size, partitions=partitions)
            lines += lines_of(case, way.figures, in_turn(effort, f"P11 {case}", systems, turn))
    return lines
