"""All leaders are on one node after restarts: they go back by themselves, one after the other, and clients go on."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.main import main
from penstock.log.names import partition_directory
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC = "orders"
REPLICAS = [[1, 2, 3], [2, 1, 3], [3, 1, 2]] * 2
SECONDS = 60
CONFIG = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
    "min.insync.replicas": "1",
    "transaction.state.log.min.isr": "1",
}

Order = list[tuple[str, int, int]]


class Load:
    """An idempotent producer and a consumer in a group, until it is over; and what they were refused."""

    def __init__(self, bootstrap: str) -> None:
        self.errors: list[str] = []
        self.sent: list[str] = []
        self.received: set[str] = set()
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._all_sent = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: bool(self.received) or None, SECONDS, "the consumer gets something")
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(SECONDS)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for number in count():
            value = str(number)
            producer.produce(TOPIC, value, partition=number % len(REPLICAS), on_delivery=self._delivered)
            self.sent.append(value)
            producer.poll(0.005)
            if self._is_over.is_set():
                break
        self._all_sent.set()
        if producer.flush(SECONDS):
            self.errors.append("not everything was delivered")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(f"producer: {error}")

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings | {"auto.commit.interval.ms": "100"})
        consumer.subscribe([TOPIC])
        silent_s = 0
        while silent_s < SECONDS and not (self._all_sent.is_set() and len(self.received) == len(self.sent)):
            message = consumer.poll(1)
            if message is None:
                silent_s += 1
                continue
            value = message.value()
            if message.error() is not None or value is None:
                self.errors.append(f"consumer: {message.error()}")
                break
            silent_s = 0
            self.received.add(value.decode())
        consumer.close()


def leaders(cluster: Cluster) -> list[int]:
    """Who leads the partitions of the topic, in their order."""
    shown = CliRunner().invoke(
        main, ["topics", "--describe", "--topic", TOPIC, "--json", "--bootstrap-server", cluster.bootstrap_servers]
    )
    assert shown.exit_code == 0, shown.output
    return [row["leader"] for row in json.loads(shown.stdout)[0]["partitions"]]


def moves(cluster: Cluster, *, of_groups: bool = False) -> Order:
    """All changes of leaders that are nothing else, in the order of the metadata log: topic, partition, leader.

    `of_groups`: those that change who is in sync as well, as the leader of a storage group does when it begins.
    """
    segment = cluster.node(4).directory / partition_directory(CLUSTER_METADATA, 0) / f"{0:020}.log"
    options = ["--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(segment)]
    lines = CliRunner().invoke(main, ["dump-log", *options]).stdout.splitlines()
    names: dict[str, str] = {}
    found: Order = []
    for line in lines:
        payload = line.partition("payload: ")[2]
        if not payload.startswith("{"):
            continue
        record = json.loads(payload)
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] == "PARTITION_CHANGE_RECORD" and "leader" in data and (of_groups or "isr" not in data):
            found.append((names[data["topicId"]], data["partitionId"], data["leader"]))
    return found


def create_topic(cluster: Cluster) -> None:
    topic = NewTopic(TOPIC, num_partitions=len(REPLICAS), replica_assignment=REPLICAS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([topic])[TOPIC].result(SECONDS)
    for node in cluster.nodes:
        if node.address is not None:
            asked = AdminClient({"bootstrap.servers": node.address})
            known = lambda asked=asked: TOPIC in asked.list_topics(timeout=SECONDS).topics or None  # noqa: E731
            wait_until(known, SECONDS, f"node {node.id} knows the topic")


def all_led_by_one(cluster: Cluster) -> int:
    """The other two brokers restart; how many moves there were before they are back."""
    for node_id in (2, 3):
        cluster.node(node_id).stop()
    wait_until(lambda: leaders(cluster) == [1] * len(REPLICAS) or None, SECONDS, "broker 1 leads everything")
    before = len(moves(cluster))
    for node_id in (2, 3):
        cluster.node(node_id).start()
    return before


def test_they_go_back_one_after_the_other_and_no_client_hears_of_it() -> None:
    with Cluster(brokers=3, controllers=1, config=CONFIG) as cluster:
        create_topic(cluster)
        load = Load(cluster.bootstrap_servers)
        with load.running():
            before = all_led_by_one(cluster)
            preferred = [nodes[0] for nodes in REPLICAS]
            wait_until(lambda: leaders(cluster) == preferred or None, SECONDS, "everybody leads what they should")
        order = [move for move in moves(cluster)[before:] if move[0] == TOPIC]
        assert load.errors == []
        assert load.received == set(load.sent)
        assert order == [(TOPIC, 1, 2), (TOPIC, 2, 3), (TOPIC, 4, 2), (TOPIC, 5, 3)]
