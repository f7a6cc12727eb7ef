"""Real clients of one topic, and what they are told."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.history import History, Outcome
from penstock.testing.quorum_view import wait_until

TOPIC = "orders"
PARTITIONS = 4
PATIENCE_S = 60.0


def create(cluster: Cluster, **configs: str) -> None:
    """The topic; configs are keys with underscores for dots."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    config = {key.replace("_", "."): value for key, value in configs.items()}
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=config)]).values():
        created.result()


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
        wait_until(lambda: self.in_sync() == {in_sync} or None, PATIENCE_S, f"{in_sync} replicas in sync")
