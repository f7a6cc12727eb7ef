"""The load, in a process of its own: librdkafka through confluent-kafka, so that the client is not the limit.

`python -m bench.load produce ADDRESS TOPIC …` prints one JSON object: what was done between two points in time.
"""

import argparse
import itertools
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.child import Child, answer

QUEUE_RECORDS = 1_000_000
CHUNK = 10_000
STATISTICS_MS = 500
LARGE = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": 1_000_000}
"""Batches of 1 MB."""
LARGE_FETCHES = {"fetch.queue.backoff.ms": 5, "queued.max.messages.kbytes": 1_000_000}
"""A consumer that always asks for more."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a client did: from its first record to the last acknowledgement, in seconds of the machine's clock.

    `p50_ms` and `p99_ms` are of its requests' round trips as the client itself measures them; 0 where it was not asked.
    """

    begun: float
    ended: float
    records: int
    size_bytes: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.begun

    @property
    def records_per_s(self) -> float:
        """Rate in records."""
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Rate in MB (10^6 bytes)."""
        return self.size_bytes / self.seconds / 1e6


def create_topic(
    address: str, topic: str, partitions: int = 1, replicas: int = 1, config: dict[str, str] | None = None
) -> None:
    """Create a topic and wait for it."""
    _create(address, NewTopic(topic, partitions, replicas, config=config or {}))


def create_assigned(address: str, topic: str, assignment: Sequence[Sequence[int]]) -> None:
    """Create a topic with these replicas of each partition, and wait for it."""
    _create(address, NewTopic(topic, len(assignment), replica_assignment=[list(one) for one in assignment]))


def _create(address: str, new: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([new], request_timeout=120).values():
        future.result(120)


def delete_topic(address: str, topic: str) -> None:
    """Delete a topic and wait for it."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.delete_topics([topic]).values():
        future.result(60)


def run(kind: str, address: str, topic: str, *, records: int, size: int, **settings: str | int) -> Load:
    """Run a load in a process of its own."""
    return start(kind, address, topic, records=records, size=size, **settings)()


class Started:
    """A load that runs; called, it waits for the result."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def __call__(self) -> Load:
        """Run it and return what it did."""
        return Load(**self._child.result())


def start(kind: str, address: str, topic: str, *, records: int, size: int, **settings: str | int) -> Started:
    """Start a load in a process of its own. `partitions`, comma-separated, says what to consume; `round.trips=1` has
    the client measure its requests; `text=1` makes values that compress as logs do; `keys` is how many keys there are,
    which are part of a record's size.
    """
    words = [f"{key}={value}" for key, value in settings.items()]
    return Started(Child("bench.load", kind, address, topic, records, size, *words))


def together(loads: list[Load]) -> Load:
    """Loads that ran at once, as one."""
    return Load(
        min(one.begun for one in loads),
        max(one.ended for one in loads),
        sum(one.records for one in loads),
        sum(one.size_bytes for one in loads),
    )


class RoundTrips:
    """The round trips of a client's requests, out of the windows of its own statistics, weighted by their counts."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, float, float]] = []

    def __call__(self, text: str) -> None:
        """Take the latencies of one window."""
        for broker in json.loads(text)["brokers"].values():
            seen = broker["rtt"]
            if seen["cnt"] > 10:
                self._windows.append((seen["cnt"], seen["p50"] / 1e3, seen["p99"] / 1e3))

    def percentiles_ms(self) -> tuple[float, float]:
        """(p50, p99)."""
        counts = [count for count, _, _ in self._windows]
        if not counts:
            return 0.0, 0.0
        return (
            statistics.fmean((p50 for _, p50, _ in self._windows), counts),
            statistics.fmean((p99 for _, _, p99 in self._windows), counts),
        )


def record_chunks(size: int, *, text: bool, keys: int) -> Iterator[list[dict[str, bytes]]]:
    """Chunks of records, without end."""
    if not keys:
        return itertools.cycle(value_chunks(size, text=text))
    names = [b"%010d" % number for number in range(keys)]
    draw, value = random.Random(1), b"x" * (size - len(names[0]))
    return ([{"key": key, "value": value} for key in draw.choices(names, k=CHUNK)] for _ in itertools.count())


def value_chunks(size: int, *, text: bool) -> list[list[dict[str, bytes]]]:
    """Chunks of records to send again and again."""
    if not text:
        return [[{"value": b"x" * size}] * CHUNK]
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(2000)]
    lines = (" ".join(draw.choices(words, k=size // 3)).encode()[:size] for _ in itertools.count())
    return [[{"value": value} for value in itertools.islice(lines, 1000)] * (CHUNK // 1000)]


def produce(address: str, topic: str, records: int, size: int, settings: dict[str, str]) -> Load:
    """Produce `records` values of `size` bytes; all must be acknowledged."""
    trips = RoundTrips()
    chunks = record_chunks(size, text=bool(settings.pop("text", "")), keys=int(settings.pop("keys", 0)))
    if settings.pop("round.trips", ""):
        settings["statistics.interval.ms"] = str(STATISTICS_MS)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "acks": 1,
            "stats_cb": trips,
            **settings,
        }
    )
    producer.list_topics(topic, 10)
    begun, sent = time.perf_counter(), 0
    while sent < records:
        messages = next(chunks)[: records - sent]
        while len(producer) > QUEUE_RECORDS - 2 * CHUNK:
            producer.poll(0.01)
        sent += producer.produce_batch(topic, messages)
        producer.poll(0)
    left = producer.flush(120)
    ended = time.perf_counter()
    if left:
        raise RuntimeError(f"{left} records were not acknowledged")
    if "statistics.interval.ms" in settings:
        producer.poll(STATISTICS_MS / 1000 + 0.1)
    return Load(begun, ended, sent, sent * size, *trips.percentiles_ms())


def consume(address: str, topic: str, records: int, size: int, settings: dict[str, str]) -> Load:
    """Consume `records` of the partitions (0) from their beginning."""
    partitions = [int(one) for one in settings.pop("partitions", "0").split(",")]
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": False,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    taken = len(consumer.consume(1, 30))
    begun = time.perf_counter()
    while taken < records:
        messages = consumer.consume(min(CHUNK, records - taken), 10)
        if not messages:
            raise RuntimeError(f"only {taken} of {records} records came")
        taken += len(messages)
    ended = time.perf_counter()
    consumer.close()
    return Load(begun, ended, taken, taken * size)


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
    answer(asdict(work(words.address, words.topic, words.records, words.size, settings)))


if __name__ == "__main__":
    main()
