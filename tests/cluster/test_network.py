"""A node that is cut off: the others go on without it, and after the cut it has what they have."""

from __future__ import annotations

import sys

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.quorum_view import known_brokers, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
PATIENCE_S = 60.0
NOBODY = -1
TOPIC = "orders"


def leader_and_isr(cluster: Cluster, asked: int) -> tuple[int, set[int]]:
    """As one node knows it; nobody while it does not know of the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.node(asked).address or "", "log_level": 0})
    partition = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions.get(0)
    return (NOBODY, set()) if partition is None else (partition.leader, set(partition.isrs))


def sent(cluster: Cluster, value: bytes, **settings: str | int) -> KafkaError | None:
    """What a producer is told of a record."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0, **settings})
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: told.append(error))
    producer.flush(PATIENCE_S)
    return told[0]


def test_a_node_that_is_cut_off_is_done_without_and_comes_back() -> None:
    with Cluster(nodes=3, process=True, network=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result()
        wait_until(lambda: leader_and_isr(cluster, 1)[1] == {1, 2, 3} or None, PATIENCE_S, "all are in sync")
        assert sent(cluster, b"before") is None
        alone, _ = leader_and_isr(cluster, 1)
        others = {1, 2, 3} - {alone}
        asked = min(others)

        cluster.cut(alone)
        with pytest.raises(TimeoutError):
            wait_until(lambda: known_brokers(cluster.node(alone).address or "") or None, 0.1, "an answer of who is cut")
        wait_until(lambda: leader_and_isr(cluster, asked)[1] == others or None, PATIENCE_S, "others lead")
        assert leader_and_isr(cluster, asked)[0] in others
        assert cluster.wait_for_controller(other_than=alone) in others
        assert sent(cluster, b"during") is None

        cluster.heal(alone)
        wait_until(lambda: leader_and_isr(cluster, asked)[1] == {1, 2, 3} or None, PATIENCE_S, "all are in sync again")
        wait_until(
            lambda: known_brokers(cluster.node(alone).address or "") == {1, 2, 3} or None, PATIENCE_S, "it is back"
        )
        assert sent(cluster, b"after") is None


def test_only_a_network_can_be_cut() -> None:
    with pytest.raises(ValueError, match="network=True needs"):
        Cluster(network=True)
    with pytest.raises(RuntimeError, match="network=True"):
        Cluster(nodes=3).cut(1)
