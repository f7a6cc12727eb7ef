"""What replication costs: a MB on the follower that fetches it, and on its leader beyond produce."""

import time
from typing import Final

from bench.load import LARGE, produce
from bench.measure import Budget, Measure, measure
from bench.process import CpuTimes, cpu_of
from bench.topics import create_topic, delete_topic, end_of
from penstock.testing import Cluster

LEADER, FOLLOWER = 1, 2
RECORDS, SIZE = 500_000, 1000
MEGABYTES: Final = RECORDS * SIZE / 1e6
LIMIT_S: Final = 120.0
LOOK_S: Final = 0.02


def replicas(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost a follower, and its leader beyond producing them?"""
    beyond: list[CpuTimes] = []
    following: list[CpuTimes] = []
    with Cluster(brokers=2, controllers=1, process=True) as cluster:
        for number in range(runs + 1):
            alone, _ = _used(cluster, f"alone-{number}", [LEADER])
            leader, follower = _used(cluster, f"copied-{number}", [LEADER, FOLLOWER])
            if number:
                beyond.append(leader - alone)
                following.append(follower)
    rows = {
        "user CPU per MB on a follower": ([one.user for one in following], Budget(0.35)),
        "system CPU per MB on a follower": ([one.system for one in following], None),
        "user CPU per MB on its leader, beyond produce": ([one.user for one in beyond], Budget(0.25)),
        "system CPU per MB on its leader, beyond produce": ([one.system for one in beyond], None),
    }
    return [
        measure(name, "ms", [one * 1e3 / MEGABYTES for one in seconds], budget)
        for name, (seconds, budget) in rows.items()
    ]


def _used(cluster: Cluster, topic: str, places: list[int]) -> list[CpuTimes]:
    """CPU seconds of the leader and of the follower from the first record until all have all of them."""
    address = cluster.bootstrap_servers
    create_topic(address, topic, config={"min.insync.replicas": "1"}, places=[places])
    pids = [cluster.node(node).pid for node in (LEADER, FOLLOWER)]
    before = [cpu_of(pid) for pid in pids]
    produce(address, topic, RECORDS, SIZE, LARGE)
    end, deadline = end_of(address, topic), time.monotonic() + LIMIT_S
    while end() < RECORDS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was not committed within {LIMIT_S:g} s")
        time.sleep(LOOK_S)
    used = [cpu_of(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
    delete_topic(address, topic)
    return used
