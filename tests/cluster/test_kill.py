"""A node that is killed comes back with every acknowledged record, every committed offset and every topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

WAIT_S = 30
PARTITIONS = 3
BEFORE_THE_KILL = 3000
IN_FLIGHT = 1000

Stored = dict[tuple[Any, Any], Any]
"""Values by partition and offset."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        yield cluster


def create(cluster: Cluster, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        future.result(WAIT_S)


def read_all(cluster: Cluster, topic: str) -> Stored:
    """Every record by partition and offset."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    ends: dict[int, int] = {}
    for index in range(PARTITIONS):
        ends[index] = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=WAIT_S)[1]
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    records: Stored = {}
    total = sum(ends.values())
    while len(records) < total:
        messages = consumer.consume(min(1000, total - len(records)), WAIT_S)
        assert messages, f"{len(records)} of {total} records came"
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            records[message.partition(), message.offset()] = message.value()
    consumer.close()
    return records


def test_no_acknowledged_record_is_lost(cluster: Cluster) -> None:
    create(cluster, "orders")
    acknowledged: Stored = {}

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged[message.partition(), message.offset()] = message.value()

    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 10}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    sent = 0
    while len(acknowledged) < BEFORE_THE_KILL:
        producer.produce("orders", f"record {sent}".encode(), on_delivery=delivered)
        sent += 1
        producer.poll(0 if sent - len(acknowledged) < IN_FLIGHT else 0.01)
    cluster.kill()
    cluster.start()
    for _ in range(100):
        producer.produce("orders", f"record {sent}".encode(), on_delivery=delivered)
        sent += 1
    assert producer.flush(WAIT_S) == 0
    stored = read_all(cluster, "orders")
    assert {at: stored.get(at) for at in acknowledged} == acknowledged
    # The idempotent producer sent again what it had no answer for: all of it is there, and nothing twice.
    assert sorted(stored.values()) == sorted(f"record {number}".encode() for number in range(sent))


def test_no_committed_offset_and_no_topic_is_lost(cluster: Cluster) -> None:
    create(cluster, "orders", "payments")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"})
    committed = [TopicPartition("orders", index, 10 * index + 1) for index in range(PARTITIONS)]
    consumer.commit(offsets=committed, asynchronous=False)
    for _ in range(2):
        cluster.kill()
        cluster.start()
        found = consumer.committed(committed, timeout=WAIT_S)
        assert [(at.partition, at.offset) for at in found] == [(at.partition, at.offset) for at in committed]
        metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=WAIT_S)
        assert {"orders", "payments"} <= set(metadata.topics)
        assert len(metadata.topics["orders"].partitions) == PARTITIONS
    consumer.close()


def test_a_clean_restart_keeps_everything_too(cluster: Cluster) -> None:
    create(cluster, "orders")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):
        producer.produce("orders", str(number).encode(), partition=0)
    assert producer.flush(WAIT_S) == 0
    before = read_all(cluster, "orders")
    cluster.restart()
    assert read_all(cluster, "orders") == before
    assert len(before) == 100
