"""What replication costs: a MB on the follower that fetches it, and on its leader beyond produce."""

import time
from typing import Final

import psutil
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.load import LARGE, delete_topic, run
from bench.measure import Budget, Measure, measure
from bench.process import CpuTimes
from penstock.testing import Cluster

LEADER, FOLLOWER = 1, 2
RECORDS, SIZE = 500_000, 1000
MEGABYTES: Final = RECORDS * SIZE / 1e6
LIMIT_S: Final = 120.0
LOOK_S: Final = 0.02


def replicas(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost a follower, and its leader beyond producing them?"""
    alone: list[CpuTimes] = []
    leading: list[CpuTimes] = []
    following: list[CpuTimes] = []
    with Cluster(brokers=2, controllers=1, process=True) as cluster:
        for number in range(runs + 1):
            one, _ = _used(cluster, f"alone-{number}", [LEADER])
            other, follower = _used(cluster, f"copied-{number}", [LEADER, FOLLOWER])
            if number:
                alone.append(one)
                leading.append(other)
                following.append(follower)
    beyond = [after.user - before.user for before, after in zip(alone, leading, strict=True)]
    beyond_system = [after.system - before.system for before, after in zip(alone, leading, strict=True)]
    return [
        measure("user CPU per MB on a follower", "ms", _per_mb([one.user for one in following]), Budget(0.35)),
        measure("system CPU per MB on a follower", "ms", _per_mb([one.system for one in following])),
        measure("user CPU per MB on its leader, beyond produce", "ms", _per_mb(beyond), Budget(0.25)),
        measure("system CPU per MB on its leader, beyond produce", "ms", _per_mb(beyond_system)),
    ]


def _per_mb(seconds: list[float]) -> list[float]:
    return [one * 1e3 / MEGABYTES for one in seconds]


def _used(cluster: Cluster, topic: str, places: list[int]) -> tuple[CpuTimes, CpuTimes]:
    """CPU seconds of the leader and of the follower from the first record until all have all of them."""
    address = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[places], config={"min.insync.replicas": "1"})])[
        topic
    ].result()
    watched = [psutil.Process(cluster.node(node).pid) for node in (LEADER, FOLLOWER)]
    before = [process.cpu_times() for process in watched]
    run("produce", address, topic, records=RECORDS, size=SIZE, **LARGE)
    _wait_until_committed(address, topic)
    used = [
        CpuTimes(after.user - earlier.user, after.system - earlier.system)
        for earlier, after in zip(before, (process.cpu_times() for process in watched), strict=True)
    ]
    delete_topic(address, topic)
    return used[0], used[1]


def _wait_until_committed(address: str, topic: str) -> None:
    consumer, deadline = Consumer({"bootstrap.servers": address, "group.id": "bench"}), time.monotonic() + LIMIT_S
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1] < RECORDS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was not committed within {LIMIT_S:g} s")
        time.sleep(LOOK_S)
    consumer.close()
