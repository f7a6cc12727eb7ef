"""How long a consumer's commits wait while its coordinator changes: handed over, and by a plain change as Kafka's."""

import asyncio
import threading
import time
from typing import Self

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from bench.background import Background
from bench.hand_over import CONFIG, REPLICAS, WAYS, prefer
from bench.measure import Budget, Measure, measure
from bench.topics import create_topic
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.testing import Cluster

OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
READ = "read"
PAUSE_S = 0.005
"""Between two commits."""
CALM_S = 2.0
WATCHED_S = 5.0
"""So long after each move commits count as its doing: the client hears of it with a heartbeat, every three seconds."""
LIMIT_S = 30


class Committing(Background):
    """A member of a group that commits again and again, and how long each commit takes until it is accepted."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.waits: list[tuple[float, float]] = []
        """When a commit was asked for, and how many ms it took."""
        self.errors = self.assignments = 0
        self._bootstrap = bootstrap
        self._is_in = threading.Event()

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._is_in.wait(LIMIT_S)
        return self

    def run(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "handed over", "enable.auto.commit": False}
        consumer = Consumer({**settings, "error_cb": self._failed})
        consumer.subscribe([READ], on_assign=self._assigned)
        offset = 0
        while not self.is_over.is_set():
            consumer.poll(PAUSE_S)
            if not self._is_in.is_set():
                continue
            offset += 1
            asked_s = time.perf_counter()
            while True:
                try:
                    consumer.commit(offsets=[Position(READ, 0, offset)], asynchronous=False)
                except KafkaException:
                    self.errors += 1
                else:
                    break
            self.waits.append((asked_s, (time.perf_counter() - asked_s) * 1000))
        consumer.close()

    def _assigned(self, *_: object) -> None:
        self.assignments += 1
        self._is_in.set()

    def _failed(self, _: object) -> None:
        self.errors += 1

    def longest(self, from_s: float, to_s: float) -> float:
        """Of the commits that were under way in between."""
        return max(wait for asked_s, wait in self.waits if asked_s < to_s and asked_s + wait / 1000 > from_s)

    async def goes_on(self) -> None:
        """A commit that is asked for from now on is accepted."""
        now_s = time.perf_counter()
        while not self.waits or self.waits[-1][0] < now_s:
            await asyncio.sleep(PAUSE_S)


def hand_over_groups(runs: int) -> list[Measure]:
    """How long does a commit wait while its coordinator goes to another broker, in a partition of three replicas?"""
    config = CONFIG | {"offsets.topic.num.partitions": "1"}
    with Cluster(brokers=3, controllers=1, process=True, config=config) as cluster:
        create_topic(cluster.bootstrap_servers, READ, places=[REPLICAS])
        with Committing(cluster.bootstrap_servers) as group:
            found = asyncio.run(_moves(cluster.bootstrap_servers, group, runs))
    return [
        measure("longest commit, coordinator handed over", "ms", found["handed over"]),
        measure("longest commit, plain change (a preferred election)", "ms", found["plain"]),
        measure("longest commit in between", "ms", found["calm"]),
        measure("errors of the consumer", "", [group.errors], Budget(0)),
        measure("assignments of the consumer", "", [group.assignments], Budget(1)),
    ]


async def _moves(bootstrap: str, group: Committing, runs: int) -> dict[str, list[float]]:
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
                await asyncio.sleep(WATCHED_S)
                await group.goes_on()
                found[way].append(group.longest(at_s, time.perf_counter()))
                found["calm"].append(group.longest(at_s - CALM_S, at_s))
    return found
