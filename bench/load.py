"""The load, in a process of its own: librdkafka through confluent-kafka, so that the client is not the limit.

`python -m bench.load produce ADDRESS TOPIC …` prints one JSON object: seconds, records, bytes.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

QUEUE_RECORDS = 1_000_000
CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class Load:
    """What a client did: from its first record to the last acknowledgement."""

    seconds: float
    records: int
    size_bytes: int

    @property
    def records_per_s(self) -> float:
        """Rate in records."""
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Rate in MB (10^6 bytes)."""
        return self.size_bytes / self.seconds / 1e6


def create_topic(address: str, topic: str, partitions: int = 1) -> None:
    """Create a topic and wait for it."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(60)


def delete_topic(address: str, topic: str) -> None:
    """Delete a topic and wait for it."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.delete_topics([topic]).values():
        future.result(60)


def run(kind: str, address: str, topic: str, *, records: int, size: int, **settings: str | int) -> Load:
    """Run a load in a process of its own."""
    words = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "bench.load", kind, address, topic, str(records), str(size), *words]
    return Load(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def produce(address: str, topic: str, records: int, size: int, settings: dict[str, str]) -> Load:
    """Produce `records` values of `size` bytes; all must be acknowledged."""
    producer = Producer(
        {"bootstrap.servers": address, "queue.buffering.max.messages": QUEUE_RECORDS, "acks": 1, **settings}
    )
    producer.list_topics(topic, 10)
    chunk = [{"value": b"x" * size}] * CHUNK
    begun, sent = time.perf_counter(), 0
    while sent < records:
        messages = chunk[: records - sent]
        while len(producer) > QUEUE_RECORDS - 2 * CHUNK:
            producer.poll(0.01)
        sent += producer.produce_batch(topic, messages)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records were not acknowledged")
    return Load(time.perf_counter() - begun, sent, sent * size)


def consume(address: str, topic: str, records: int, size: int, settings: dict[str, str]) -> Load:
    """Consume `records` of partition 0 from its beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": False,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken = len(consumer.consume(1, 30))
    begun = time.perf_counter()
    while taken < records:
        messages = consumer.consume(CHUNK, 10)
        if not messages:
            raise RuntimeError(f"only {taken} of {records} records came")
        taken += len(messages)
    seconds = time.perf_counter() - begun
    consumer.close()
    return Load(seconds, taken, taken * size)


def main() -> None:
    """Run one load as the command line says and print what it did."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["produce", "consume"])
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("settings", nargs="*")
    words = parser.parse_args()
    settings = dict(word.split("=", 1) for word in words.settings)
    work = produce if words.kind == "produce" else consume
    json.dump(asdict(work(words.address, words.topic, words.records, words.size, settings)), sys.stdout)


if __name__ == "__main__":
    main()
