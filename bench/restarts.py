"""How long a producer waits while the nodes that have its partition stop and come back, one after the other."""

import time
from collections.abc import Callable
from functools import partial

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.first_group import AS_IN_KAFKA
from bench.hand_over import REPLICAS, TOPIC, Load
from bench.measure import Measure, measure
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

CONFIG = AS_IN_KAFKA | {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}
WAYS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "handed over": ({}, {}),
    "elected": ({"leader.handover.timeout.ms": "0"}, {}),
    "by consensus": ({}, {"replication.mode": "consensus"}),
}
"""What nodes and the topic have beside that."""
CALM_S = 2.0
"""After each stop, and after each start."""
UNDER_WAY_S = 0.2
"""What was sent so long before may wait for it."""
SECONDS = 60.0

Span = tuple[float, float]


def restarts(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while each of three nodes restarts in turn?"""
    return [one for way in WAYS for one in _restarts(way, runs)]


def _restarts(way: str, runs: int) -> list[Measure]:
    config, topic_config = WAYS[way]
    stops: dict[str, list[Span]] = {"the leader stops": [], "a follower stops": []}
    starts: list[Span] = []
    with Cluster(nodes=len(REPLICAS), process=True, config=CONFIG | config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC.topic, num_partitions=1, replica_assignment=[REPLICAS], config=topic_config)
        admin.create_topics([topic])[TOPIC.topic].result(SECONDS)
        load = Load(cluster.bootstrap_servers)
        _wait_in_sync(admin)
        with load.running():
            time.sleep(CALM_S)
            for _ in range(runs):
                for node_id in REPLICAS:
                    led = _leader(admin) == node_id
                    stops["the leader stops" if led else "a follower stops"].append(_span(cluster.node(node_id).stop))
                    starts.append(_span(partial(_start, cluster, admin, node_id)))
    waits = {what: spans for what, spans in [*stops.items(), ("a node comes back", starts)] if spans}
    return [
        *(
            measure(f"longest wait, {way}, {what}", "ms", [load.longest(*span) for span in spans])
            for what, spans in waits.items()
        ),
        measure(f"errors, {way}", "", [load.errors]),
    ]


def _span(work: Callable[[], None]) -> Span:
    """From when until when it mattered."""
    begun_s = time.perf_counter() - UNDER_WAY_S
    work()
    time.sleep(CALM_S)
    return begun_s, time.perf_counter() - CALM_S / 2


def _start(cluster: Cluster, admin: AdminClient, node_id: int) -> None:
    cluster.node(node_id).start()
    _wait_in_sync(admin)


def _leader(admin: AdminClient) -> int:
    return admin.list_topics(TOPIC.topic, timeout=SECONDS).topics[TOPIC.topic].partitions[0].leader


def _wait_in_sync(admin: AdminClient) -> None:
    def look() -> bool | None:
        partitions = admin.list_topics(TOPIC.topic, timeout=SECONDS).topics[TOPIC.topic].partitions
        return (0 in partitions and partitions[0].leader >= 0 and len(partitions[0].isrs) == len(REPLICAS)) or None

    wait_until(look, SECONDS, "all replicas in sync")
