"""Brokers that die, hang and stop, in processes of their own: who hears of it, and who leads what they led."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.quorum_view import known_brokers, wait_until

SECONDS = 60
SESSION_MS = 2_000
NOBODY = -1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers and a controller, with short sessions."""
    config = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "200"}
    with Cluster(brokers=2, controllers=1, process=True, config=config) as cluster:
        yield cluster


def broker_address(cluster: Cluster, node_id: int) -> str:
    address = cluster.node(node_id).address
    assert address is not None
    return address


def wait_for_brokers(address: str, expected: set[int]) -> None:
    wait_until(lambda: known_brokers(address) == expected or None, SECONDS, f"brokers {expected} at {address}")


def leaders(address: str, topic: str) -> dict[int, int]:
    metadata = AdminClient({"bootstrap.servers": address}).list_topics(topic, timeout=30)
    return {index: partition.leader for index, partition in metadata.topics[topic].partitions.items()}


def wait_for_leaders(address: str, topic: str, expected: dict[int, int]) -> None:
    def look() -> bool | None:
        try:
            return leaders(address, topic) == expected or None
        except KafkaException:
            return None

    wait_until(look, SECONDS, f"leaders {expected} of {topic} at {address}")


def test_a_broker_that_is_killed_is_fenced_and_leads_again_when_it_is_back(cluster: Cluster) -> None:
    survivor = broker_address(cluster, 2)
    admin = AdminClient({"bootstrap.servers": survivor})
    before = {0: 1, 1: 2, 2: 1, 3: 2}
    topic = NewTopic("flights", len(before), replica_assignment=[[leader] for leader in before.values()])
    admin.create_topics([topic])["flights"].result(SECONDS)
    wait_for_leaders(survivor, "flights", before)
    cluster.node(1).kill()
    wait_for_brokers(survivor, {2})
    gone = {index: NOBODY if leader == 1 else leader for index, leader in before.items()}
    wait_for_leaders(survivor, "flights", gone)
    cluster.node(1).start()
    wait_for_brokers(survivor, {1, 2})
    wait_for_leaders(survivor, "flights", before)


def test_a_broker_that_hung_is_fenced_and_let_in_again_when_it_wakes(cluster: Cluster) -> None:
    survivor = broker_address(cluster, 2)
    wait_for_brokers(survivor, {1, 2})
    cluster.node(1).pause()
    wait_for_brokers(survivor, {2})
    cluster.node(1).resume()
    wait_for_brokers(survivor, {1, 2})


def test_a_broker_that_stops_is_gone_before_its_session_is_over_and_may_come_back_at_once() -> None:
    config = {"broker.session.timeout.ms": str(10 * SECONDS * 1000)}
    with Cluster(brokers=2, controllers=1, process=True, config=config) as cluster:
        survivor = broker_address(cluster, 2)
        wait_for_brokers(survivor, {1, 2})
        cluster.node(1).stop()
        wait_for_brokers(survivor, {2})
        cluster.node(1).start()
        wait_for_brokers(survivor, {1, 2})
