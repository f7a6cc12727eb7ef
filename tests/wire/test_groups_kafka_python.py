"""Groups as kafka-python lives them.

Each consumer polls in a thread of its own: it does not bear well that a poll ends while it is joining.
"""

from __future__ import annotations

import threading
from typing import Self

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

PARTITIONS = 12
WAIT_S = 90


class Group:
    """Consumers in threads; `shares` has how many partitions each has been given."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.shares: dict[str, int] = {}
        self.changed = threading.Condition()
        self.members: dict[str, tuple[KafkaConsumer, threading.Event, threading.Thread]] = {}

    def start(self, name: str) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            client_id=name,
            group_id=self.topic,
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        )
        leaving = threading.Event()
        thread = threading.Thread(target=self.run, args=(name, consumer, leaving), name=name, daemon=True)
        self.members[name] = (consumer, leaving, thread)
        thread.start()

    def run(self, name: str, consumer: KafkaConsumer, leaving: threading.Event) -> None:
        while not leaving.is_set():
            consumer.poll(timeout_ms=500)
            with self.changed:
                self.shares[name] = len(consumer.assignment())
                self.changed.notify_all()

    def wait_for(self, shares: dict[str, int]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.shares == shares, WAIT_S), self.shares

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.members):
            self.stop(name).close()

    def stop(self, name: str) -> KafkaConsumer:
        """End the member's thread; its consumer is the caller's to close."""
        consumer, leaving, thread = self.members.pop(name)
        leaving.set()
        thread.join()
        with self.changed:
            self.shares.pop(name, None)
        return consumer


def test_kafka_python_members_share_leave_and_commit(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    with Group(bootstrap, topic) as group:
        for name in ("anna", "berta", "carla"):
            group.start(name)
        group.wait_for({"anna": 4, "berta": 4, "carla": 4})
        group.stop("carla").close()
        group.wait_for({"anna": 6, "berta": 6})
        berta, anna = group.stop("berta"), group.stop("anna")
        mine = min(anna.assignment())
        anna.commit({mine: OffsetAndMetadata(41, "half way", -1)})
        assert anna.committed(mine, metadata=True) == OffsetAndMetadata(41, "half way", -1)
        assert anna.committed(TopicPartition(topic, (mine.partition + 1) % PARTITIONS)) is None
        for client in (anna, berta):
            client.close()
