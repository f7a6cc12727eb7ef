"""How long a producer waits while the nodes that have its partition stop and come back, one after the other."""

import time
from collections.abc import Callable

from bench.hand_over import CONFIG, REPLICAS, TOPIC, UNDER_WAY_S, orders
from bench.measure import Measure, measure
from bench.node import AS_INSTALLED
from bench.topics import create_topic, leaders_of, wait_in_sync
from penstock.testing import Cluster

WAYS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "handed over": ({}, {}),
    "elected": ({"leader.handover.timeout.ms": "0"}, {}),
    "by consensus": ({}, {"replication.mode": "consensus"}),
}
"""What nodes and the topic have beside that."""
CALM_S = 2.0
"""After each stop, and after each start."""

Span = tuple[float, float]


def restarts(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while each of three nodes restarts in turn?"""
    return [one for way in WAYS for one in _restarts(way, runs)]


def _restarts(way: str, runs: int) -> list[Measure]:
    config, topic_config = WAYS[way]
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
    return [
        *(
            measure(f"longest wait, {way}, {what}", "ms", [stream.longest_ms(*span) for span in found])
            for what, found in spans.items()
            if found
        ),
        measure(f"errors, {way}", "", [len(stream.refused)]),
    ]


def _span(work: Callable[[], None]) -> Span:
    """From when until when it mattered."""
    begun_s = time.perf_counter() - UNDER_WAY_S
    work()
    time.sleep(CALM_S)
    return begun_s, time.perf_counter() - CALM_S / 2
