"""A topic forgets what all of its groups have consumed, and nothing that a group or an open transaction needs."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from tests.wire.test_cli import ask

from penstock.testing.quorum_view import wait_until

TIMEOUT_S = 60


class Queue:
    """A topic with one partition and `retention.consumed`."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.partition = bootstrap, TopicPartition(name, 0)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.reader = self.group("nobody")
        topic = NewTopic(name, 1, 1, config={"retention.consumed": "true"})
        self.admin.create_topics([topic])[name].result(TIMEOUT_S)

    def group(self, name: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"{name}-{self.partition.topic}"})

    def commit(self, group: str, offset: int) -> None:
        consumer = self.group(group)
        wanted = TopicPartition(self.partition.topic, 0, offset)
        consumer.commit(offsets=[wanted], asynchronous=False)
        consumer.close()

    def begins_at(self, offset: int, hours: int) -> None:
        """Wait until it does; retention is looked after when it is changed."""
        entry = ConfigEntry("retention.ms", str(hours * 3_600_000), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.partition.topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

        def look() -> bool | None:
            return self.reader.get_watermark_offsets(self.partition, TIMEOUT_S)[0] == offset or None

        wait_until(look, TIMEOUT_S, f"the log begins at {offset}")


@pytest.fixture
def queue(bootstrap: str, topic: str) -> Iterator[Queue]:
    queue = Queue(bootstrap, topic)
    yield queue
    queue.reader.close()


def test_its_log_follows_the_slowest_group_and_stops_at_open_transactions(queue: Queue) -> None:
    name = queue.partition.topic
    producer = Producer({"bootstrap.servers": queue.bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    for count in (10, 5):
        producer.begin_transaction()
        for number in range(count):
            producer.produce(name, str(number).encode(), partition=0)
        producer.flush(TIMEOUT_S)
        if count == 10:
            producer.commit_transaction(TIMEOUT_S)
    queue.commit("slow", 4)
    queue.commit("fast", 16)
    queue.begins_at(4, hours=1)
    held = ask(queue.bootstrap, "groups", "--holding", name)
    assert [(row["group"], row["current_offset"]) for row in held] == [(f"slow-{name}", 4), (f"fast-{name}", 16)]
    queue.admin.delete_consumer_groups([f"slow-{name}"])[f"slow-{name}"].result(TIMEOUT_S)
    queue.begins_at(11, hours=2)
    producer.commit_transaction(TIMEOUT_S)
    queue.begins_at(16, hours=3)
