"""A broker that is killed loses its lead when its listener is closed: no session ends while these tests run."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SESSION_MS = 3_600_000
TOPIC = "t"
PARTITIONS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True, config={"broker.session.timeout.ms": str(SESSION_MS)}) as cluster:
        yield cluster


def produce_everywhere(cluster: Cluster) -> None:
    """With acks=all, to each partition; AssertionError if one cannot be written to."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"v", partition=partition, callback=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None] * PARTITIONS


def all_in_sync(admin: AdminClient) -> bool | None:
    rows = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.values()
    return all(len(row.isrs) == 3 for row in rows) or None


def test_others_lead_what_each_node_led_that_was_killed(cluster: Cluster) -> None:
    """One of them was the active controller, too. Who comes back registers, though no session is over."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    for node in cluster.nodes:
        produce_everywhere(cluster)
        node.kill()
        produce_everywhere(cluster)
        node.start()
        wait_until(lambda: all_in_sync(admin), 60, "all replicas in sync")
