"""Topics that a storage group replicates, on three nodes with real clients: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.clients import PARTITIONS, PATIENCE_S, TOPIC, Clients, create
from tests.wire.raw_client import RawClient, batch_of

from penstock.node.api.broker.list_offsets import LATEST
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.testing import Cluster

COUNT = 50


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True) as three:
        create(three, replication_mode="consensus")
        yield three


def test_what_is_acknowledged_outlives_each_node_in_turn(cluster: Cluster) -> None:
    clients = Clients(cluster)
    clients.send(100)
    clients.wait_for(in_sync=3)
    for node in cluster.nodes:
        node.kill()
        clients.send(100)
        node.start()
        clients.wait_for(in_sync=3)
    clients.read_everything()
    assert clients.history.anomalies() == []


def test_what_is_acknowledged_outlives_all_nodes_at_once(cluster: Cluster) -> None:
    clients = Clients(cluster)
    for end in (cluster.kill, cluster.stop):
        clients.send(100)
        end()
        cluster.start()
    clients.send(100)
    clients.read_everything()
    assert clients.history.anomalies() == []


def test_records_wait_until_they_are_due(in_threads: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": in_threads.bootstrap_servers})
    config = {"replication.mode": "consensus", "penstock.delay.enable": "true"}
    admin.create_topics([NewTopic("reminders", 1, 3, config=config)])["reminders"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": in_threads.bootstrap_servers})
    for delay in (300, 200, 100):
        producer.produce("reminders", b"%d" % delay, headers={"penstock-delay": b"%d" % delay})
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": in_threads.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("reminders", 0, OFFSET_BEGINNING)])
    found = [consumer.poll(PATIENCE_S) for _ in range(3)]
    consumer.close()
    assert [message.value() for message in found if message is not None] == [b"100", b"200", b"300"]


@pytest.fixture(scope="module")
def in_threads() -> Iterator[Cluster]:
    with Cluster(nodes=3) as three:
        create(three, replication_mode="consensus")
        yield three


@pytest.mark.parametrize("acks", [1, "all"])
def test_kafka_python(in_threads: Cluster, acks: int | str) -> None:
    servers = in_threads.bootstrap_servers.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks=acks, enable_idempotence=acks == "all")
    sent = {b"%s %d" % (str(acks).encode(), number) for number in range(COUNT)}
    for number, value in enumerate(sent):
        producer.send(TOPIC, value, partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=f"kafka-python {acks}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    missing = set(sent)
    while missing:
        missing.discard(next(consumer).value)
    consumer.close()


async def test_aiokafka(in_threads: Cluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=in_threads.bootstrap_servers, enable_idempotence=True)
    await producer.start()
    missing = {b"aiokafka %d" % number for number in range(COUNT)}
    for value in missing:
        await producer.send_and_wait(TOPIC, value)
    await producer.stop()
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=in_threads.bootstrap_servers, group_id="aiokafka", auto_offset_reset="earliest"
    )
    await consumer.start()
    while missing:
        missing.discard((await consumer.getone()).value)
    await consumer.stop()


def test_a_topic_of_the_same_name_is_another_one(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    Clients(cluster).send(100)
    admin.delete_topics([TOPIC])[TOPIC].result()
    create(cluster, replication_mode="consensus")
    clients = Clients(cluster)
    clients.send(10)
    cluster.kill()
    cluster.start()
    clients.send(10)
    clients.read_everything()
    assert clients.history.anomalies() == []


def test_the_log_of_a_group_is_for_nodes_alone(in_threads: Cluster) -> None:
    """Kafka's tools go over all topics; who is told to look for the leader would do so for a minute."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=STORAGE_GROUPS, partitions=[wanted])])
    for node in in_threads.nodes:
        assert node.address is not None
        with RawClient(node.address) as client:
            answers = [
                client.ask(asked).topics[0].partitions[0],
                client.fetch(STORAGE_GROUPS, 0),
                client.produce(STORAGE_GROUPS, batch_of(b"mine")),
            ]
        assert [answer.error_code for answer in answers] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3
