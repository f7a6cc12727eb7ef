"""confluent-kafka (librdkafka) produces and consumes."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.wire.records import CODECS, RECORDS, Sent

WAIT_S = 30


def create_topic(bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})]).values():
        future.result(WAIT_S)


def produce(bootstrap: str, topic: str, records: list[Sent], **settings: Any) -> list[int]:
    """Send in order to partition 0; the offsets that the broker gave."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    offsets: list[int] = []
    errors: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=[*record.headers],
            partition=0,
            on_delivery=delivered,
        )
    assert producer.flush(WAIT_S) == 0
    del producer
    if errors:
        raise KafkaException(errors[0])
    return offsets


def received(message: Any) -> Sent:
    if message.error() is not None:
        raise KafkaException(message.error())
    return Sent(message.key(), message.value(), message.timestamp()[1], message.headers() or [])


def consume(bootstrap: str, topic: str, count: int, offset: int = OFFSET_BEGINNING, **settings: Any) -> list[Sent]:
    """Read `count` records of partition 0 without a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(topic, 0, offset)])
    records: list[Sent] = []
    while len(records) < count:
        messages = consumer.consume(count - len(records), WAIT_S)
        assert messages, f"{len(records)} of {count} records came"
        records += map(received, messages)
    consumer.close()
    return records


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_what_was_sent(bootstrap: str, topic: str, codec: str) -> None:
    create_topic(bootstrap, topic)
    assert produce(bootstrap, topic, RECORDS, **{"compression.type": codec}) == list(range(len(RECORDS)))
    assert consume(bootstrap, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks(bootstrap: str, topic: str, acks: str) -> None:
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, RECORDS, acks=acks)
    assert consume(bootstrap, topic, len(RECORDS)) == RECORDS


def test_an_idempotent_producer(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    settings = {"enable.idempotence": True, "batch.num.messages": 3}
    assert produce(bootstrap, topic, RECORDS, **settings) == list(range(len(RECORDS)))
    assert consume(bootstrap, topic, len(RECORDS)) == RECORDS


def test_a_read_from_the_middle_of_a_batch(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, RECORDS)
    assert consume(bootstrap, topic, 7, offset=50) == RECORDS[50:57]


def test_a_batch_larger_than_what_was_asked_for_comes_whole(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    large = [Sent(b"large", bytes(500_000), RECORDS[0].timestamp_ms)]
    produce(bootstrap, topic, large)
    limits = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    assert consume(bootstrap, topic, 1, **limits) == large


def test_offsets_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, RECORDS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (0, len(RECORDS))
    at = consumer.offsets_for_times([TopicPartition(topic, 0, RECORDS[5].timestamp_ms)], timeout=WAIT_S)
    assert [found.offset for found in at] == [5]
    after = consumer.offsets_for_times([TopicPartition(topic, 0, RECORDS[-1].timestamp_ms + 1)], timeout=WAIT_S)
    assert [found.offset for found in after] == [-1]
    consumer.close()


def test_a_record_larger_than_max_message_bytes_is_refused(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        produce(bootstrap, topic, [Sent(None, bytes(2000), RECORDS[0].timestamp_ms)])


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, RECORDS)

    def read(count: int) -> list[Sent]:
        settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.subscribe([topic])
        records: list[Sent] = []
        while len(records) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{len(records)} of {count} records came"
            records.append(received(message))
            consumer.commit(message=message, asynchronous=False)
        consumer.close()
        return records

    assert read(10) == RECORDS[:10]
    assert read(10) == RECORDS[10:20]


def test_an_unknown_topic_is_made_by_the_first_record(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, RECORDS[:3])
    assert consume(bootstrap, topic, 3) == RECORDS[:3]
