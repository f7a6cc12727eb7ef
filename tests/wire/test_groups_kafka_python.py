"""Groups as kafka-python lives them."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

PARTITIONS = 12
POLLS = 1500


def test_kafka_python_members_share_leave_and_commit(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])

    def start(name: str) -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id=topic,
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        )

    consumers = {name: start(name) for name in ("anna", "berta", "carla")}

    def poll_until(shares: dict[str, int]) -> None:
        found: dict[str, int] = {}
        for _ in range(POLLS):
            for consumer in consumers.values():
                consumer.poll(timeout_ms=10)
            found = {name: len(consumer.assignment()) for name, consumer in consumers.items()}
            if found == shares:
                return
        raise AssertionError(found)

    poll_until({"anna": 4, "berta": 4, "carla": 4})
    consumers.pop("carla").close()
    poll_until({"anna": 6, "berta": 6})
    anna = consumers["anna"]
    mine = min(anna.assignment())
    anna.commit({mine: OffsetAndMetadata(41, "half way", -1)})
    assert anna.committed(mine, metadata=True) == OffsetAndMetadata(41, "half way", -1)
    assert anna.committed(TopicPartition(topic, (mine.partition + 1) % PARTITIONS)) is None
    for consumer in consumers.values():
        consumer.close()
    admin.close()
