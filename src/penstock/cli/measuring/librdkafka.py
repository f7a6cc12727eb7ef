"""Sending and reading by `confluent_kafka`. Loaded only where that is installed.

librdkafka has threads of its own; its calls here take moments, so that the event loop gets turns between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import click
import confluent_kafka

from penstock.cli.measuring.ports import POLL_MS, Rebalances, Told
from penstock.cli.terminal.failures import wrong_usage
from penstock.client.errors import ClientError
from penstock.client.properties import as_properties
from penstock.client.security import PLAINTEXT
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.client.values import TopicPartition

FULL_S: Final = 0.01
"""How long to wait for deliveries while the buffer is full."""
RENAMED: Final[Mapping[str, str]] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
}
OF_BOTH: Final = (
    "client.id",
    "metadata.max.age.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
OF_PRODUCERS: Final = (
    *OF_BOTH,
    "acks",
    "allow.auto.create.topics",
    "batch.size",
    "compression.level",
    "compression.type",
    "delivery.timeout.ms",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "request.timeout.ms",
    "retries",
    "transactional.id",
)
OF_CONSUMERS: Final = (
    *OF_BOTH,
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "client.rack",
    "enable.auto.commit",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "session.timeout.ms",
)
"""What librdkafka has under Kafka's names, or those in RENAMED."""
SILENT: Final = {"log_level": 0}
"""It would write to the terminal by itself; what fails is told of each record."""
COOPERATIVE: Final = "cooperative-sticky"


def _named(properties: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    return {RENAMED.get(name, name): properties[name] for name in names if properties[name]}


def _base(servers: str, settings: ClientSettings) -> dict[str, Any]:
    """Its keys of TLS are others than Kafka's."""
    if settings.security_protocol != PLAINTEXT:
        raise click.UsageError(
            f"librdkafka has keys of its own for security.protocol={settings.security_protocol}: measure with our own"
            " client"
        )
    return {"bootstrap.servers": servers, **SILENT}


def producer_config(servers: str, settings: ProducerSettings) -> dict[str, Any]:
    """librdkafka gives no record more time than its transaction has."""
    most_ms = settings.delivery_timeout_ms
    if settings.transactional_id is not None:
        most_ms = min(most_ms, settings.transaction_timeout_ms)
    return _named(as_properties(settings), OF_PRODUCERS) | {
        "delivery.timeout.ms": str(most_ms),
        "transaction.timeout.ms": str(settings.transaction_timeout_ms),
        **_base(servers, settings),
        "enable.idempotence": settings.is_idempotent,
        "queue.buffering.max.kbytes": max(settings.buffer_memory >> 10, 1),
    }


def consumer_config(servers: str, settings: ConsumerSettings) -> dict[str, Any]:
    """librdkafka refuses assignors of which only some are cooperative: those like the first one stay."""
    first, *others = settings.partition_assignment_strategy
    alike = [first, *(name for name in others if (name == COOPERATIVE) == (first == COOPERATIVE))]
    return _named(as_properties(settings), OF_CONSUMERS) | {
        **_base(servers, settings),
        "partition.assignment.strategy": ",".join(alike),
    }


class LibrdkafkaSender:
    """Raises UsageError for settings that librdkafka refuses."""

    def __init__(self, servers: str, settings: ProducerSettings, topic: str) -> None:
        with wrong_usage(confluent_kafka.KafkaException):
            self._producer = confluent_kafka.Producer(producer_config(servers, settings))
        self._topic = topic
        self._has_transactions = settings.transactional_id is not None

    async def __aenter__(self) -> Self:
        if self._has_transactions:
            await self._called(self._producer.init_transactions)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            await self.flush()

    async def send(self, value: bytes, key: bytes | None, told: Told) -> None:
        def done(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
            told(None if error is None else ClientError(error.str()))

        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=done)
                break
            except BufferError:
                self._producer.poll(FULL_S)
                await asyncio.sleep(0)
        self._producer.poll(0)

    async def flush(self) -> None:
        while self._producer.flush(FULL_S):
            await asyncio.sleep(0)

    async def begin(self) -> None:
        await self._called(self._producer.begin_transaction)

    async def commit(self) -> None:
        await self.flush()
        await self._called(self._producer.commit_transaction)

    @staticmethod
    async def _called(waiting: Callable[[], object]) -> None:
        try:
            await asyncio.to_thread(waiting)
        except confluent_kafka.KafkaException as error:
            raise ClientError(str(error)) from error


class LibrdkafkaReader:
    """Raises UsageError for settings that librdkafka refuses."""

    def __init__(self, servers: str, settings: ConsumerSettings, topics: Sequence[str], rebalances: Rebalances) -> None:
        with wrong_usage(confluent_kafka.KafkaException):
            self._consumer = confluent_kafka.Consumer(consumer_config(servers, settings))
        self._topics = list(topics)
        self._rebalances = rebalances
        self._most = settings.max_poll_records

    async def __aenter__(self) -> Self:
        self._consumer.subscribe(
            self._topics,
            on_assign=lambda _, partitions: self._rebalances.assigned(_plain(partitions)),
            on_revoke=lambda _, partitions: self._rebalances.revoked(_plain(partitions)),
        )
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._consumer.close()

    async def poll(self, most: int) -> tuple[int, int]:
        count = size = 0
        for message in self._consumer.consume(min(most, self._most), POLL_MS / 1000):
            error = message.error()
            if error is not None:
                raise ClientError(error.str())
            count += 1
            size += len(message.key() or b"") + len(message.value() or b"")
        await asyncio.sleep(0)
        return count, size


def _plain(partitions: Sequence[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(one.topic, one.partition) for one in partitions]
