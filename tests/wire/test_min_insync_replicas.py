"""More replicas are asked for than there are: all that there are is enough, for topics and for groups."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

LIMIT_S = 30


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """A node that is alone, and is told that two replicas must be in sync."""
    with Cluster(config={"min.insync.replicas": "2"}) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("config", [{}, {"min.insync.replicas": "3"}], ids=["of the node", "of the topic"])
def test_records_are_taken(alone: str, config: dict[str, str]) -> None:
    topic = f"records-{len(config)}"
    admin = AdminClient({"bootstrap.servers": alone})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(LIMIT_S)
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": alone, "acks": "all", "message.timeout.ms": LIMIT_S * 1000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(2 * LIMIT_S) == 0
    assert refused == []


def test_groups_keep_their_offsets(alone: str) -> None:
    admin = AdminClient({"bootstrap.servers": alone})
    admin.create_topics([NewTopic("read", 1, 1)])["read"].result(LIMIT_S)
    consumer = Consumer({"bootstrap.servers": alone, "group.id": "readers"})
    try:
        consumer.commit(offsets=[TopicPartition("read", 0, 7)], asynchronous=False)
        (committed,) = consumer.committed([TopicPartition("read", 0)], LIMIT_S)
        assert committed.offset == 7
    finally:
        consumer.close()
