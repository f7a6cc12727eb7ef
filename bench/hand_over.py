"""How long a producer waits while its partition gets another leader: handed over, and by a plain change as Kafka's."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.measure import Budget, Measure, measure
from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.client.values import TopicPartition
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

TOPIC = TopicPartition("orders", 0)
REPLICAS = [1, 2, 3]
IDLE = "idle"
"""A topic that nobody writes to, of which each broker leads a partition: so followers sleep in long polls."""
RATE = 10_000
"""Records a second, of 100 B each."""
VALUE = bytes(100)
TICK_S = 0.005
LINGER_MS = 5
WATCHED_S = 3.0
"""So long after each move waits count as its doing."""
UNDER_WAY_S = 0.2
"""What was sent so long before a move may wait for it."""
BUDGET_MS = 20
CONFIG = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}


class Load:
    """An idempotent producer with acks=all that sends at an even rate, and how long each record waits."""

    def __init__(self, bootstrap: str) -> None:
        self.waits: list[tuple[float, float]] = []
        """When a record was sent, and how many ms it took."""
        self.errors = 0
        self._bootstrap = bootstrap
        self._is_over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._produce)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": LINGER_MS}
        producer = Producer(settings)
        next_s = time.perf_counter()
        while not self._is_over.is_set():
            for _ in range(int(RATE * TICK_S)):
                self._send(producer)
            next_s += TICK_S
            while (left_s := next_s - time.perf_counter()) > 0:
                producer.poll(left_s)
        producer.flush()

    def _send(self, producer: Producer) -> None:
        while True:
            try:
                return producer.produce(TOPIC.topic, VALUE, partition=0, on_delivery=self._delivered)
            except BufferError:  # so much waits already that the client takes no more
                producer.poll(TICK_S)

    def _delivered(self, error: object, message: Message) -> None:
        self.errors += error is not None
        waited_s = message.latency() or 0.0
        self.waits.append((time.perf_counter() - waited_s, waited_s * 1000))

    def longest(self, from_s: float, to_s: float) -> float:
        """Of the records that were sent in between."""
        return max(wait for sent_s, wait in self.waits if from_s <= sent_s < to_s)


def hand_over(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while its partition changes its leader?"""
    with Cluster(brokers=3, controllers=1, process=True, config=CONFIG) as cluster:
        topics = [
            NewTopic(TOPIC.topic, num_partitions=1, replica_assignment=[REPLICAS]),
            NewTopic(IDLE, num_partitions=3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]]),
        ]
        kafka_admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for made in kafka_admin.create_topics(topics).values():
            made.result(30)
        load = Load(cluster.bootstrap_servers)
        with load.running():
            found = asyncio.run(_moves(cluster.bootstrap_servers, runs))
    spans = {"calm": (-WATCHED_S, -UNDER_WAY_S)}
    waits = {
        way: [load.longest(at_s + begin_s, at_s + end_s) for at_s in times]
        for way, times in found.items()
        for begin_s, end_s in [spans.get(way, (-UNDER_WAY_S, WATCHED_S))]
    }
    return [
        measure("longest wait, handed over", "ms", waits["handed over"], Budget(BUDGET_MS)),
        measure("longest wait, plain change (a preferred election)", "ms", waits["plain"]),
        measure("longest wait in between", "ms", waits["calm"]),
        measure("errors", "", [load.errors], Budget(0)),
    ]


async def _moves(bootstrap: str, runs: int) -> dict[str, list[float]]:
    """When the partition got another leader, by the way in which."""
    found: dict[str, list[float]] = {"handed over": [], "plain": [], "calm": []}
    leaders = cycle((2, 1))
    async with Admin(bootstrap) as admin:
        await asyncio.sleep(WATCHED_S)
        for run in range(runs + 1):
            for way in ("handed over", "plain"):
                leader = next(leaders)
                replicas = [leader, *(replica for replica in REPLICAS if replica != leader)]
                await admin.partitions.reassign({TOPIC: replicas})
                await asyncio.sleep(WATCHED_S)
                at_s = time.perf_counter()
                if way == "plain":
                    await admin.partitions.elect_leaders(ElectionType.PREFERRED, [TOPIC])
                else:
                    await admin.partitions.balance_leaders(BalanceAction.BEGIN)
                await asyncio.sleep(WATCHED_S)
                if run:
                    found[way].append(at_s)
                    found["calm"].append(at_s)
    return found
