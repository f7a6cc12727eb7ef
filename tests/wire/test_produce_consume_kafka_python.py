"""kafka-python produces and consumes."""

from __future__ import annotations

from itertools import islice

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tests.wire.records import CODECS, Sent
from tests.wire.records import RECORDS as ALL_RECORDS

WAIT_S = 30
RECORDS = [record for record in ALL_RECORDS if all(value is not None for _, value in record.headers)]
"""It refuses to send a header without a value."""


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> list[int]:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5)
    futures = [
        producer.send(topic, r.value, r.key, headers=r.headers, partition=0, timestamp_ms=r.timestamp_ms)
        for r in records
    ]
    offsets = [future.get(WAIT_S).offset for future in futures]
    producer.close()
    return offsets


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_what_was_sent(bootstrap: str, topic: str, codec: str) -> None:
    assert produce(bootstrap, topic, codec, RECORDS) == list(range(len(RECORDS)))
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=WAIT_S * 1000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    received = [
        Sent(message.key, message.value, message.timestamp, list(message.headers))
        for message in islice(consumer, len(RECORDS))
    ]
    consumer.close()
    assert received == RECORDS


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, "none", RECORDS[:20])

    def read(count: int) -> list[bytes | None]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=count,
            consumer_timeout_ms=WAIT_S * 1000,
        )
        values = [message.value for message in islice(consumer, count)]
        consumer.commit()
        consumer.close()
        return values

    assert read(10) == [record.value for record in RECORDS[:10]]
    assert read(10) == [record.value for record in RECORDS[10:20]]
