"""A topic on three nodes, each a process: what a killed leader had acknowledged is there, and the node comes back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.history import History, Outcome
from penstock.testing.quorum_view import wait_until

TOPIC = "orders"
PARTITIONS = 4
PATIENCE_S = 60.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True) as three:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
            created.result()
        yield three


def place(message: Message) -> tuple[int, int, str]:
    """Partition, offset and value."""
    index, offset, value = message.partition(), message.offset(), message.value()
    assert index is not None
    assert offset is not None
    assert value is not None
    return index, offset, value.decode()


class Clients:
    """A producer with acks=all and a reader of everything; what both see goes into a history."""

    def __init__(self, cluster: Cluster) -> None:
        self.history = History()
        self._bootstrap = cluster.bootstrap_servers
        self._producer = Producer(
            {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        )
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap})
        self._sent = 0

    def send(self, count: int) -> None:
        """So many records, each acknowledged."""
        for number in range(self._sent, self._sent + count):
            self._producer.produce(TOPIC, f"v{number}", partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
        self._sent += count
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None
        index, offset, value = place(message)
        self.history.sent("p", (TOPIC, index), value, Outcome.ACKNOWLEDGED, offset=offset)

    def read_everything(self) -> None:
        """As a member of a group whose coordinator may have moved as well."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": f"g{self._sent}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([TOPIC])
        left = self._sent
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            index, offset, value = place(message)
            self.history.polled(f"c{self._sent}", (TOPIC, index), offset, value)
            left -= 1
        consumer.close()

    def in_sync(self) -> set[int]:
        """How many replicas are in sync, for any partition; nothing where the node that is asked dies meanwhile."""
        try:
            partitions = self._admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        except KafkaException:
            return set()
        return {len(partition.isrs) for partition in partitions.values()}

    def wait_for(self, in_sync: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.in_sync() != {in_sync}:
            assert time.monotonic() < deadline, self.in_sync()


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
