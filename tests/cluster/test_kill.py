"""kill -9 of a node: what was acknowledged is there when it starts again: records, offsets, topics, settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

LIMIT_S = 60
KILLS = 3
RECORDS_BEFORE_A_KILL = 500


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(process=True, directory=tmp_path) as running:
        yield running


def produce_until_killed(cluster: Cluster, topic: str, round_number: int) -> set[bytes]:
    """Produce, kill the node in the middle of it, and return the values that were acknowledged."""
    acknowledged: set[bytes] = set()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.add(message.value() or b"")

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, "message.timeout.ms": 2000}
    )
    number = 0
    while len(acknowledged) < RECORDS_BEFORE_A_KILL:
        producer.produce(topic, f"{round_number}-{number}".encode(), on_delivery=delivered)
        producer.poll(0 if number % 50 else 0.01)
        number += 1
    cluster.kill()
    producer.flush(LIMIT_S)
    return acknowledged


def read_all(cluster: Cluster, topic: str, at_least: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    start = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(start, LIMIT_S)
    assert end >= at_least
    consumer.assign([start])
    values: list[bytes] = []
    while len(values) < end:
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"only {len(values)} of {end} records came"
        values.append(message.value() or b"")
    consumer.close()
    return values


def test_acknowledged_records_survive_kills(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(LIMIT_S)
    acknowledged: set[bytes] = set()
    for round_number in range(KILLS):
        acknowledged |= produce_until_killed(cluster, "kept", round_number)
        cluster.restart()
        assert acknowledged <= set(read_all(cluster, "kept", len(acknowledged)))


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_offsets_topics_and_settings_survive(cluster: Cluster, ending: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("settled", 7, 1, config={"retention.ms": "123456789"})])["settled"].result(LIMIT_S)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "committer"})
    consumer.commit(offsets=[TopicPartition("settled", 3, 42, metadata="a note")], asynchronous=False)
    topic_id = admin.describe_topics(TopicCollection(["settled"]))["settled"].result(LIMIT_S).topic_id

    if ending == "killed":
        cluster.kill()
    cluster.restart()

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_topics(TopicCollection(["settled"]))["settled"].result(LIMIT_S)
    assert (len(described.partitions), str(described.topic_id)) == (7, str(topic_id))
    resource = ConfigResource(ConfigResource.Type.TOPIC, "settled")
    assert admin.describe_configs([resource])[resource].result(LIMIT_S)["retention.ms"].value == "123456789"
    again = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "committer"})
    [committed] = again.committed([TopicPartition("settled", 3)], LIMIT_S)
    assert (committed.offset, committed.metadata) == (42, "a note")
