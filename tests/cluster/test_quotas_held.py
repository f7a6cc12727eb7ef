"""Quotas over half a minute: real clients get what they may, within a twentieth, and a neighbour notices nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from bench.child import Child
from bench.measure import percentile
from bench.topics import create_topic
from bench.wire import Wire, produce_frame
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.client.admin import Admin
from penstock.testing import Cluster

RATE, SIZE = 1_000_000, 10_000
"""Bytes a second, and of a record; its share of a batch's header and its own are a thousandth of that."""
SETTLED_S, COUNTED_S = 20.0, 30.0
"""First a client spends what a quota saves up for it: some ten seconds."""
FILLED = int(1.5 * (SETTLED_S + COUNTED_S) * RATE) // SIZE
PAUSE_S = 0.01


def a_second(taken_s: Sequence[float], begun_s: float) -> float:
    """Bytes, by when each record was answered, or came."""
    counted = [at for at in taken_s if at >= begun_s + SETTLED_S]
    return (len(counted) - 1) * SIZE / (counted[-1] - counted[0])


def produced(address: str, client: str) -> float:
    settings = {"bootstrap.servers": address, "client.id": client, "linger.ms": 20, "batch.size": 50_000}
    producer = Producer({**settings, "queue.buffering.max.messages": 50})
    taken_s: list[float] = []

    def told(error: KafkaError | None, _: Message) -> None:
        assert error is None, error
        taken_s.append(time.monotonic())

    begun_s = time.monotonic()
    while time.monotonic() < begun_s + SETTLED_S + COUNTED_S:
        try:
            producer.produce("written", b"x" * SIZE, on_delivery=told)
            producer.poll(0)
        except BufferError:
            producer.poll(PAUSE_S)
    return a_second(taken_s, begun_s)


def consumed(address: str, client: str) -> float:
    settings = {"bootstrap.servers": address, "client.id": client, "group.id": client, "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("filled", 0, 0)])
    taken_s: list[float] = []
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + SETTLED_S + COUNTED_S:
        if (message := consumer.poll(PAUSE_S)) is not None:
            assert message.error() is None, message.error()
            taken_s.append(time.monotonic())
    consumer.close()
    return a_second(taken_s, begun_s)


def fill(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    for _ in range(FILLED):
        producer.produce("filled", b"x" * SIZE)
    assert producer.flush(60) == 0


def p99_ms(address: str, seconds: float) -> float:
    """Of small requests of a neighbour, one every few ms."""
    frame, trips, until_s = produce_frame("small", b"x" * 100), list[float](), time.monotonic() + seconds
    with Wire(address) as wire:
        while time.monotonic() < until_s:
            trips.append(wire.round_trip_ms(frame))
            time.sleep(PAUSE_S)
    return percentile(trips, 99)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_clients_get_what_they_may_and_a_neighbour_notices_nothing() -> None:
    with Cluster(process=True) as cluster:
        address = cluster.bootstrap_servers
        for topic in ("written", "filled", "small"):
            create_topic(address, topic)
        fill(address)
        async with Admin(address) as admin:
            await admin.quotas.alter({"client-id": "writer"}, {"producer_byte_rate": RATE})
            await admin.quotas.alter({"client-id": "reader"}, {"consumer_byte_rate": RATE})
        alone_ms = p99_ms(address, 10)
        writing, reading = Child(produced, address, "writer"), Child(consumed, address, "reader")
        time.sleep(SETTLED_S)
        beside_ms = p99_ms(address, COUNTED_S)
        rates = [writing.result(), reading.result()]
    assert all(0.95 * RATE <= rate <= 1.05 * RATE for rate in rates), rates
    assert beside_ms <= max(20.0, 2 * alone_ms), f"alone {alone_ms:.1f} ms"
