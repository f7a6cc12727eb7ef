"""Records of share groups with the client that takes them one by one, librdkafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

CONFIG = {
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
}
MOST_POLLS = 500


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with Cluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def records(node: str, topic: str) -> str:
    """A topic with ten records in each of its two partitions; its group of the same name begins with the first."""
    admin = AdminClient({"bootstrap.servers": node})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()
    producer = Producer({"bootstrap.servers": node})
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush()
    return topic


class Worker:
    """Takes records, and says of each what `judge` finds."""

    def __init__(self, node: str, topic: str, judge: Callable[[bytes], AcknowledgeType]) -> None:
        settings = {"bootstrap.servers": node, "group.id": topic, "share.acknowledgement.mode": "explicit"}
        self.consumer = ShareConsumer(settings)
        self.consumer.subscribe([topic])
        self.judge = judge
        self.values: Counter[bytes] = Counter()

    def poll(self) -> None:
        messages: Any = self.consumer.poll(0.02) or ()
        for message in messages:
            assert message.error() is None, message.error()
            self.values[message.value()] += 1
            self.consumer.acknowledge(message, self.judge(message.value()))

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(MOST_POLLS):
            if holds():
                return
            self.poll()
        pytest.fail(f"{self.values}")


def test_records_are_accepted_rejected_and_come_again(node: str, records: str) -> None:
    again = {b"3", b"4"}

    def judge(value: bytes) -> AcknowledgeType:
        if value in again and worker.values[value] < 2:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if value == b"5" else AcknowledgeType.ACCEPT

    worker = Worker(node, records, judge)
    worker.until(lambda: sum(worker.values.values()) >= 22)
    worker.consumer.commit_sync(10)
    worker.consumer.close()
    assert worker.values == {b"%d" % number: 1 + (b"%d" % number in again) for number in range(20)}
    producer = Producer({"bootstrap.servers": node})
    producer.produce(records, "last")
    producer.flush()
    next_one = Worker(node, records, lambda _: AcknowledgeType.ACCEPT)
    next_one.until(lambda: bool(next_one.values))
    next_one.consumer.close()
    assert list(next_one.values) == [b"last"], "what was accepted or rejected is delivered to nobody"


def test_members_share_one_partition(node: str, records: str) -> None:
    workers = [Worker(node, records, lambda _: AcknowledgeType.ACCEPT) for _ in range(2)]
    producer = Producer({"bootstrap.servers": node})
    for number in range(20, 120):
        producer.produce(records, str(number), partition=0)
        producer.flush()
        for worker in workers:
            worker.poll()

    def have_all() -> bool:
        workers[1].poll()
        return sum(len(worker.values) for worker in workers) == 120

    workers[0].until(have_all)
    assert not workers[0].values.keys() & workers[1].values.keys()
    for worker in workers:
        assert worker.values
        worker.consumer.close()


def test_a_record_that_is_never_accepted_is_given_up(node: str, records: str) -> None:
    worker = Worker(node, records, lambda value: AcknowledgeType[("ACCEPT", "RELEASE")[value == b"7"]])
    worker.until(lambda: worker.values[b"7"] == 5 and len(worker.values) == 20)
    for _ in range(5):
        worker.poll()
    worker.consumer.close()
    assert worker.values == {b"%d" % number: 5 if number == 7 else 1 for number in range(20)}
