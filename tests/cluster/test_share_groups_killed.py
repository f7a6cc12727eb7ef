"""Leaders of partitions and share coordinators are killed under the members of a share group, of both clients.

Each record that was acknowledged by its producer is delivered until somebody accepts it; one whose acceptance was
answered is never delivered again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import AcknowledgeType as TheirType
from confluent_kafka import Producer
from confluent_kafka import ShareConsumer as TheirConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.main import main
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.blocking import BlockingShareConsumer
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

TOPIC, GROUP = "jobs", "workers"
PARTITIONS = 3
RECORDS = 3_000
LIMIT_S = 150
CONFIG = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "2000",
    "group.share.record.lock.duration.ms": "3000",
    "group.share.delivery.count.limit": "10",
    "share.coordinator.state.topic.num.partitions": "3",
}
Place = tuple[int, int]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True, config=CONFIG) as three:
        at = ["--bootstrap-server", three.bootstrap_servers]
        group = ["--entity-type", "groups", "--entity-name", GROUP]
        key = "share.auto.offset.reset=earliest"
        result = CliRunner().invoke(main, ["configs", *group, "--alter", "--add-config", key, *at])
        assert result.exit_code == 0, result.output
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result()
        yield three


class Books:
    """What was delivered, to whom, and which acceptances were answered."""

    def __init__(self) -> None:
        self.sent: set[Place] = set()
        self.delivered: dict[Place, int] = {}
        self.accepted: dict[Place, str] = {}

    def produced(self, error: Any, message: Any) -> None:
        if error is None:
            self.sent.add((message.partition(), message.offset()))

    def deliver(self, member: str, place: Place) -> None:
        assert place not in self.accepted, f"{member} gets {place} again, which {self.accepted[place]} accepted"
        self.delivered[place] = self.delivered.get(place, 0) + 1

    def accept(self, member: str, place: Place) -> None:
        assert place not in self.accepted, f"{member} and {self.accepted[place]} have accepted {place}"
        self.accepted[place] = member


class Ours:
    def __init__(self, bootstrap: str, books: Books) -> None:
        self._books = books
        settings = ShareConsumerSettings(group_id=GROUP, share_acknowledgement_mode="explicit")
        self._consumer = BlockingShareConsumer(bootstrap, settings)
        self._consumer.subscribe([TOPIC])

    def turn(self) -> None:
        places = []
        for record in self._consumer.poll(50):
            place = (record.partition, record.offset)
            self._books.deliver("ours", place)
            is_released = record.offset % 7 == 0 and record.delivery_count == 1
            self._consumer.acknowledge(record, AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT)
            if not is_released:
                places.append(place)
        if places:
            try:
                outcome = self._consumer.commit_sync(30_000)
            except TimeoutError:
                return
            holds = {partition.partition for partition, error in outcome.items() if error is None}
            for place in places:
                if place[0] in holds:
                    self._books.accept("ours", place)

    def close(self) -> None:
        self._consumer.close()


class Theirs:
    def __init__(self, bootstrap: str, books: Books) -> None:
        self._books = books
        self._said: set[Place] = set()
        self._consumer = TheirConsumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
        )
        self._consumer.set_acknowledgement_commit_callback(self._acknowledged)
        self._consumer.subscribe([TOPIC])

    def _acknowledged(self, offsets: Any, error: Any) -> None:
        for partition, some in offsets.items():
            for offset in some:
                place = (partition.partition, offset)
                if place in self._said:
                    self._said.discard(place)
                    if error is None:
                        self._books.accept("theirs", place)

    def turn(self) -> None:
        messages: Any = self._consumer.poll(0.05) or ()
        for message in messages:
            if message.error() is not None:
                continue
            place = (message.partition(), message.offset())
            self._books.deliver("theirs", place)
            self._said.add(place)
            self._consumer.acknowledge(message, TheirType.ACCEPT)

    def close(self) -> None:
        self._consumer.close()


def leader_of(cluster: Cluster, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    leader: int = admin.list_topics(timeout=LIMIT_S).topics[topic].partitions[partition].leader
    return leader


def test_no_record_is_lost_and_none_comes_again_once_accepted(cluster: Cluster) -> None:
    bootstrap, books = cluster.bootstrap_servers, Books()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    members: list[Ours | Theirs] = [Ours(bootstrap, books), Theirs(bootstrap, books), Ours(bootstrap, books)]
    sent, victims = 0, [(TOPIC, 0), (SHARE_GROUP_STATE, 0), (TOPIC, 1), (SHARE_GROUP_STATE, 1)]
    down: int | None = None
    ends_s = time.monotonic() + LIMIT_S
    while sent < RECORDS or len(books.accepted) < len(books.sent) or victims:
        missing = sorted(books.sent - books.accepted.keys())
        assert time.monotonic() < ends_s, f"{len(missing)} of {len(books.sent)} are missing: {missing[:20]}"
        for _ in range(10 if sent < RECORDS else 0):
            producer.produce(TOPIC, b"%d" % sent, partition=sent % PARTITIONS, on_delivery=books.produced)
            sent += 1
        producer.poll(0)
        for member in members:
            member.turn()
        if victims and len(books.accepted) > RECORDS * (5 - len(victims)) // 6:
            if down is not None:
                cluster.node(down).start()
            down = leader_of(cluster, *victims.pop(0))
            if down > 0:
                cluster.node(down).kill()
            else:
                down = None
        if sent >= RECORDS and len(books.sent) < sent:
            producer.flush(1)
    assert len(books.sent) == RECORDS
    for member in members:
        member.close()
    assert books.sent == books.accepted.keys()
    print(f"{RECORDS} records, {sum(books.delivered.values())} deliveries, most {max(books.delivered.values())}")
