"""The load, in a process of its own: librdkafka through confluent-kafka, so that the client is not the limit."""

import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.child import Background, Child
from penstock.testing.quorum_view import wait_until

QUEUE_RECORDS = 1_000_000
CHUNK = 10_000
STATISTICS_MS = 500
Settings = dict[str, str | int]
LARGE: Final[Settings] = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": 1_000_000}
LARGE_FETCHES: Final[Settings] = {"fetch.queue.backoff.ms": 5, "queued.max.messages.kbytes": 1_000_000}
"""A consumer that always asks for more."""
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
ONE_BY_ONE: Final[Settings] = {"linger.ms": 0, "batch.num.messages": 1, IN_FLIGHT: 50}
"""One record a request, so that the nodes are the limit."""


@dataclass(frozen=True, slots=True)
class Load:
    """From the first record to the last acknowledgement, in seconds of the machine's clock.

    `p50_ms` and `p99_ms` are the requests' round trips by the client's own measurement; 0 without it.
    """

    begun: float
    ended: float
    records: int
    size_bytes: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    @property
    def seconds(self) -> float:
        return self.ended - self.begun

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def megabytes(self) -> float:
        """Of 10^6 bytes."""
        return self.size_bytes / 1e6

    @property
    def mb_per_s(self) -> float:
        return self.megabytes / self.seconds


def together(loads: Sequence[Load]) -> Load:
    begun, ended = min(one.begun for one in loads), max(one.ended for one in loads)
    return Load(begun, ended, sum(one.records for one in loads), sum(one.size_bytes for one in loads))


class RoundTrips:
    """A client's round trips, from the windows of its own statistics, weighted by their counts."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, float, float]] = []

    def __call__(self, text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            seen = broker["rtt"]
            if seen["cnt"] > 10:
                self._windows.append((seen["cnt"], seen["p50"] / 1e3, seen["p99"] / 1e3))

    def percentiles_ms(self) -> tuple[float, float]:
        if not self._windows:
            return 0.0, 0.0
        counts, p50, p99 = zip(*self._windows, strict=True)
        return statistics.fmean(p50, counts), statistics.fmean(p99, counts)


def _record_chunks(size: int, *, text: bool, keys: int) -> Iterator[list[dict[str, bytes]]]:
    if not keys:
        return itertools.repeat(_value_chunk(size, text=text))
    names = [b"%010d" % number for number in range(keys)]
    draw, value = random.Random(1), b"x" * (size - len(names[0]))
    return ([{"key": key, "value": value} for key in draw.choices(names, k=CHUNK)] for _ in itertools.count())


def _value_chunk(size: int, *, text: bool) -> list[dict[str, bytes]]:
    if not text:
        return [{"value": b"x" * size}] * CHUNK
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(2000)]
    lines = (" ".join(draw.choices(words, k=size // 3)).encode()[:size] for _ in itertools.count())
    return [{"value": value} for value in itertools.islice(lines, 1000)] * (CHUNK // 1000)


def _produce(
    address: str, topic: str, records: int, size: int, settings: Settings, text: bool, keys: int, round_trips: bool
) -> Load:
    trips, chunks = RoundTrips(), _record_chunks(size, text=text, keys=keys)
    given: Settings = {"acks": 1, "queue.buffering.max.messages": QUEUE_RECORDS, **settings}
    if round_trips:
        given["statistics.interval.ms"] = STATISTICS_MS
    producer = Producer({"bootstrap.servers": address, "stats_cb": trips, **given})
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
    if round_trips:
        producer.poll(STATISTICS_MS / 1000 + 0.1)
    return Load(begun, ended, sent, sent * size, *trips.percentiles_ms())


def _consume(address: str, topic: str, records: int, size: int, settings: Settings, partitions: Sequence[int]) -> Load:
    given: Settings = {"group.id": "bench", "enable.auto.commit": False, "check.crcs": False, **settings}
    consumer = Consumer({"bootstrap.servers": address, **given})
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


def produce(
    address: str,
    topic: str,
    records: int,
    size: int,
    settings: Settings,
    *,
    text: bool = False,
    keys: int = 0,
    round_trips: bool = False,
) -> Load:
    """Returns when all records are acknowledged.

    With `text` they compress as logs do; `keys` is the number of keys, which are part of a record's size; `round_trips`
    has the client measure its requests.
    """
    return Child(_produce, address, topic, records, size, settings, text, keys, round_trips).result()


def start_consuming(
    address: str, topic: str, records: int, size: int, settings: Settings, partitions: Sequence[int] = (0,)
) -> Child[Load]:
    return Child(_consume, address, topic, records, size, settings, partitions)


TICK_S = 0.005
PATIENCE_S = 120.0


class Stream(Background):
    """Numbered records at an even rate, to the partitions in turn; by default idempotent and with acks=all."""

    def __init__(
        self, address: str, topic: str, partitions: int = 1, *, rate: int, size: int = 0, **settings: str | int | bool
    ) -> None:
        super().__init__()
        self.waits: list[tuple[float, float]] = []
        """When a record was sent, and how many ms it took."""
        self.sent = self.unanswered = 0
        self.refused: list[bytes] = []
        self.last_sent_s = [0.0] * partitions
        """Of each partition, when the newest acknowledged record was sent."""
        self.topic = topic
        self._rate, self._size = rate, size
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self._settings = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0, **given}

    def run(self) -> None:
        producer = Producer(self._settings)
        next_s = begun_s = time.perf_counter()
        while not self.is_over.is_set():
            for _ in range(int((next_s - begun_s) * self._rate) - self.sent):
                self._send(producer)
            next_s += TICK_S
            while (left_s := next_s - time.perf_counter()) > 0:
                producer.poll(left_s)
        self.unanswered = producer.flush(PATIENCE_S)

    def _send(self, producer: Producer) -> None:
        value, partition = self._value(self.sent), self.sent % len(self.last_sent_s)
        self.sent += 1
        while True:
            try:
                return producer.produce(self.topic, value, partition=partition, on_delivery=self._told)
            except BufferError:  # the client's queue is full
                producer.poll(TICK_S)

    def _value(self, number: int) -> bytes:
        return b"%0*d" % (self._size, number)

    def acknowledged(self) -> set[bytes]:
        """All values but the refused ones. RuntimeError if some were never answered."""
        if self.unanswered:
            raise RuntimeError(f"{self.unanswered} records were never answered")
        return {self._value(number) for number in range(self.sent)}.difference(self.refused)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(message.value() or b"")
            return
        waited_s = message.latency() or 0.0
        sent_s = time.perf_counter() - waited_s
        self.waits.append((sent_s, waited_s * 1000))
        self.last_sent_s[message.partition() or 0] = sent_s

    def longest_ms(self, from_s: float = 0.0, to_s: float = float("inf")) -> float:
        return max(wait for sent_s, wait in self.waits if from_s <= sent_s < to_s)

    def wait_for_more(self, count: int = 500) -> None:
        wanted = len(self.waits) + count
        self._wait(lambda: len(self.waits) >= wanted)

    def wait_until_every_partition_goes_on(self) -> None:
        now_s = time.perf_counter()
        self._wait(lambda: min(self.last_sent_s) > now_s)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        wait_until(lambda: is_so() or None, PATIENCE_S, "a producer that gets on")
