"""Clients that know nothing of delays send records that wait and read each once: all codecs, idempotent, any client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from tests.wire.records import CODECS, Sent
from tests.wire.test_cli import penstock
from tests.wire.test_produce_consume_confluent import create_topic, produce

from penstock.client.consumer import Consumer as OwnConsumer
from penstock.client.producer import Producer as OwnProducer
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import TopicPartition as OwnPartition
from penstock.protocol.compression import Compression

DELAY, ID, WAITED_AT = "penstock-delay", "penstock-delay-id", "penstock-delay-offset"
WAIT_S = 30
COUNT = 24
HOUR_MS = 3_600_000


def sent(number: int, *headers: tuple[str, bytes]) -> Sent:
    """Every third one need not wait; in each batch there are such and others."""
    delay = [] if number % 3 == 0 else [(DELAY, b"%d" % (number % 5 * 40 + 1))]
    return Sent(b"k", b"%d" % number, 1_700_000_000_000, [*delay, *headers])


RECORDS = [sent(number) for number in range(COUNT)]
VALUES = sorted(record.value or b"" for record in RECORDS)


def delaying(bootstrap: str, topic: str, **config: str) -> None:
    create_topic(bootstrap, topic, config={"penstock.delay.enable": "true", **config})


def by_confluent(bootstrap: str, topic: str, codec: str) -> list[int]:
    return produce(bootstrap, topic, RECORDS, **{"compression.type": codec, "enable.idempotence": True})


def by_kafka_python(bootstrap: str, topic: str, codec: str) -> list[int]:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5, enable_idempotence=True
    )
    futures = [producer.send(topic, r.value, r.key, headers=r.headers, partition=0) for r in RECORDS]
    offsets = [future.get(WAIT_S).offset for future in futures]
    producer.close()
    return offsets


def by_aiokafka(bootstrap: str, topic: str, codec: str) -> list[int]:
    async def work() -> list[int]:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, enable_idempotence=True, linger_ms=5
        ) as producer:
            futures = [await producer.send(topic, r.value, r.key, headers=r.headers, partition=0) for r in RECORDS]
            return [found.offset for found in await asyncio.gather(*futures)]

    return asyncio.run(work())


def by_penstock(bootstrap: str, topic: str, codec: str) -> list[int]:
    async def work() -> list[int]:
        async with OwnProducer(
            bootstrap, ProducerSettings(compression_type=Compression[codec.upper()], linger_ms=5)
        ) as producer:
            futures = [await producer.send(topic, r.value, key=r.key, headers=r.headers) for r in RECORDS]
            return [found.offset for found in await asyncio.gather(*futures)]

    return asyncio.run(work())


Read = list[tuple[bytes, int, dict[str, bytes]]]
"""Value, offset and headers."""


def read_by_confluent(bootstrap: str, topic: str, count: int = COUNT, isolation: str = "read_uncommitted") -> Read:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: Read = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert not message.error(), message.error()
        value, offset, headers = message.value(), message.offset(), cast("Any", message.headers())
        assert value is not None
        assert offset is not None
        found.append((value, offset, dict(headers or [])))
    consumer.close()
    return found


def read_by_kafka_python(bootstrap: str, topic: str) -> Read:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000
    )
    found = [(m.value, m.offset, dict(m.headers)) for m in islice(consumer, COUNT)]
    consumer.close()
    return found


def read_by_aiokafka(bootstrap: str, topic: str) -> Read:
    async def work() -> Read:
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            messages = [await asyncio.wait_for(consumer.getone(), WAIT_S) for _ in range(COUNT)]
            return [(m.value, m.offset, dict(m.headers)) for m in messages]

    return asyncio.run(work())


def read_by_penstock(bootstrap: str, topic: str) -> Read:
    async def work() -> Read:
        found: Read = []
        async with OwnConsumer(bootstrap, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
            await consumer.assign([OwnPartition(topic, 0)])
            while len(found) < COUNT:
                for m in await consumer.poll(timeout_ms=WAIT_S * 1000):
                    found.append((m.value or b"", m.offset, {name: value or b"" for name, value in m.headers}))
        return found

    return asyncio.run(work())


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_once_and_in_order_of_being_due(bootstrap: str, topic: str, codec: str) -> None:
    delaying(bootstrap, topic)
    assert by_confluent(bootstrap, topic, codec) == list(range(COUNT))
    found = read_by_confluent(bootstrap, topic)
    assert sorted(value for value, _, _ in found) == VALUES
    for value, offset, headers in found:
        if WAITED_AT in headers:
            assert int(headers[WAITED_AT]) == int(value) < offset
    waits = [int(value) for value, _, headers in found if DELAY in headers]
    assert waits == sorted(waits, key=lambda number: (number % 5, number))


@pytest.mark.parametrize("by", [by_kafka_python, by_aiokafka, by_penstock])
@pytest.mark.parametrize("read", [read_by_kafka_python, read_by_aiokafka, read_by_penstock])
def test_any_client_bears_it(
    bootstrap: str, topic: str, by: Callable[[str, str, str], list[int]], read: Callable[[str, str], Read]
) -> None:
    delaying(bootstrap, topic)
    assert sorted(by(bootstrap, topic, "lz4")) == list(range(COUNT))
    assert sorted(value for value, _, _ in read(bootstrap, topic)) == VALUES


def test_a_reader_of_committed_records_bears_it(bootstrap: str, topic: str) -> None:
    delaying(bootstrap, topic)
    by_confluent(bootstrap, topic, "zstd")
    found = read_by_confluent(bootstrap, topic, isolation="read_committed")
    assert sorted(value for value, _, _ in found) == VALUES


def test_a_topic_may_delay_all_that_it_gets(bootstrap: str, topic: str) -> None:
    delaying(bootstrap, topic, **{"penstock.delay.ms": "30"})
    produce(bootstrap, topic, [Sent(None, b"%d" % number, 0, []) for number in range(5)])
    found = read_by_confluent(bootstrap, topic, 5)
    assert [value for value, _, _ in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(WAITED_AT in headers for _, _, headers in found)


def test_a_topic_that_has_records_may_begin_with_it(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    waits = Sent(b"k", b"b", 0, [(DELAY, b"20")])
    produce(bootstrap, topic, [waits])
    change = ("configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--bootstrap-server", bootstrap)
    penstock(*change, "--add-config", "penstock.delay.enable=true")
    produce(bootstrap, topic, [waits])
    found = read_by_confluent(bootstrap, topic, 2)
    assert [WAITED_AT in headers for _, _, headers in found] == [False, True]
    assert "it stays on" in penstock(*change, "--delete-config", "penstock.delay.enable", exit_code=1).stderr


def test_what_is_refused_is_named(bootstrap: str, topic: str) -> None:
    delaying(bootstrap, topic, **{"penstock.delay.max.ms": "1000"})
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [Sent(b"k", b"v", 0, [(DELAY, b"1001")])])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD

    async def work() -> str:
        async with OwnProducer(bootstrap) as producer:
            with pytest.raises(Exception, match="INVALID_RECORD") as told:
                await producer.send_and_wait(topic, b"v", headers=[(DELAY, b"1001")])
            return str(told.value)

    assert "record 0: it is due in 1001 ms, penstock.delay.max.ms allows 1000" in asyncio.run(work())


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_of_transactions_comes_what_was_committed(bootstrap: str, topic: str, isolation: str) -> None:
    delaying(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for number in range(6):
        producer.begin_transaction()
        for part in range(2):
            producer.produce(topic, b"%d%d" % (number, part), headers={DELAY: b"%d" % (20 * part + 1)})
        if number % 2:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    produce(bootstrap, topic, [Sent(b"k", b"last", 0, [(DELAY, b"1000")])])
    found = read_by_confluent(bootstrap, topic, 7, isolation)
    assert sorted(value for value, _, _ in found) == [b"00", b"01", b"20", b"21", b"40", b"41", b"last"]
    assert (
        json.loads(penstock("delayed", "list", "--topic", topic, "--bootstrap-server", bootstrap, "--json").stdout)
        == []
    )


def test_the_command_shows_what_a_transaction_has_committed(bootstrap: str, topic: str) -> None:
    delaying(bootstrap, topic)
    where = ("--topic", topic, "--bootstrap-server", bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v", headers={DELAY: b"%d" % HOUR_MS})
    producer.flush(WAIT_S)
    assert json.loads(penstock("delayed", "list", *where, "--json").stdout) == []
    producer.commit_transaction(WAIT_S)
    assert [row["offset"] for row in json.loads(penstock("delayed", "list", *where, "--json").stdout)] == [0]


def test_the_command_shows_cancels_and_hastens(bootstrap: str, topic: str) -> None:
    delaying(bootstrap, topic, **{"penstock.delay.enable": "TRUE"})
    records = [
        Sent(b"k", b"%d" % number, 0, [(DELAY, b"%d" % ((3 - number) * HOUR_MS)), (ID, b"id%d" % number)])
        for number in range(3)
    ]
    produce(bootstrap, topic, records)
    where = ("--topic", topic, "--bootstrap-server", bootstrap)

    def shown() -> list[tuple[int, str]]:
        rows = json.loads(penstock("delayed", "list", *where, "--json").stdout)
        return [(row["offset"], row["id"]) for row in rows]

    assert shown() == [(2, "id2"), (1, "id1"), (0, "id0")]
    told = penstock("delayed", "cancel", *where, "--id", "id1").stdout
    assert told == f"what waits with the id 'id1' in the 1 partitions of {topic} is cancelled\n"
    penstock("delayed", "now", *where, "--id", "id0", "--partition", "0")
    assert [value for value, _, _ in read_by_confluent(bootstrap, topic, 1)] == [b"0"]
    assert shown() == [(2, "id2")]
    assert "1 more wait" not in penstock("delayed", "list", *where, "--limit", "1").stdout
    assert "has 1 partitions" in penstock("delayed", "list", *where, "--partition", "1", exit_code=1).stderr


def test_the_command_writes_nothing_to_another_topic(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    told = penstock("delayed", "cancel", "--topic", topic, "--id", "x", "--bootstrap-server", bootstrap, exit_code=1)
    assert f"nothing waits in topic {topic!r}" in told.stderr
