"""Transactions from end to end: clients that others wrote, coordinators, leaders, and readers of committed records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import aiokafka
import pytest
from aiokafka.structs import TopicPartition as Place
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.wire.test_produce_consume_confluent import WAIT_S, create_topic

from penstock.client.consumer import Consumer as OwnConsumer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition as OwnPlace

SOURCE, SINK = "-source", "-sink"


@pytest.fixture
def topics(bootstrap: str, topic: str) -> tuple[str, str]:
    for name in (topic + SOURCE, topic + SINK):
        create_topic(bootstrap, name)
    return topic + SOURCE, topic + SINK


def started(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    return producer


def reader(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )


def read_to_end(consumer: Consumer, topic: str) -> list[bytes | None]:
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = list[bytes | None]()
    while True:
        message: Any = consumer.poll(WAIT_S)
        assert message is not None, "the end comes"
        if message.error() is not None:
            return values
        values.append(message.value())


@pytest.fixture
def readers(bootstrap: str, topic: str) -> Iterator[tuple[Consumer, Consumer]]:
    committed, any_ = reader(bootstrap, topic), reader(bootstrap, topic, "read_uncommitted")
    with closing(committed), closing(any_):
        yield committed, any_


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    bootstrap: str, topics: tuple[str, str], readers: tuple[Consumer, Consumer]
) -> None:
    _, sink = topics
    producer = started(bootstrap, sink)
    for number in range(4):
        producer.begin_transaction()
        for part in range(2):
            producer.produce(sink, f"{number}.{part}".encode())
        producer.flush(WAIT_S)
        producer.commit_transaction(WAIT_S) if number % 2 else producer.abort_transaction(WAIT_S)
    committed, any_ = readers
    assert read_to_end(committed, sink) == [b"1.0", b"1.1", b"3.0", b"3.1"]
    assert len(read_to_end(any_, sink)) == 8


def test_an_open_transaction_stops_readers_of_committed_records(
    bootstrap: str, topics: tuple[str, str], readers: tuple[Consumer, Consumer]
) -> None:
    _, sink = topics
    producer, plain = started(bootstrap, sink), Producer({"bootstrap.servers": bootstrap})
    plain.produce(sink, b"before")
    plain.flush(WAIT_S)
    producer.begin_transaction()
    producer.produce(sink, b"within")
    producer.flush(WAIT_S)
    plain.produce(sink, b"behind")
    plain.flush(WAIT_S)
    committed, any_ = readers
    assert read_to_end(committed, sink) == [b"before"]
    assert len(read_to_end(any_, sink)) == 3
    producer.commit_transaction(WAIT_S)
    assert read_to_end(committed, sink) == [b"before", b"within", b"behind"]


def test_a_zombie_is_fenced(bootstrap: str, topics: tuple[str, str], readers: tuple[Consumer, Consumer]) -> None:
    _, sink = topics
    zombie = started(bootstrap, sink)
    zombie.begin_transaction()
    zombie.produce(sink, b"zombie")
    zombie.flush(WAIT_S)
    successor = started(bootstrap, sink)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(WAIT_S)
    successor.begin_transaction()
    successor.produce(sink, b"successor")
    successor.commit_transaction(WAIT_S)
    assert read_to_end(readers[0], sink) == [b"successor"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_go_with_their_transaction(
    bootstrap: str, topic: str, topics: tuple[str, str], is_commit: bool
) -> None:
    source, sink = topics
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(3):
        plain.produce(source, str(number).encode())
    plain.flush(WAIT_S)
    producer = started(bootstrap, sink)
    with closing(reader(bootstrap, topic)) as consumer:
        consumer.subscribe([source])
        taken = [message for message in consumer.consume(4, WAIT_S) if message.error() is None]
        producer.begin_transaction()
        for message in taken:
            producer.produce(sink, message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S) if is_commit else producer.abort_transaction(WAIT_S)
        (found,) = consumer.committed([TopicPartition(source, 0)], WAIT_S)
    assert len(taken) == 3
    assert found.offset == (3 if is_commit else -1001)


async def test_our_own_consumer_reads_what_is_committed(bootstrap: str, topics: tuple[str, str]) -> None:
    """A fetch from within a transaction that was aborted is told of it, too."""
    _, sink = topics

    def write() -> None:
        producer = started(bootstrap, sink)
        for number in range(6):
            producer.begin_transaction()
            producer.produce(sink, str(number).encode())
            producer.flush(WAIT_S)
            producer.commit_transaction(WAIT_S) if number % 2 else producer.abort_transaction(WAIT_S)
        producer.begin_transaction()
        producer.produce(sink, b"open")
        producer.flush(WAIT_S)

    await asyncio.get_running_loop().run_in_executor(None, write)
    place = OwnPlace(sink, 0)
    settings = ConsumerSettings(isolation_level="read_committed", enable_auto_commit=False)
    async with OwnConsumer(bootstrap, settings) as consumer:
        await consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        assert end == 12
        for begin, expected in ((0, [b"1", b"3", b"5"]), (4, [b"3", b"5"]), (9, [b"5"])):
            consumer.seek(place, begin)
            values = list[bytes | None]()
            while await consumer.position(place) < end:
                values += [record.value for record in await consumer.poll(1000)]
            assert values == expected


async def test_aiokafka_takes_transforms_and_produces(bootstrap: str, topic: str, topics: tuple[str, str]) -> None:
    source, sink = topics
    place, group = Place(source, 0), topic
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=sink)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign([place])
    async with producer, consumer:
        async with producer.transaction():
            await producer.send_and_wait(source, b"1", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(source, b"2", partition=0)
        await producer.abort_transaction()
        record = await consumer.getone()
        async with producer.transaction():
            await producer.send_and_wait(sink, record.value, partition=0)
            await producer.send_offsets_to_transaction({place: record.offset + 1}, group)
        async with asyncio.timeout(WAIT_S):
            while (found := await consumer.committed(place)) is None:
                """The transaction is committed when that is decided, and its markers follow."""
        assert found == 1
        consumer.assign([Place(sink, 0)])
        assert (await consumer.getone()).value == b"1"
