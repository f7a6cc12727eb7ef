"""aiokafka produces and consumes."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.wire.records import CODECS, RECORDS, Sent

WAIT_S = 30


async def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> list[int]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
    await producer.start()
    try:
        futures = [
            await producer.send(topic, r.value, r.key, partition=0, timestamp_ms=r.timestamp_ms, headers=r.headers)
            for r in records
        ]
        return [metadata.offset for metadata in await asyncio.wait_for(asyncio.gather(*futures), WAIT_S)]
    finally:
        await producer.stop()


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_brings_back_what_was_sent(bootstrap: str, topic: str, codec: str) -> None:
    assert await produce(bootstrap, topic, codec, RECORDS) == list(range(len(RECORDS)))
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        messages = [await asyncio.wait_for(consumer.getone(), WAIT_S) for _ in RECORDS]
    finally:
        await consumer.stop()
    assert [Sent(m.key, m.value, m.timestamp, list(m.headers)) for m in messages] == RECORDS


async def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, "none", RECORDS[:20])

    async def read(count: int) -> list[bytes | None]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            values = [(await asyncio.wait_for(consumer.getone(), WAIT_S)).value for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return values

    assert await read(10) == [record.value for record in RECORDS[:10]]
    assert await read(10) == [record.value for record in RECORDS[10:20]]
