"""P16: how long does a record wait while its partition's leader moves: handed over, and by Kafka's own election?"""

import asyncio
import statistics
import time
from typing import Final

from bench.hand_over import CONFIG, IDLE, REPLICAS, SPREAD, TOPIC, UNDER_WAY_S, WAYS, orders, prefer
from bench.topics import create_topic, leaders_of
from bench.versus.lines import Figure, Line, lines_of, sample_of
from bench.versus.systems import KAFKA, PENSTOCK, Effort, Sample, Samples, in_turn
from bench.versus.three_nodes import SYSTEMS, ThreeNodes, three_nodes
from penstock.client.admin import Admin

FIGURES = (
    Figure("longest wait of a record, median of the moves", "ms", "lower", own=20),
    Figure("longest wait of a record, of all moves", "ms", "lower"),
    Figure("longest wait while nothing moves, median", "ms", "lower", bar=None),
    Figure("records with an error", "", "lower", bar=None, own=0),
)
MOVES = 5
"""In each series: one load that goes on all the time."""
BEFORE_S: Final = 1.5
"""Between the new order of replicas and the move."""
CALM_S: Final = 1.0
"""What is sent so long before a move waits for nothing special: brokers know of the order by then."""
AFTER_S: Final = 1.5
"""What is sent so long after a move was asked for may wait for it."""
MOVE = {KAFKA: WAYS["plain"], PENSTOCK: WAYS["handed over"]}


def moved(effort: Effort) -> list[Line]:
    """See the module; each system runs alone, as whoever else wakes up on the machine makes records wait."""
    case, samples = f"{MOVES} moves", Samples()
    for system in SYSTEMS:
        with three_nodes(system, CONFIG) as nodes:
            samples |= in_turn(effort, f"P16 {case}", {system: nodes}, _series)
    return lines_of(case, FIGURES, samples)


def _series(nodes: ThreeNodes, number: int) -> Sample:
    """A series of moves."""
    if number == 0:
        create_topic(nodes.address, TOPIC.topic, places=[REPLICAS])
        create_topic(nodes.address, IDLE, places=SPREAD)
    with orders(nodes.address) as stream:
        times = asyncio.run(_moves(nodes))
    waits = [stream.longest_ms(at_s - UNDER_WAY_S, at_s + AFTER_S) for at_s in times]
    calm = [stream.longest_ms(at_s - CALM_S, at_s - UNDER_WAY_S) for at_s in times]
    return sample_of(FIGURES, statistics.median(waits), max(waits), statistics.median(calm), len(stream.refused))


async def _moves(nodes: ThreeNodes) -> list[float]:
    """When the leader moved, each time to the next node."""
    times = []
    async with Admin(nodes.address) as admin:
        await asyncio.sleep(BEFORE_S)
        for _ in range(MOVES):
            leader = leaders_of(nodes.address, TOPIC.topic)[TOPIC.partition] % len(REPLICAS) + 1
            await prefer(admin, TOPIC, leader)
            await asyncio.sleep(BEFORE_S)
            times.append(time.perf_counter())
            await MOVE[nodes.system](admin, TOPIC)
            await asyncio.sleep(AFTER_S)
            if leaders_of(nodes.address, TOPIC.topic)[TOPIC.partition] != leader:
                raise RuntimeError(f"{nodes.system}: the leader did not move to {leader}")
    return times
