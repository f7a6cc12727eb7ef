"""What the measuring commands ask of librdkafka, over a module that notes it."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from tests.stand_in import stand_in

from penstock.cli.measuring import librdkafka
from penstock.cli.measuring.librdkafka import (
    OF_CONSUMERS,
    OF_PRODUCERS,
    LibrdkafkaReader,
    LibrdkafkaSender,
    consumer_config,
    producer_config,
)
from penstock.client.errors import ClientError
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import TopicPartition

# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transactional_id", "delivery_ms", "transaction_ms", "most"),
    [(None, 9_000, 5_000, "9000"), ("x", 9_000, 5_000, "5000"), ("x", 4_000, 5_000, "4000")],
)
def test_no_record_has_more_time_than_its_transaction(
    transactional_id: str | None, delivery_ms: int, transaction_ms: int, most: str
) -> None:
    settings = ProducerSettings(
        transactional_id=transactional_id, delivery_timeout_ms=delivery_ms, transaction_timeout_ms=transaction_ms
    )
    found = producer_config("a:1", settings)
    assert (found["delivery.timeout.ms"], found["transaction.timeout.ms"]) == (most, str(transaction_ms))
    assert found.get("transactional.id") == transactional_id


@pytest.mark.parametrize(("memory", "kilobytes"), [(3 << 20, 3_072), (2_047, 1), (1_023, 1)])
def test_a_buffer_has_a_kilobyte_at_least(memory: int, kilobytes: int) -> None:
    assert producer_config("a:1", ProducerSettings(buffer_memory=memory))["queue.buffering.max.kbytes"] == kilobytes


def test_what_a_producer_is_told() -> None:
    found = producer_config("a:1,b:2", ProducerSettings(client_id="me", max_request_size=77, enable_idempotence=False))
    assert (found["bootstrap.servers"], found["log_level"], found["client.id"]) == ("a:1,b:2", 0, "me")
    assert (found["message.max.bytes"], found["enable.idempotence"]) == ("77", False)
    ours = {"bootstrap.servers", "log_level", "enable.idempotence", "queue.buffering.max.kbytes", "message.max.bytes"}
    assert found.keys() - ours - {"transaction.timeout.ms"} <= set(OF_PRODUCERS)


@pytest.mark.parametrize(
    ("strategies", "alike"),
    [
        (("range", "cooperative-sticky", "roundrobin"), "range,roundrobin"),
        (("cooperative-sticky", "range"), "cooperative-sticky"),
        (("range",), "range"),
    ],
)
def test_assignors_are_all_cooperative_or_none_is(strategies: tuple[str, ...], alike: str) -> None:
    found = consumer_config("a:1", ConsumerSettings(group_id="g", partition_assignment_strategy=strategies))
    assert found["partition.assignment.strategy"] == alike
    ours = {"bootstrap.servers", "log_level", "partition.assignment.strategy", "fetch.wait.max.ms"}
    assert found.keys() - ours <= set(OF_CONSUMERS)
    assert (found["group.id"], found["bootstrap.servers"]) == ("g", "a:1")


# -- sending ----------------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    def str(self) -> str:
        return "refused"


class FakeProducer:
    """Its buffer is full for two calls, and it takes three looks until all is delivered."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.done: list[Any] = []
        self.full = 2
        self.left = 2
        self.fails = False

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Callable[..., None]) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        self.done.append((topic, value, key))
        on_delivery(RefusedError() if value == b"b" else None, None)

    def poll(self, seconds: float) -> None:
        self.done.append(("poll", seconds))

    def flush(self, seconds: float) -> int:
        self.left -= 1
        self.done.append(("flush", seconds))
        return max(self.left + 1, 0)

    def _noted(self, name: str) -> None:
        self.done.append(name)
        if self.fails:
            raise confluent_kafka.KafkaException("fenced")

    def init_transactions(self) -> None:
        self._noted("init")

    def begin_transaction(self) -> None:
        self._noted("begin")

    def commit_transaction(self) -> None:
        self._noted("commit")


