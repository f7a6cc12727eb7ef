"""Clients of some questions, each in processes of their own: a paced stream, many connections, a group of many members.

Producer and consumer of the stream share their machine's monotonic clock: records have the time of their sending.
"""

import statistics
import struct
import sys
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.child import Child
from bench.load import QUEUE_RECORDS, RoundTrips
from bench.measure import percentile

STAMP = struct.Struct("<d")
TICK_S = 0.002
SWITCH_S = 0.0005


def latencies_ms(address: str, topic: str, *, rate: int, size: int, seconds: float) -> list[float]:
    """[p50, p99, p99.9] from the producer's call to the consumer's."""
    consumer = Child(_consume, address, topic, seconds)
    Child(_produce, address, topic, rate, size, seconds).result()
    return consumer.result()


def _produce(address: str, topic: str, rate: int, size: int, seconds: float) -> None:
    """Sends `rate` records a second in small steps; -1.0 as the last stamp marks the end."""
    sys.setswitchinterval(SWITCH_S)
    settings = {"bootstrap.servers": address, "linger.ms": 0, "acks": 1}
    producer = Producer({**settings, "queue.buffering.max.messages": QUEUE_RECORDS})
    producer.list_topics(topic, 10)
    rest = b"x" * (size - STAMP.size)
    begun, sent = time.perf_counter() + 1.0, 0
    while (now := time.perf_counter()) < begun + seconds:
        due = int((now - begun) * rate) - sent
        if due > 0:
            producer.produce_batch(topic, [{"value": STAMP.pack(now) + rest}] * due)
            sent += due
        producer.poll(0)
        time.sleep(TICK_S)
    producer.produce(topic, STAMP.pack(-1.0) + rest)
    producer.flush(60)


def _consume(address: str, topic: str, seconds: float) -> list[float]:
    """Until the end is marked; the first fifth is left out."""
    sys.setswitchinterval(SWITCH_S)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    ages: list[tuple[float, float]] = []
    while True:
        messages = consumer.consume(1, 0.1)
        if messages:
            messages += consumer.consume(1000, 0)  # those that are there already: it waits for no more
        now = time.perf_counter()
        taken = [STAMP.unpack_from(message.value() or b"")[0] for message in messages]
        if taken and taken[-1] < 0:
            break
        ages += [(stamp, now - stamp) for stamp in taken]
    consumer.close()
    counted = [age * 1e3 for stamp, age in ages if stamp > ages[0][0] + seconds / 5]
    return [percentile(counted, percent) for percent in (50, 99, 99.9)]


PROCESSES = 2
SHORT_TICK_S = 0.0005


def round_trips_ms(address: str, topic: str, *, clients: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """(p50, p99, requests a second): percentiles of each client, their mean over all clients."""
    share = clients // PROCESSES
    children = [Child(_share, address, topic, share, rate, seconds) for _ in range(PROCESSES)]
    p50, p99, rates = zip(*(child.result() for child in children), strict=True)
    return statistics.fmean(p50), statistics.fmean(p99), sum(rates)


def _share(address: str, topic: str, clients: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """A share of the clients; their requests are spread evenly over time."""
    trips = [RoundTrips() for _ in range(clients)]
    settings = {"bootstrap.servers": address, "linger.ms": 0, "acks": 1, "statistics.interval.ms": int(seconds * 500)}
    producers = [Producer({**settings, "stats_cb": one}) for one in trips]
    for producer in producers:
        producer.list_topics(topic, 30)
    value = b"x" * 100
    begun, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < begun + seconds:
        due = int((now - begun) * rate * clients)
        for number in range(sent, due):
            producer = producers[number % clients]
            producer.produce(topic, value)
            producer.poll(0)
        sent = due
        time.sleep(SHORT_TICK_S)
    ended = time.perf_counter()
    for producer in producers:
        producer.flush(10)
        producer.poll(0)
    p50, p99 = zip(*(figures for one in trips if (figures := one.percentiles_ms())[0]), strict=True)
    return statistics.fmean(p50), statistics.fmean(p99), sent / (ended - begun)


LIMIT_S = 90.0
HEARTBEAT_MS = 250
"""Members learn of a rebalance by their heartbeats; at the default of 3 s nothing else would be seen."""


def group_times_s(address: str, topic: str, group: str, count: int) -> tuple[float, float]:
    """(from the first join to all stable, from one member's leaving to all stable); of `count` partitions."""
    settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
    consumers = [Consumer({**settings, "heartbeat.interval.ms": HEARTBEAT_MS}) for _ in range(count)]
    for consumer in consumers:
        consumer.list_topics(topic, 30)
    begun = time.perf_counter()
    for consumer in consumers:
        consumer.subscribe([topic])
    joined = _stable_at(consumers, count) - begun
    begun = time.perf_counter()
    consumers.pop(0).close()
    left = _stable_at(consumers, count) - begun
    for consumer in consumers:
        consumer.unsubscribe()  # no orderly close: the process ends
    return joined, left


def _stable_at(consumers: Sequence[Consumer], partitions: int) -> float:
    """The moment (perf_counter) at which all partitions are spread over all members."""
    until = time.perf_counter() + LIMIT_S
    while time.perf_counter() < until:
        for consumer in consumers:
            consumer.poll(0)
        shares = [one.assignment() for one in consumers]
        if all(shares) and sorted(place.partition for share in shares for place in share) == list(range(partitions)):
            return time.perf_counter()
        time.sleep(0.001)
    raise RuntimeError(f"not stable after {LIMIT_S:g} s: {sum(map(bool, shares))} members have a share")
