"""The node of a group's coordinator is killed under real consumers: nobody notices but by a pause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC, GROUP = "orders", "readers"
PATIENCE_S = 60.0
MOVES = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    with Cluster(nodes=3, process=True, config=config) as three:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result()
        yield three


class Member:
    """A member of the group, which counts how often it is given something or something is taken from it."""

    def __init__(self, bootstrap: str) -> None:
        self.changes = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 45_000,
                "heartbeat.interval.ms": 200,
            }
        )
        self.consumer.subscribe([TOPIC], on_assign=self._changed, on_revoke=self._changed, on_lost=self._changed)

    def _changed(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.changes += 1

    def read(self) -> bytes:
        """The next record."""
        message: Message | None = self.consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        return value


def coordinator(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def described() -> Any:
        """None while it moves: a node may tell for a moment where it was."""
        try:
            return admin.describe_consumer_groups([GROUP], request_timeout=PATIENCE_S)[GROUP].result()
        except KafkaException as error:
            if error.args[0].code() not in MOVES:
                raise
            return None

    group = wait_until(described, PATIENCE_S, "the coordinator")
    assert [len(group.members), group.state.name] == [1, "STABLE"]
    node_id = group.coordinator.id
    assert isinstance(node_id, int)
    return node_id


def test_members_and_commits_outlive_the_node_of_their_coordinator(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    member = Member(bootstrap)
    for number in range(3):
        producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(PATIENCE_S) == 0
        assert member.read() == b"%d" % number
        member.consumer.commit(asynchronous=False)
        if number < 2:
            killed = coordinator(bootstrap)
            cluster.node(killed).kill()
            committed = member.consumer.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_S)
            assert [place.offset for place in committed] == [number + 1]
            member.consumer.commit(offsets=[TopicPartition(TOPIC, 0, number + 1)], asynchronous=False)
            cluster.node(killed).start()
    assert member.changes == 1, "the member keeps its generation and its partitions"
    member.consumer.close()
