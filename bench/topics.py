"""Topics of any system that speaks the protocol, by librdkafka's client; and the logs of their partitions on disk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from penstock.log.checkpoint import CorruptCheckpointError, read_offsets
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_OFFSETS, LOG_SUFFIX
from penstock.protocol.batch import BatchHeader
from penstock.protocol.records import Record, iterate_batches, iterate_records
from penstock.testing.quorum_view import wait_until

LIMIT_S = 120.0
IN_SYNC_LIMIT_S = 300.0
Address = str | Mapping[str, str]
"""Of brokers; or the settings with which librdkafka comes to them."""
Partitions = dict[int, Any]
"""By partition, as librdkafka has the metadata."""


def coming_to(address: Address) -> dict[str, Any]:
    return {"bootstrap.servers": address} if isinstance(address, str) else dict(address)


def admin_of(address: Address) -> AdminClient:
    """Its logs of lost nodes are suppressed; its futures end with it."""
    return AdminClient({**coming_to(address), "log_level": 0})


def create_topic(
    address: Address,
    topic: str,
    partitions: int = 1,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
    *,
    places: Sequence[Sequence[int]] = (),
    limit_s: float = LIMIT_S,
) -> None:
    """Returns when the topic exists; with `places`, the replicas of each partition are on these nodes."""
    placed = {"replica_assignment": [list(one) for one in places]} if places else {"replication_factor": replicas}
    new, client = NewTopic(topic, len(places) or partitions, config=dict(config or {}), **placed), admin_of(address)
    client.create_topics([new], request_timeout=limit_s)[topic].result(limit_s)


def delete_topic(address: str, *topics: str) -> None:
    client = admin_of(address)
    for future in client.delete_topics(list(topics), request_timeout=LIMIT_S).values():
        future.result(LIMIT_S)


GROUP = ResourceType.GROUP


def set_config(address: str, name: str, key: str, value: str, of: ResourceType = ResourceType.TOPIC) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource, client = ConfigResource(of, name, incremental_configs=[entry]), admin_of(address)
    client.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def leaders_of(address: str, topic: str) -> dict[int, int]:
    partitions: Partitions = admin_of(address).list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    return {index: one.leader for index, one in partitions.items()}


def wait_for_partitions(
    address: str, topic: str, is_so: Callable[[Partitions], bool], what: str, limit_s: float = IN_SYNC_LIMIT_S
) -> None:
    """TimeoutError has the state of the partitions."""
    client, seen = admin_of(address), Partitions()

    def look() -> bool | None:
        try:
            seen.update(client.list_topics(topic, timeout=10).topics[topic].partitions)
        except KafkaException:  # the node that it asked is gone, or hangs
            return None
        return (bool(seen) and is_so(seen)) or None

    try:
        wait_until(look, limit_s, what)
    except TimeoutError as error:
        shown = {index: (one.leader, one.isrs) for index, one in seen.items()}
        raise TimeoutError(f"{error}: leader and replicas in sync of each partition are {shown}") from None


def wait_in_sync(address: str, topic: str, count: int) -> None:
    """Until each partition has a leader and so many replicas in sync."""

    def are(found: Partitions) -> bool:
        return all(one.leader >= 0 and len(one.isrs) == count for one in found.values())

    wait_for_partitions(address, topic, are, f"{count} replicas of {topic} in sync")


def wait_led_by(address: str, topic: str, leaders: Sequence[int]) -> None:
    """Until these lead, each its partition."""

    def lead(found: Partitions) -> bool:
        return {index: one.leader for index, one in found.items()} == dict(enumerate(leaders))

    wait_for_partitions(address, topic, lead, f"leaders {leaders}")


def wait_led_without(address: str, topic: str, node: int) -> None:
    wait_for_partitions(
        address, topic, lambda found: all(one.leader not in (-1, node) for one in found.values()), f"others than {node}"
    )


def read_all(address: Address, topic: str) -> list[tuple[bytes, bytes]]:
    """Key and value of each record that is committed, in any order. TimeoutError if some do not come."""
    settings = {"group.id": "reader-of-all", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({**coming_to(address), **settings})
    try:
        places = [
            TopicPartition(topic, index, 0) for index in consumer.list_topics(topic, LIMIT_S).topics[topic].partitions
        ]
        consumer.assign(places)
        found, left = list[tuple[bytes, bytes]](), len(places)
        while left:
            message = consumer.poll(LIMIT_S)
            if message is None:
                raise TimeoutError(f"only {len(found)} records of {topic} come")
            if (error := message.error()) is None:
                found.append((message.key() or b"", message.value() or b""))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            else:
                left -= 1
        return found
    finally:
        consumer.close()


def end_of(address: str, topic: str) -> Callable[[], int]:
    """The sum of the partitions' ends, at each call."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "log_level": 0})

    def look() -> int:
        partitions = consumer.list_topics(topic, LIMIT_S).topics[topic].partitions
        places = [TopicPartition(topic, index) for index in partitions]
        return sum(consumer.get_watermark_offsets(one, timeout=LIMIT_S)[1] for one in places)

    return look


def fill(
    address: str, count: int, replicas: int = 1, *, first: int = 0, per_topic: int = 1_000, waits: bool = False
) -> None:
    """Partitions without records; `waits` until each topic's replicas are in sync."""
    client, numbers, per_request = admin_of(address), range(first, count, per_topic), max(1, 500 // per_topic)
    for begin in range(0, len(numbers), per_request):
        new = [
            NewTopic(f"full-{number}", min(per_topic, count - number), replicas)
            for number in numbers[begin : begin + per_request]
        ]
        for topic, future in client.create_topics(new, request_timeout=600).items():
            try:
                future.result(600)
            except KafkaException as error:  # the client repeats a request whose answer takes long
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            if waits:
                wait_in_sync(address, topic, replicas)


def segments(directory: Path) -> list[Path]:
    """In order; the last one is active."""
    return sorted(directory.glob(f"*{LOG_SUFFIX}"))


def active_offset(directory: Path) -> int:
    """The base of the active segment: up to there a log may be compacted."""
    return int(segments(directory)[-1].stem)


def batches(directory: Path) -> Iterator[tuple[BatchHeader, Iterator[Record]]]:
    for segment in segments(directory):
        content = segment.read_bytes()
        for position, header in iterate_batches(content):
            yield header, iterate_records(content, position, header)


def cleaned_to(directory: Path) -> int:
    topic, _, partition = directory.name.rpartition("-")
    try:
        return read_offsets(Disk(), str(directory.parent / CLEANED_OFFSETS)).get((topic, int(partition)), 0)
    except (CorruptCheckpointError, OSError):  # Kafka begins with an empty file
        return 0
