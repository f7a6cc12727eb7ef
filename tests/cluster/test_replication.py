"""A topic on three nodes, each a process: what a killed leader had acknowledged is there, and the node comes back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from tests.cluster.clients import PARTITIONS, PATIENCE_S, TOPIC, Clients, create

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True) as three:
        create(three)
        yield three


def test_what_is_acknowledged_outlives_each_node_in_turn(cluster: Cluster) -> None:
    clients = Clients(cluster)
    clients.wait_for(in_sync=3)
    for node in cluster.nodes:
        node.kill()
        clients.send(100)
        node.start()
        clients.wait_for(in_sync=3)
    clients.read_everything()
    assert clients.history.anomalies() == []


def test_a_node_whose_data_are_gone_gets_them_again(cluster: Cluster) -> None:
    clients = Clients(cluster)
    clients.send(500)
    lost, *others = cluster.nodes
    lost.kill()
    clients.wait_for(in_sync=2)
    for path in lost.directory.iterdir():
        if path.name.startswith((TOPIC, "__consumer_offsets")):
            shutil.rmtree(path)
    lost.start()
    clients.wait_for(in_sync=3)
    others[0].kill()
    clients.read_everything()
    assert clients.history.anomalies() == []


def test_with_one_replica_in_sync_where_two_must_be_nothing_is_acknowledged(cluster: Cluster) -> None:
    clients = Clients(cluster)
    clients.send(8)
    for node in cluster.nodes[1:]:
        node.pause()
    producer = Producer(
        {"bootstrap.servers": cluster.nodes[0].address, "acks": "all", "message.timeout.ms": 3_000, "retries": 0}
    )
    outcomes: list[KafkaError | None] = []
    producer.produce(TOPIC, b"unsafe", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(PATIENCE_S)
    assert outcomes[0] is not None
    for node in cluster.nodes[1:]:
        node.resume()


def watermarks(consumer: Consumer, where: Place) -> tuple[int, int] | None:
    """None while the client does not know the partition: it may still ask the node that was killed."""
    try:
        return consumer.get_watermark_offsets(where, timeout=PATIENCE_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        return None


def test_deleted_records_are_gone_from_every_replica_when_the_answer_comes(cluster: Cluster) -> None:
    clients = Clients(cluster)
    clients.wait_for(in_sync=3)
    clients.send(4 * PARTITIONS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [Place(TOPIC, index, 3) for index in range(PARTITIONS)]
    for deleted in admin.delete_records(wanted, request_timeout=PATIENCE_S).values():
        assert deleted.result().low_watermark == 3
    cluster.nodes[0].kill()
    clients.wait_for(in_sync=2)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    for place_ in wanted:
        assert wait_until(partial(watermarks, consumer, place_), PATIENCE_S, f"{place_}") == (3, 4)
    consumer.close()
