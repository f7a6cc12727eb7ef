"""What clients do with a node of either system, and what they must find again: records, offsets, settings."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bench.hand_in_hand.node import PAUSE_S, HandError, Node, wait_until
from bench.topics import admin_of, create_topic, read_all

PARTITIONS: Final = 3
RETENTION_MS: Final = "604800001"
LIMIT_S: Final = 300.0
"""Time is not measured here: a busy machine is no failure."""
NOT_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
GROUPS: Final = ("readers", "billing-service", "g", "a.group-with_a.long.name.2026", "café")
"""Names whose hash codes are positive and negative, so that they lie in different partitions."""


@dataclass
class Promise:
    """All acknowledged data, on any node: each system has to find all of it."""

    topic: str
    records: dict[bytes, bytes] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    """By group: its commit for partition 0."""


def wait_until_up(address: str, node: Node) -> None:
    wait_until(f"{node.system} serves", lambda: count(address) > 0, [node])


def count(address: str) -> int:
    """The number of brokers by a node; 0 if it does not answer."""
    try:
        return len(admin_of(address).list_topics(timeout=2).brokers)
    except Exception:
        return 0


def create(address: str, topic: str) -> None:
    create_topic(address, topic, PARTITIONS, config={"retention.ms": RETENTION_MS}, limit_s=LIMIT_S)


def produce(address: str, promise: Promise, stint: int, count: int = 300) -> None:
    """All acknowledged, in batches of the codecs in turn."""
    codec = ("none", "gzip", "lz4", "zstd")[stint % 4]
    records = {f"{stint}-{index}".encode(): f"value {index} of stint {stint}".encode() for index in range(count)}
    produce_all(address, promise.topic, records.items(), {"enable.idempotence": True, "compression.type": codec})
    promise.records.update(records)


def produce_all(
    address: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    settings: Mapping[str, str | int | bool] | None = None,
    *,
    partitions: int = 0,
    headers: list[tuple[str, str | bytes | None]] | None = None,
) -> None:
    """All acknowledged; with `partitions`, to these in turn. Raises HandError."""
    producer = Producer({"bootstrap.servers": address, **(settings or {})})
    failed: list[object] = []
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key,
            partition=number % partitions if partitions else -1,
            headers=headers or [],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    if producer.flush(LIMIT_S) or failed:
        raise HandError(f"not all records were acknowledged: {failed[:3]}")


def commit(address: str, promise: Promise, stint: int) -> None:
    for index, group in enumerate(GROUPS):
        consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
        places = [TopicPartition(promise.topic, 0, 1 + stint * 10 + index)]
        _patiently(consumer.commit, offsets=places, asynchronous=False)
        consumer.close()
        promise.committed[group] = places[0].offset


def check(address: str, promise: Promise) -> None:
    """All that was acknowledged is there, once. Raises HandError."""
    found = sorted(_patiently(read_all, address, promise.topic))
    if found != sorted(promise.records.items()):
        raise HandError(f"{len(promise.records)} records were acknowledged, {len(found)} were read, or they differ")
    admin = admin_of(address)
    for group, offset in promise.committed.items():
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(promise.topic, 0)])
        answer = _patiently(
            lambda asked, group: admin.list_consumer_group_offsets([asked])[group].result(LIMIT_S), asked, group
        )
        seen = [partition.offset for partition in answer.topic_partitions]
        if seen != [offset]:
            raise HandError(f"group {group} committed {offset}, and {seen} was found")
    resource = ConfigResource(ResourceType.TOPIC, promise.topic)
    settings = admin.describe_configs([resource])[resource].result(LIMIT_S)
    if settings["retention.ms"].value != RETENTION_MS:
        raise HandError(f"retention.ms of the topic is {settings['retention.ms'].value}")


def _patiently(ask: Callable[..., Any], *arguments: object, **options: object) -> Any:
    """Repeats until the node leads its partitions and its coordinators have loaded theirs."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return ask(*arguments, **options)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)
