"""How long producers and members of groups wait while another broker becomes leader or coordinator.

It is handed over, or changes plainly as Kafka's does; or the nodes stop and come back, one after the other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import cycle

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from bench.child import Background
from bench.load import Stream
from bench.measure import Budget, Figures, Measure, measure
from bench.process import AS_INSTALLED
from bench.topics import create_topic, leaders_of, wait_in_sync
from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC = TopicPartition("orders", 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
REPLICAS = [1, 2, 3]
SPREAD = [REPLICAS[at:] + REPLICAS[:at] for at in range(3)]
IDLE = "idle"
"""Without producers; each broker leads a partition of it: so followers sleep in long polls."""
WATCHED_S = 3.0
"""How long after each move waits count as its effect."""
COMMITS_WATCHED_S = 5.0
"""The same for commits: the client hears of a move with a heartbeat, every three seconds."""
CALM_S = 2.0
"""Before each move of a coordinator, after each stop, and after each start."""
UNDER_WAY_S = 0.2
"""Records sent this long before a move may wait for it."""
BUDGET_MS = 20
PAUSE_S = 0.005
"""Between two commits."""
LIMIT_S = 30
CONFIG = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}
STOPS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "handed over": ({}, {}),
    "elected": ({"leader.handover.timeout.ms": "0"}, {}),
    "by consensus": ({}, {"replication.mode": "consensus"}),
}
"""Settings of nodes and topic where nodes stop and come back."""
Span = tuple[float, float]


def orders(address: str) -> Stream:
    return Stream(address, TOPIC.topic, rate=10_000, size=100, linger_ms=5)


async def prefer(admin: Admin, partition: TopicPartition, leader: int) -> None:
    """The broker is to lead, but does not yet."""
    await admin.partitions.reassign({partition: [leader, *(one for one in REPLICAS if one != leader)]})


async def hand_over_to_preferred(admin: Admin, _: TopicPartition) -> None:
    """As the balancer does it."""
    await admin.partitions.balance_leaders(BalanceAction.BEGIN)


async def elect_preferred(admin: Admin, partition: TopicPartition) -> None:
    """As Kafka does it."""
    await admin.partitions.elect_leaders(ElectionType.PREFERRED, [partition])


Move = Callable[[Admin, TopicPartition], Awaitable[None]]
WAYS: dict[str, Move] = {"handed over": hand_over_to_preferred, "plain": elect_preferred}


async def moved_at(admin: Admin, move: Move, leader: int, calm_s: float) -> float:
    """When the partition was moved: a while after the new order of replicas, and a while before the return."""
    await prefer(admin, TOPIC, leader)
    await asyncio.sleep(calm_s)
    at_s = time.perf_counter()
    await move(admin, TOPIC)
    await asyncio.sleep(calm_s)
    return at_s


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
    """When the partition got another leader, by the way it did."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    leaders = cycle((2, 1))
    async with Admin(bootstrap) as admin:
        await asyncio.sleep(WATCHED_S)
        for run in range(runs + 1):
            for way, move in WAYS.items():
                at_s = await moved_at(admin, move, next(leaders), WATCHED_S)
                if run:
                    found[way].append(at_s)
    return found


