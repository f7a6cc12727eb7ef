"""How soon `penstock.testing.Cluster(nodes=3)` is ready: it has started, and what a test creates has three replicas.

Asked in a process of its own: what a test waits for is its first cluster.
"""

import asyncio
import time

from bench.child import Child
from bench.measure import Budget, Measure, measure
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.testing import Cluster

NODES = 3
PARTITIONS = 12


def ready_cluster(runs: int) -> list[Measure]:
    """How long until a cluster of three for tests has started, and all its topics are replicated?"""
    found = [Child(_one).result() for _ in range(runs + 1)][1:]
    started_s, replicated_s, used_s = zip(*found, strict=True)
    return [
        measure("Cluster(nodes=3) has started", "s", started_s),
        measure("Cluster(nodes=3) is ready, every topic replicated", "s", replicated_s, Budget(2.0)),
        measure("Cluster(nodes=3) is ready, CPU", "s", used_s),
    ]


def _one() -> tuple[float, float, float]:
    """Seconds until it has started, seconds until all is replicated, and the CPU time of that: nodes are threads here.

    A topic is created, a record acknowledged by all replicas, and a group's offset committed, so that there is
    `__consumer_offsets` as well; then each partition has all nodes in sync.
    """
    begun_s, used_s = time.perf_counter(), time.process_time()
    with Cluster(nodes=NODES) as cluster:
        started_s = time.perf_counter() - begun_s
        asyncio.run(_wait_until_replicated(cluster.bootstrap_servers))
        return started_s, time.perf_counter() - begun_s, time.process_time() - used_s


async def _wait_until_replicated(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.topics.create(NewTopic(name="first", partitions=PARTITIONS))
        await producer.send_and_wait("first", b"x")
        await admin.groups.set_offsets("group", {TopicPartition("first", 0): OffsetAndMetadata(0)})
        while not await _is_replicated(admin):
            await asyncio.sleep(0.005)


async def _is_replicated(admin: Admin) -> bool:
    """Whether each partition of each topic has all nodes in sync."""
    topics = await admin.topics.describe()
    return len(topics) == 2 and all(len(one.isr) == NODES for topic in topics for one in topic.partitions.values())
