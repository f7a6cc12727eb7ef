"""A steady stream of time-stamped records, and the consumer that reads how old each is.

Both are processes of their own on one machine, so they share its monotonic clock.
"""

import argparse
import struct
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.child import Child, answer

STAMP = struct.Struct("<d")
TICK_S = 0.002


def latencies_ms(address: str, topic: str, *, rate: int, size: int, seconds: float) -> tuple[float, float, float]:
    """(p50, p99, p99.9) from the producer's call to the consumer's."""
    consumer = Child("bench.versus.paced", "consume", address, topic, rate, size, seconds)
    producer = Child("bench.versus.paced", "produce", address, topic, rate, size, seconds)
    producer.result()
    p50, p99, p999 = consumer.result()
    return p50, p99, p999


def produce(address: str, topic: str, rate: int, size: int, seconds: float) -> int:
    """Send `rate` records a second in small steps; -1.0 as the last stamp says that it is over."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 0, "acks": 1, "queue.buffering.max.messages": 1_000_000}
    )
    producer.list_topics(topic, 10)
    rest = b"x" * (size - STAMP.size)
    begun, sent = time.perf_counter() + 1.0, 0
    while (now := time.perf_counter()) < begun + seconds:
        due = int((now - begun) * rate) - sent
        if due > 0:
            value = STAMP.pack(now) + rest
            producer.produce_batch(topic, [{"value": value}] * due)
            sent += due
        producer.poll(0)
        time.sleep(TICK_S)
    producer.produce(topic, STAMP.pack(-1.0) + rest)
    producer.flush(60)
    return sent


def consume(address: str, topic: str, rate: int, size: int, seconds: float) -> tuple[float, float, float]:
    """Read until the end is marked; the first fifth is left out."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    stamps: list[float] = []
    ages: list[float] = []
    while True:
        messages = consumer.consume(1, 0.1)
        if messages:
            messages += consumer.consume(1000, 0)  # those that are there already: it waits for no more
        now = time.perf_counter()
        taken = [STAMP.unpack_from(message.value() or b"")[0] for message in messages]
        if taken and taken[-1] < 0:
            break
        stamps += taken
        ages += [now - stamp for stamp in taken]
    consumer.close()
    counted = sorted(age * 1e3 for age, stamp in zip(ages, stamps, strict=True) if stamp > stamps[0] + seconds / 5)
    p50, p99, p999 = (counted[int(len(counted) * share)] for share in (0.5, 0.99, 0.999))
    return p50, p99, p999


def main() -> None:
    """Run one side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["produce", "consume"])
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("rate", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("seconds", type=float)
    words = parser.parse_args()
    sys.setswitchinterval(0.0005)
    side = produce if words.side == "produce" else consume
    answer(side(words.address, words.topic, words.rate, words.size, words.seconds))


if __name__ == "__main__":
    main()
