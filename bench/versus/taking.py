"""Clients that take records and say that they are done with them: in transactions, and from share groups.

Each function runs in a process of its own (`bench.child`), with librdkafka.
"""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, ShareConsumer

from bench.measure import percentile

POLL_S = 0.05
LIMIT_S = 120.0
"""A client that was given nothing for so long ends with an error."""


def transform(address: str, source: str, target: str, name: str, records: int, every_s: float) -> Sequence[float]:
    """Each record of `source` goes to `target`, its position in the same transaction, which is committed each `every_s`
    seconds, or after each record where that is 0.

    [records a second, p50 and p99 of the ms from the request to commit to its answer]
    """
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(LIMIT_S)
    consumer.subscribe([source])
    first = _some(consumer, 1)
    commits: list[float] = []
    done, begun = 0, time.perf_counter()
    while done < records:
        producer.begin_transaction()
        until = time.perf_counter() + every_s
        messages, first = first, []
        while True:
            for message in messages:
                producer.produce(target, message.value(), message.key())
            done += len(messages)
            producer.poll(0)
            if done >= records or (done and time.perf_counter() >= until):
                break
            messages = _some(consumer, min(500, records - done) if every_s else 1)
        if not every_s and done < records:
            first = _some(consumer, 1)
        asked = time.perf_counter()
        places = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), LIMIT_S)
        producer.commit_transaction(LIMIT_S)
        commits.append((time.perf_counter() - asked) * 1000)
    rate = done / (time.perf_counter() - begun)
    consumer.close()
    return rate, percentile(commits, 50), percentile(commits, 99)


def _some(consumer: Consumer, count: int) -> list[Any]:
    until = time.perf_counter() + LIMIT_S
    while time.perf_counter() < until:
        if messages := consumer.consume(count, POLL_S):
            return messages
    raise RuntimeError("no record came")


def share(address: str, topic: str, group: str, records: int) -> Sequence[float]:
    """One member takes all records, accepts each, and commits what a poll gave it.

    [records a second, p50 and p99 of the ms from the request to commit to its answer], from the first record on:
    of nine tenths, as in the end there are brokers that have nothing left, and each holds a request for half a second
    """
    settings = {"bootstrap.servers": address, "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    commits: list[float] = []
    done, begun, rate, until = 0, 0.0, 0.0, time.perf_counter() + LIMIT_S
    while done < records and (now := time.perf_counter()) < until:
        messages: Any = consumer.poll(POLL_S) or ()
        if messages:
            begun = begun or now
            for message in messages:
                consumer.acknowledge(message)
            asked = time.perf_counter()
            consumer.commit_sync(LIMIT_S)
            commits.append((time.perf_counter() - asked) * 1000)
            done += len(messages)
            if done >= records * 9 // 10:
                rate = rate or done / (time.perf_counter() - begun)
    if done < records:
        raise RuntimeError(f"only {done} of {records} records came")
    consumer.close()
    return rate, percentile(commits, 50), percentile(commits, 99)
