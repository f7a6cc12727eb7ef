"""A broker that is killed loses its lead when its listener is closed: no session ends while these tests run."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.client.admin import Admin
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SESSION_MS = 3_600_000
TOPIC = "t"
NODES = 3
PARTITIONS = 6
LIMIT_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES, process=True, config={"broker.session.timeout.ms": str(SESSION_MS)}) as cluster:
        yield cluster


def produce_everywhere(cluster: Cluster) -> None:
    """With acks=all, to each partition; AssertionError if one cannot be written to."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"v", partition=partition, callback=lambda error, _: failures.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert failures == [None] * PARTITIONS


def all_in_sync(admin: AdminClient) -> bool | None:
    rows = admin.list_topics(TOPIC, timeout=LIMIT_S).topics[TOPIC].partitions.values()
    return all(len(row.isrs) == NODES for row in rows) or None


def all_are_watched(cluster: Cluster) -> bool | None:
    """Whether each controller is connected to the other brokers."""

    async def look() -> list[str]:
        async with Admin(cluster.bootstrap_servers) as admin:
            told = [await admin.quorum.metrics_of(node.id) for node in cluster.nodes]
        return [metric.value for metrics in told for metric in metrics if metric.name == "WatchedBrokerCount"]

    return asyncio.run(look()) == [str(NODES - 1)] * NODES or None


def test_others_lead_what_each_node_led_that_was_killed(cluster: Cluster) -> None:
    """One of them was the active controller, too. Who comes back registers, though no session is over."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, NODES)])[TOPIC].result(LIMIT_S)
    for node in cluster.nodes:
        wait_until(lambda: all_in_sync(admin), LIMIT_S, "all replicas in sync")
        wait_until(lambda: all_are_watched(cluster), LIMIT_S, "all brokers watched")
        produce_everywhere(cluster)
        node.kill()
        produce_everywhere(cluster)
        node.start()
