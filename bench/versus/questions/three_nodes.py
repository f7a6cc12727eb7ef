"""P11, P12, P15 and P16: acks=all, kill -9, spread leaders and moved ones, each with three nodes of a system."""

import asyncio
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bench.hand_over import CONFIG, IDLE, REPLICAS, SPREAD, TOPIC, UNDER_WAY_S, WAYS, moved_at, orders
from bench.load import IN_FLIGHT, LARGE, ONE_BY_ONE, Load, Settings, Stream, produce
from bench.shares import held_to
from bench.topics import create_topic, delete_topic, fill, leaders_of, read_all, wait_in_sync
from bench.versus.systems import (
    KAFKA,
    NODES,
    PENSTOCK,
    SYSTEMS,
    Effort,
    Figure,
    Line,
    Sample,
    Samples,
    ThreeNodes,
    compared,
    in_turn,
    lines_of,
    sample_of,
    three_nodes,
    three_of_each,
)
from penstock.client.admin import Admin

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
"""Of one processor for each node, so that nodes are the limit, and three of them and the client fit on two."""
LEADING = (
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
processor would take minutes.
"""
TO_ESTIMATE = 2_000
SECONDS = 4
"""About how long the counted part takes, by the rate of the records before it."""
PLACES: tuple[Sequence[Sequence[int]], ...] = (
    [NODES] * LEADERS,
    [NODES[at % 3 :] + NODES[: at % 3] for at in range(LEADERS)],
)
"""The replicas of each partition, of which the first one leads: all on one, and spread."""


def replicated(effort: Effort) -> list[Line]:
    """P11: acks=all: how fast, in bulk and one record per request, and what do all pay?

    The nodes of both systems are there all the time.
    """
    lines = []
    with three_of_each() as systems:
        for is_bulk, size, partitions in itertools.product((True, False), SIZES, PARTITIONS):
            records = effort.records(BULK_RECORDS[size] if is_bulk else REQUEST_RECORDS)
            work = partial(_both, is_bulk=is_bulk, records=records, size=size, partitions=partitions)
            name = "bulk" if is_bulk else "one record a request"
            case = f"{name}, {size} B, {partitions} partition{'s' * (partitions > 1)}"
            lines += compared(effort, "P11", BULK if is_bulk else ONE, systems, {case: work})
    return lines


def _both(nodes: ThreeNodes, number: int, *, is_bulk: bool, records: int, size: int, partitions: int) -> Sample:
    """acks=all, and its rate as a share of that with acks=1."""
    loads: list[Load] = []
    settings: Settings = LARGE if is_bulk else {**ONE_BY_ONE, IN_FLIGHT: 5}
    for acks in (1, "all"):
        topic = f"{'bulk' if is_bulk else 'single'}-{size}-{partitions}-{number}-{acks}"
        create_topic(nodes.address, topic, partitions, len(NODES))
        wait_in_sync(nodes.address, topic, len(NODES))
        before = nodes.cpu_s()
        load = produce(nodes.address, topic, records, size, {**settings, "acks": acks}, round_trips=not is_bulk)
        loads.append(load)
        used_s = nodes.cpu_s() - before
        delete_topic(nodes.address, topic)
    ratio = load.records_per_s / loads[0].records_per_s
    if is_bulk:
        return sample_of(BULK, load.mb_per_s, used_s * 1e3 / load.megabytes, ratio)
    return sample_of(ONE, load.records_per_s, load.p50_ms, load.p99_ms, used_s * 1e6 / records, ratio)


def spread_leaders(effort: Effort) -> list[Line]:
    """P15: what do leaders bring that are spread over the nodes, where all of them lay on one?

    The nodes of both systems are there all the time, those that are not asked unlimited and idle.
    """
    seconds = SECONDS * effort.scale
    with three_of_each() as systems:
        cases = {case: partial(_spread, size=size, seconds=seconds) for case, size in SPREAD_SIZES.items()}
        return compared(effort, "P15", LEADING, systems, cases)


def _spread(nodes: ThreeNodes, number: int, *, size: int, seconds: float) -> Sample:
    """The rate with each placement of leaders, and how the second compares with the first.

    The busiest node's use of a processor tells whether a node was the limit.
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
    return sample_of(LEADING, on_one, spread, spread / on_one, busiest_of_one, busiest_spread)


def _load(nodes: ThreeNodes, topic: str, records: int, size: int) -> tuple[float, float]:
    """Requests a second, and the busiest node's use of a processor, in percent."""
    before = {broker: broker.cpu() for broker in nodes.brokers.values()}
    load = produce(nodes.address, topic, records, size, {**ONE_BY_ONE, "sticky.partitioning.linger.ms": 0})
    used_s = max((broker.cpu() - earlier).total for broker, earlier in before.items())
    return load.records_per_s, 100 * used_s / load.seconds


HELD_UP = Figure("held up", "s", "lower", bar=1.0)
ERRORS = Figure("records with an error", "", "lower", bar=None, own=0)
LOST = Figure("acknowledged records lost", "", "lower", bar=None, own=0)
TWICE = Figure("records twice", "", "lower", bar=None, own=0)
KILLED = (HELD_UP, ERRORS, LOST, TWICE)
GROWTH = Figure("held up with many partitions, of that with few", "×", "lower", bar=None, own=1.5)
WRITTEN, FEW, MANY = 12, 100, 10_000
PER_TOPIC = 500
RATE = 1_200
"""Records a second: one for each partition every ten milliseconds."""


def leader(nodes: ThreeNodes, topic: str) -> int:
    """A node that leads partitions and is not the active controller."""
    controller = nodes.controller()
    return next(node for node in leaders_of(nodes.address, topic).values() if node != controller)


VICTIMS: dict[str, Callable[[ThreeNodes, str], int]] = {
    "leader": leader,
    "active controller": lambda nodes, _: nodes.controller(),  # which leads partitions as well
}


def measured(nodes: ThreeNodes, victim: Callable[[ThreeNodes, str], int], name: str) -> Sample:
    """A new topic under load, a node killed, and started again when the producer gets on."""
    create_topic(nodes.address, name, WRITTEN, len(NODES))
    wait_in_sync(nodes.address, name, len(NODES))
    with Stream(nodes.address, name, WRITTEN, rate=RATE, linger_ms=0) as stream:
        stream.wait_for_more()
        node = victim(nodes, name)
        nodes.kill(node)
        stream.wait_until_every_partition_goes_on()
    nodes.start(node)
    seen = Counter(value for _, value in read_all(nodes.address, name))
    lost, twice = len(stream.acknowledged() - seen.keys()), sum(times > 1 for times in seen.values())
    wait_in_sync(nodes.address, name, len(NODES))
    return sample_of(KILLED, stream.longest_ms() / 1000, len(stream.refused), lost, twice)


def ask_one(effort: Effort, system: str, partitions: int) -> dict[str, list[Sample]]:
    """All rounds of one system, alone on the machine: so many for each victim."""
    found: dict[str, list[Sample]] = {name: [] for name in VICTIMS}
    with three_nodes(system) as nodes:
        fill(nodes.address, partitions - WRITTEN, len(NODES), per_topic=PER_TOPIC, waits=True)
        for number in range(effort.pairs):
            for name, victim in VICTIMS.items():
                sample = measured(nodes, victim, f"written-{name.replace(' ', '-')}-{number}")
                found[name].append(sample)
                effort.show(f"P12 {partitions:,} partitions, {name} killed", system, number + 1, sample)
    return found


def killed(effort: Effort) -> list[Line]:
    """With `--scale` below 1 the many partitions are fewer."""
    many = max(2 * FEW, round(MANY * min(effort.scale, 1.0)))
    found = {count: {system: ask_one(effort, system, count) for system in SYSTEMS} for count in (FEW, many)}
    lines: list[Line] = []
    for name in VICTIMS:
        for count, systems in found.items():
            samples: Samples = {system: victims[name] for system, victims in systems.items()}
            lines += lines_of(f"{name}, {count:,} partitions", KILLED, samples)
        lines += lines_of(name, (GROWTH,), {system: _growth(found, system, name, many) for system in SYSTEMS})
    return lines


def _growth(found: dict[int, dict[str, dict[str, list[Sample]]]], system: str, victim: str, many: int) -> list[Sample]:
    pairs = zip(found[FEW][system][victim], found[many][system][victim], strict=True)
    return [{GROWTH.name: late[HELD_UP.name] / early[HELD_UP.name]} for early, late in pairs]


MOVED = (
    Figure("longest wait of a record, median of the moves", "ms", "lower", own=20),
    Figure("longest wait of a record, of all moves", "ms", "lower"),
    Figure("longest wait while nothing moves, median", "ms", "lower", bar=None),
    Figure("records with an error", "", "lower", bar=None, own=0),
)
MOVES = 5
"""In each series: one load that goes on all the time."""
CALM_S: Final = 1.0
"""Records sent this long before a move wait for nothing special: brokers know the order by then."""
AFTER_S: Final = 1.5
"""Records sent this long after the request for a move may wait for it; so long before it the order is new."""
MOVE = {KAFKA: WAYS["plain"], PENSTOCK: WAYS["handed over"]}


def moved(effort: Effort) -> list[Line]:
    """Each system runs alone, as any other process that wakes up makes records wait."""
    case, samples = f"{MOVES} moves", Samples()
    for system in SYSTEMS:
        with three_nodes(system, CONFIG) as nodes:
            samples |= in_turn(effort, f"P16 {case}", {system: nodes}, _series)
    return lines_of(case, MOVED, samples)


def _series(nodes: ThreeNodes, number: int) -> Sample:
    if number == 0:
        create_topic(nodes.address, TOPIC.topic, places=[REPLICAS])
        create_topic(nodes.address, IDLE, places=SPREAD)
    with orders(nodes.address) as stream:
        times = asyncio.run(_moves(nodes))
    waits = [stream.longest_ms(at_s - UNDER_WAY_S, at_s + AFTER_S) for at_s in times]
    calm = [stream.longest_ms(at_s - CALM_S, at_s - UNDER_WAY_S) for at_s in times]
    return sample_of(MOVED, statistics.median(waits), max(waits), statistics.median(calm), len(stream.refused))


async def _moves(nodes: ThreeNodes) -> list[float]:
    """When the leader moved, each time to the next node."""
    times = []
    async with Admin(nodes.address) as admin:
        await asyncio.sleep(AFTER_S)
        for _ in range(MOVES):
            leader = leaders_of(nodes.address, TOPIC.topic)[TOPIC.partition] % len(REPLICAS) + 1
            times.append(await moved_at(admin, MOVE[nodes.system], leader, AFTER_S))
            if leaders_of(nodes.address, TOPIC.topic)[TOPIC.partition] != leader:
                raise RuntimeError(f"{nodes.system}: the leader did not move to {leader}")
    return times
