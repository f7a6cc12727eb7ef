"""How long a producer waits while its partition gets another leader: handed over, and by a plain change as Kafka's."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import cycle

from bench.measure import Budget, Measure, measure
from bench.stream import Stream
from bench.topics import create_topic
from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.client.values import TopicPartition
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

TOPIC = TopicPartition("orders", 0)
REPLICAS = [1, 2, 3]
SPREAD = [REPLICAS[at:] + REPLICAS[:at] for at in range(3)]
IDLE = "idle"
"""A topic that nobody writes to, of which each broker leads a partition: so followers sleep in long polls."""
WATCHED_S = 3.0
"""So long after each move waits count as its doing."""
UNDER_WAY_S = 0.2
"""What was sent so long before a move may wait for it."""
BUDGET_MS = 20
CONFIG = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}


def orders(address: str) -> Stream:
    """10,000 records of 100 B a second."""
    return Stream(address, TOPIC.topic, rate=10_000, size=100, linger_ms=5)


async def prefer(admin: Admin, partition: TopicPartition, leader: int) -> None:
    """That broker is to lead, but does not yet."""
    await admin.partitions.reassign({partition: [leader, *(one for one in REPLICAS if one != leader)]})


async def hand_over_to_preferred(admin: Admin, _: TopicPartition) -> None:
    """As the balancer does it."""
    await admin.partitions.balance_leaders(BalanceAction.BEGIN)


async def elect_preferred(admin: Admin, partition: TopicPartition) -> None:
    """As Kafka does it."""
    await admin.partitions.elect_leaders(ElectionType.PREFERRED, [partition])


WAYS: dict[str, Callable[[Admin, TopicPartition], Awaitable[None]]] = {
    "handed over": hand_over_to_preferred,
    "plain": elect_preferred,
}


def hand_over(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while its partition changes its leader?"""
    with Cluster(brokers=3, controllers=1, process=True, config=CONFIG) as cluster:
        address = cluster.bootstrap_servers
        create_topic(address, TOPIC.topic, places=[REPLICAS])
        create_topic(address, IDLE, places=SPREAD)
        with orders(address) as stream:
            found = asyncio.run(_moves(address, runs))
    waits = {
        way: [stream.longest_ms(at_s - UNDER_WAY_S, at_s + WATCHED_S) for at_s in times] for way, times in found.items()
    }
    moves = [at_s for times in found.values() for at_s in times]
    calm = [stream.longest_ms(at_s - WATCHED_S, at_s - UNDER_WAY_S) for at_s in moves]
    return [
        measure("longest wait, handed over", "ms", waits["handed over"], Budget(BUDGET_MS)),
        measure("longest wait, plain change (a preferred election)", "ms", waits["plain"]),
        measure("longest wait in between", "ms", calm),
        measure("errors", "", [len(stream.refused)], Budget(0)),
    ]


async def _moves(bootstrap: str, runs: int) -> dict[str, list[float]]:
    """When the partition got another leader, by the way in which."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    leaders = cycle((2, 1))
    async with Admin(bootstrap) as admin:
        await asyncio.sleep(WATCHED_S)
        for run in range(runs + 1):
            for way, move in WAYS.items():
                await prefer(admin, TOPIC, next(leaders))
                await asyncio.sleep(WATCHED_S)
                at_s = time.perf_counter()
                await move(admin, TOPIC)
                await asyncio.sleep(WATCHED_S)
                if run:
                    found[way].append(at_s)
    return found
