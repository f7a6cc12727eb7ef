"""Dead letters of share groups over the wire: of records that our client rejects with a reason, and librdkafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from tests.wire.test_cli import ask
from tests.wire.test_share_consumer import member, polled

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.testing import Cluster

GROUP_KEYS = (
    "share.auto.offset.reset=earliest,errors.deadletterqueue.copy.record.enable={},"
    "errors.deadletterqueue.topic.name=dlq.{}"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    config = {
        "group.share.heartbeat.interval.ms": "50",
        "group.share.min.heartbeat.interval.ms": "50",
        "group.share.assignment.interval.ms": "0",
        "errors.deadletterqueue.auto.create.topics.enable": "true",
    }
    with Cluster(config=config) as cluster:
        yield cluster.bootstrap_servers


async def jobs(address: str, topic: str, copies: str = "true") -> None:
    async with Admin(address) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=1))
    keys = GROUP_KEYS.format(copies, topic)
    arguments = ["configs", "--entity-type", "groups", "--entity-name", topic, "--alter", "--add-config", keys]
    await asyncio.to_thread(ask, address, *arguments)
    async with Producer(address) as producer:
        for number in range(3):
            await producer.send_and_wait(topic, b"%d" % number, key=b"k", headers=[("trace", b"t")])


async def letters(address: str, topic: str, count: int) -> list[ConsumedRecord]:
    """The first of them, as soon as they are there."""
    found: list[ConsumedRecord] = []
    async with Admin(address) as admin:
        while topic not in await admin.topics.names():
            pass
    async with Consumer(address, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            found += await consumer.poll(200)
    return found


async def test_a_letter_says_why_a_record_was_rejected(address: str, topic: str) -> None:
    await jobs(address, topic)
    async with member(address, topic, "explicit") as consumer:
        await consumer.subscribe([topic])
        seen: list[Any] = []
        while len(seen) < 3:
            some = await polled(consumer)
            seen += some
            for record in some:
                consumer.acknowledge(record, AcknowledgeType.REJECT, reason=f"no customer {record.offset}")
        assert set((await consumer.commit_sync()).values()) == {None}
    found = await letters(address, f"dlq.{topic}", 3)
    assert [(it.key, it.value, it.headers[0]) for it in found] == [(b"k", b"%d" % n, ("trace", b"t")) for n in range(3)]
    for number, letter in enumerate(found):
        headers = dict(letter.headers)
        assert headers["penstock-dlq-reason"] == b"no customer %d" % number
        assert headers["__dlq.errors.offset"] == b"%d" % number
    forged = f"{topic}.not-of-the-group"
    async with Producer(address) as producer:
        await producer.send_and_wait(forged, b"v")
        said = [(name, forged.encode() if name == "__dlq.errors.topic" else value) for name, value in found[0].headers]
        await producer.send_and_wait(f"dlq.{topic}", b"forged", headers=said)
    again = ["groups", "--redrive", "--group", topic]
    row = {"group": topic, "dead_letters": f"dlq.{topic}", "topic": topic, "partition": 0, "records": 3, "gone": 0}
    expected = [row, row | {"topic": forged, "records": 0, "gone": 1}]
    for _ in range(2):
        assert await asyncio.to_thread(ask, address, *again) == expected, "nothing is sent so far"
    assert await asyncio.to_thread(ask, address, *again, "--execute") == expected
    assert await asyncio.to_thread(ask, address, *again, "--execute") == [], "none is sent twice"
    async with member(address, topic) as consumer:
        await consumer.subscribe([topic])
        back: list[Any] = []
        while len(back) < 3:
            back += await polled(consumer)
    for number, record in enumerate(back):
        assert (record.key, record.value) == (b"k", b"%d" % number)
        assert record.headers == [("trace", b"t"), ("penstock-dlq-redriven", f"dlq.{topic}-0-{number}".encode())]


def test_librdkafka_rejects_and_gives_up(address: str, topic: str) -> None:
    """One record is rejected, and another released as often as it is delivered."""
    asyncio.run(jobs(address, topic, copies="false"))
    kinds = {b"0": confluent_kafka.AcknowledgeType.REJECT, b"1": confluent_kafka.AcknowledgeType.RELEASE}
    settings = {"bootstrap.servers": address, "group.id": topic, "share.acknowledgement.mode": "explicit"}
    consumer = confluent_kafka.ShareConsumer(settings)
    consumer.subscribe([topic])
    said = 0
    while said < 7:
        for message in consumer.poll(0.05) or ():
            assert message.error() is None, message.error()
            consumer.acknowledge(message, kinds.get(message.value() or b"", confluent_kafka.AcknowledgeType.ACCEPT))
            said += 1
    consumer.commit_sync(10)
    consumer.close()
    found = [dict(it.headers) for it in asyncio.run(letters(address, f"dlq.{topic}", 2))]
    counts = {headers["__dlq.errors.offset"]: headers["__dlq.errors.delivery.count"] for headers in found}
    assert counts == {b"0": b"1", b"1": b"5"}
    assert found[1]["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    (told,) = ask(address, "groups", "--redrive", "--group", topic, "--execute")
    assert (told["records"], told["gone"]) == (2, 0), "they are read from their topic, as these are no copies"
    values = [it.value for it in asyncio.run(letters(address, topic, 5))]
    assert values == [b"0", b"1", b"2", b"0", b"1"]