class FakeConsumer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.done: list[Any] = []
        self.error: RefusedError | None = None

    def subscribe(
        self, topics: Sequence[str], *, on_assign: Callable[..., None], on_revoke: Callable[..., None]
    ) -> None:
        self.done.append(topics)
        on_assign(self, [SimpleNamespace(topic="t", partition=1)])
        on_revoke(self, [SimpleNamespace(topic="t", partition=2)])

    def consume(self, most: int, seconds: float) -> list[Any]:
        self.done.append((most, seconds))
        pairs: list[tuple[bytes | None, bytes | None]] = [(b"k", b"value"), (None, b"v"), (b"key", None)]
        return [
            SimpleNamespace(error=lambda: self.error, key=lambda key=key: key, value=lambda value=value: value)
            for key, value in pairs
        ]

    def close(self) -> None:
        self.done.append("close")


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How often the event loop gets a turn."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    fake = stand_in(confluent_kafka, Producer=FakeProducer, Consumer=FakeConsumer)
    monkeypatch.setattr(librdkafka, "confluent_kafka", fake)
    monkeypatch.setattr(librdkafka, "asyncio", stand_in(asyncio, sleep=sleep))
    return found


FULL, DELIVERED = ("poll", 0.01), ("poll", 0)


@pytest.mark.parametrize(("transactional_id", "begins"), [(None, []), ("x", ["init"])])
async def test_what_is_sent(transactional_id: str | None, begins: list[str], turns: list[float]) -> None:
    told: list[BaseException | None] = []
    async with LibrdkafkaSender("a:1", ProducerSettings(transactional_id=transactional_id), "t") as sending:
        producer: Any = sending._producer
        await sending.send(b"a", b"k", told.append)
        await sending.send(b"b", None, told.append)
    sends = [FULL, FULL, ("t", b"a", b"k"), DELIVERED, ("t", b"b", None), DELIVERED]
    assert producer.done == [*begins, *sends, *[("flush", 0.01)] * 3]
    assert turns == [0] * 4
    assert told[0] is None
    assert isinstance(told[1], ClientError)
    assert str(told[1]) == "refused"


async def test_a_transaction_is_flushed_before_it_counts() -> None:
    sending = LibrdkafkaSender("a:1", ProducerSettings(transactional_id="x"), "t")
    producer: Any = sending._producer
    producer.left = 0
    await sending.begin()
    await sending.commit()
    assert producer.done == ["begin", ("flush", 0.01), "commit"]
    producer.fails = True
    with pytest.raises(ClientError, match="fenced"):
        await sending.begin()


async def test_what_is_left_is_not_waited_for_when_something_failed() -> None:
    sending = LibrdkafkaSender("a:1", ProducerSettings(), "t")
    producer: Any = sending._producer
    await sending.__aexit__(ValueError, ValueError("odd"), None)
    assert producer.done == []


# -- reading ----------------------------------------------------------------------------------------------------------


class Rebalances:
    def __init__(self) -> None:
        self.done: list[Any] = []

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append(("assigned", *partitions))

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append(("revoked", *partitions))


async def test_what_is_read(turns: list[float]) -> None:
    rebalances = Rebalances()
    settings = ConsumerSettings(group_id="g", max_poll_records=7)
    async with LibrdkafkaReader("a:1", settings, ("t",), rebalances) as reading:
        consumer: Any = reading._consumer
        assert await reading.poll(9) == (3, 10)
        assert await reading.poll(5) == (3, 10)
    assert consumer.done == [["t"], (7, 0.1), (5, 0.1), "close"]
    assert rebalances.done == [("assigned", TopicPartition("t", 1)), ("revoked", TopicPartition("t", 2))]
    assert turns == [0, 0]


async def test_an_error_among_records_ends_it() -> None:
    reading = LibrdkafkaReader("a:1", ConsumerSettings(group_id="g"), ["t"], Rebalances())
    consumer: Any = reading._consumer
    consumer.error = RefusedError()
    with pytest.raises(ClientError, match="refused"):
        await reading.poll(1)
