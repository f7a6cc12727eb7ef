"""A steady stream of time-stamped records, and the consumer that reads how old each is.

Both are processes of their own on one machine, so they share its monotonic clock.
"""

import struct
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.child import Child
from bench.load import QUEUE_RECORDS
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
    """Send `rate` records a second in small steps; -1.0 as the last stamp says that it is over."""
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
    """Read until the end is marked; the first fifth is left out."""
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
