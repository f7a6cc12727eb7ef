"""A node that should lead two storage groups restarts: it gets them back by itself, and clients go on."""

from __future__ import annotations

from itertools import count
from threading import Event, Thread

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.test_leaders_balance import SECONDS, moves

from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPICS = ("a", "b")
"""Each in a group of its own, which broker 2 should lead."""
CONFIG = {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}


class Load:
    """An idempotent producer that sends to both topics until it is told to end."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent = 0
        self.errors: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 2}
        )
        self._is_over = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(SECONDS) == 0

    def _run(self) -> None:
        for number in count():
            for topic in TOPICS:
                self._producer.produce(topic, str(number), partition=0, on_delivery=self._delivered)
            self._producer.poll(0.005)
            self.sent += 1
            if self._is_over.is_set():
                break

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(str(error))


def read(cluster: Cluster, topic: str, number: int) -> list[str]:
    """So many values of a topic, in their order."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, found = Consumer(settings), list[str]()
    consumer.subscribe([topic])
    while len(found) < number:
        message = consumer.poll(SECONDS)
        assert message is not None
        value = message.value()
        assert message.error() is None
        assert value is not None
        found.append(value.decode())
    consumer.close()
    return found


def leaders(cluster: Cluster, name: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partitions = admin.list_topics(name, timeout=SECONDS).topics[name].partitions
    return [partitions[index].leader for index in sorted(partitions)]


def wait_for(cluster: Cluster, name: str, expected: list[int]) -> None:
    wait_until(lambda: leaders(cluster, name) == expected or None, SECONDS, f"the leaders {expected} of {name}")


def test_they_come_back_by_themselves() -> None:
    with Cluster(brokers=3, controllers=1, config=CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for number, topic in enumerate(TOPICS):
            config = {"replication.mode": "consensus", "storage.group": str(number)}
            new = NewTopic(topic, num_partitions=1, replica_assignment=[[2, 1, 3]], config=config)
            admin.create_topics([new])[topic].result(SECONDS)
        wait_for(cluster, STORAGE_GROUPS, [2, 2])
        with Load(cluster) as load:
            cluster.node(2).stop()
            wait_until(lambda: not {2, -1} & {*leaders(cluster, STORAGE_GROUPS)} or None, SECONDS, "others lead")
            before = len(moves(cluster, of_groups=True))
            cluster.node(2).start()
            wait_for(cluster, STORAGE_GROUPS, [2, 2])
            enough = load.sent + 100
            wait_until(lambda: load.sent > enough or None, SECONDS, "more is sent")
        assert load.errors == []
        changes = moves(cluster, of_groups=True)[before:]
        assert {index for topic, index, leader in changes if (topic, leader) == (STORAGE_GROUPS, 2)} == {0, 1}
        for topic in TOPICS:
            wait_for(cluster, topic, [2])
        for topic in TOPICS:
            assert read(cluster, topic, load.sent) == [str(number) for number in range(load.sent)]
