"""P16: how long does a record wait while its partition's leader moves: handed over, and by Kafka's own election?"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bench.hand_over import CONFIG, IDLE, REPLICAS, TOPIC, UNDER_WAY_S, Load
from bench.load import create_assigned
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import KAFKA, PENSTOCK, Effort, Sample, Samples, in_turn
from bench.versus.three_nodes import SYSTEMS, ThreeNodes, three_nodes
from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.protocol.requests.own_apis import BalanceAction

TITLE = "One partition's leader moves under a producer with acks=all, 10,000 records/s"
USUAL = Figure("longest wait of a record, median of the moves", "ms", "lower", own=20)
WORST = Figure("longest wait of a record, of all moves", "ms", "lower")
CALM = Figure("longest wait while nothing moves, median", "ms", "lower", bar=None)
ERRORS = Figure("records with an error", "", "lower", bar=None, own=0)
FIGURES = (USUAL, WORST, CALM, ERRORS)
MOVES = 5
"""In each series: one load that goes on all the time."""
BEFORE_S: Final = 1.5
"""Between the new order of replicas and the move."""
CALM_S: Final = 1.0
"""What is sent so long before a move waits for nothing special: brokers know of the order by then."""
AFTER_S: Final = 1.5
"""What is sent so long after a move was asked for may wait for it."""


async def elect(admin: Admin) -> None:
    """A preferred election."""
    await admin.partitions.elect_leaders(ElectionType.PREFERRED, [TOPIC])


async def balance(admin: Admin) -> None:
    """The balancer hands the partition over."""
    await admin.partitions.balance_leaders(BalanceAction.BEGIN)


WAYS: dict[str, Callable[[Admin], Awaitable[None]]] = {KAFKA: elect, PENSTOCK: balance}


async def moved(nodes: ThreeNodes) -> list[float]:
    """When the leader moved, each time to the next node."""
    times = []
    async with Admin(nodes.address) as admin:
        await asyncio.sleep(BEFORE_S)
        for _ in range(MOVES):
            leader = nodes.leaders(TOPIC.topic)[TOPIC.partition] % len(REPLICAS) + 1
            await admin.partitions.reassign({TOPIC: [leader, *(one for one in REPLICAS if one != leader)]})
            await asyncio.sleep(BEFORE_S)
            times.append(time.perf_counter())
            await WAYS[nodes.system](admin)
            await asyncio.sleep(AFTER_S)
            if nodes.leaders(TOPIC.topic)[TOPIC.partition] != leader:
                raise RuntimeError(f"{nodes.system}: the leader did not move to {leader}")
    return times


def measured(nodes: ThreeNodes, number: int) -> Sample:
    """A series of moves."""
    if number == 0:
        create_assigned(nodes.address, TOPIC.topic, [REPLICAS])
        create_assigned(nodes.address, IDLE, [REPLICAS[at:] + REPLICAS[:at] for at in range(len(REPLICAS))])
    load = Load(nodes.address)
    with load.running():
        times = asyncio.run(moved(nodes))
    waits = [load.longest(at_s - UNDER_WAY_S, at_s + AFTER_S) for at_s in times]
    calm = [load.longest(at_s - CALM_S, at_s - UNDER_WAY_S) for at_s in times]
    return {
        USUAL.name: statistics.median(waits),
        WORST.name: max(waits),
        CALM.name: statistics.median(calm),
        ERRORS.name: load.errors,
    }


def ask(effort: Effort) -> list[Line]:
    """Ask; each system runs alone, as whoever else wakes up on the machine makes records wait."""
    case, samples = f"{MOVES} moves", Samples()
    for system in SYSTEMS:
        with three_nodes(system, CONFIG) as nodes:
            samples |= in_turn(effort, f"P16 {case}", {system: nodes}, measured)
    return lines_of(case, FIGURES, samples)