class Committing(Background):
    """A group member that commits again and again, with the time of each commit until it is accepted."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.waits: list[tuple[float, float]] = []
        """When a commit was asked for, and how many ms it took."""
        self.errors = self.assignments = 0
        self._bootstrap = bootstrap

    def run(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "handed over", "enable.auto.commit": False}
        consumer = Consumer({**settings, "error_cb": self._failed})
        consumer.subscribe([IDLE], on_assign=self._assigned)
        offset = 0
        while not self.is_over.is_set():
            consumer.poll(PAUSE_S)
            if not self.assignments:
                continue
            offset += 1
            asked_s = time.perf_counter()
            while True:
                try:
                    consumer.commit(offsets=[Position(IDLE, 0, offset)], asynchronous=False)
                    break
                except KafkaException:
                    self.errors += 1
            self.waits.append((asked_s, (time.perf_counter() - asked_s) * 1000))
        consumer.close()

    def _assigned(self, *_: object) -> None:
        self.assignments += 1

    def _failed(self, _: object) -> None:
        self.errors += 1

    def longest(self, from_s: float, to_s: float) -> float:
        """Of the commits that were under way in between."""
        return max(wait for asked_s, wait in self.waits if asked_s < to_s and asked_s + wait / 1000 > from_s)

    async def goes_on(self) -> None:
        """Until a commit that is asked for from now on is accepted."""
        now_s = time.perf_counter()
        while not self.waits or self.waits[-1][0] < now_s:
            await asyncio.sleep(PAUSE_S)


def hand_over_groups(runs: int) -> list[Measure]:
    """How long does a commit wait while its coordinator goes to another broker, in a partition of three replicas?"""
    config = CONFIG | {"offsets.topic.num.partitions": "1"}
    with Cluster(brokers=3, controllers=1, process=True, config=config) as cluster:
        create_topic(cluster.bootstrap_servers, IDLE, places=[REPLICAS])
        with Committing(cluster.bootstrap_servers) as group:
            wait_until(lambda: group.assignments or None, LIMIT_S, "a member")
            found = asyncio.run(_coordinator_moves(cluster.bootstrap_servers, group, runs))
    return [
        measure("longest commit, coordinator handed over", "ms", found["handed over"]),
        measure("longest commit, plain change (a preferred election)", "ms", found["plain"]),
        measure("longest commit in between", "ms", found["calm"]),
        measure("errors of the consumer", "", [group.errors], Budget(0)),
        measure("assignments of the consumer", "", [group.assignments], Budget(1)),
    ]


async def _coordinator_moves(bootstrap: str, group: Committing, runs: int) -> dict[str, list[float]]:
    """The longest commits, by the way in which the coordinator changed; clients suffer from plain changes for long."""
    found: dict[str, list[float]] = {**{way: [] for way in WAYS}, "calm": []}
    async with Admin(bootstrap) as admin:
        for way, move in WAYS.items():
            for _ in range(runs):
                (topic,) = await admin.topics.describe([CONSUMER_OFFSETS])
                await prefer(admin, OFFSETS, next(one for one in REPLICAS if one != topic.partitions[0].leader))
                await asyncio.sleep(CALM_S)
                at_s = time.perf_counter()
                await move(admin, OFFSETS)
                await asyncio.sleep(COMMITS_WATCHED_S)
                await group.goes_on()
                found[way].append(group.longest(at_s, time.perf_counter()))
                found["calm"].append(group.longest(at_s - CALM_S, at_s))
    return found


def restarts(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while each of three nodes restarts in turn?"""
    return [one for way in STOPS for one in _restarts(way, runs)]


def _restarts(way: str, runs: int) -> list[Measure]:
    config, topic_config = STOPS[way]
    spans: dict[str, list[Span]] = {"the leader stops": [], "a follower stops": [], "a node comes back": []}
    with Cluster(nodes=len(REPLICAS), process=True, config=AS_INSTALLED | CONFIG | config) as cluster:
        address = cluster.bootstrap_servers

        def come_back(node_id: int) -> None:
            cluster.node(node_id).start()
            wait_in_sync(address, TOPIC.topic, len(REPLICAS))

        create_topic(address, TOPIC.topic, config=topic_config, places=[REPLICAS])
        wait_in_sync(address, TOPIC.topic, len(REPLICAS))
        with orders(address) as stream:
            time.sleep(CALM_S)
            for node_id in REPLICAS * runs:
                led = leaders_of(address, TOPIC.topic)[TOPIC.partition] == node_id
                spans["the leader stops" if led else "a follower stops"].append(_span(cluster.node(node_id).stop))
                spans["a node comes back"].append(_span(lambda node_id=node_id: come_back(node_id)))  # type: ignore[misc]
    figures = Figures()
    for what, found in spans.items():
        for span in found:
            figures.add(f"longest wait, {way}, {what}", "ms", stream.longest_ms(*span))
    figures.add(f"errors, {way}", "", len(stream.refused))
    return figures.measures()


def _span(work: Callable[[], None]) -> Span:
    begun_s = time.perf_counter() - UNDER_WAY_S
    work()
    time.sleep(CALM_S)
    return begun_s, time.perf_counter() - CALM_S / 2
