"""The clients that measure: librdkafka by `confluent_kafka` where that is installed, else the one of this package.

Both get the same settings, so what is measured is the cluster under the same batches, acknowledgements and waits.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Final, Self

import click

from penstock.cli.measuring.ports import POLL_MS, Reader, Rebalances, Sender, Told
from penstock.cli.terminal.options import option
from penstock.client.cluster import ClusterClient
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.metadata import TopicMetadata
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition

PENSTOCK: Final = "penstock"
CONFLUENT: Final = "confluent-kafka"
CLIENT: Final[Any] = option(
    f"The client that does the work (default: {CONFLUENT} where it is installed).",
    type=click.Choice([PENSTOCK, CONFLUENT]),
)


async def topic_of(servers: str, settings: ClientSettings, topic: str, *, create: bool) -> TopicMetadata:
    """Raises ClientError or KafkaError at once for servers that cannot be reached or a topic that is not there."""
    async with ClusterClient(servers, settings) as cluster:
        return await cluster.topic(topic, create=create)


def sender(client: str | None, servers: str, settings: ProducerSettings, topic: str) -> Sender:
    """Raises UsageError. A partitioner of one's own is one of this package."""
    if _uses_librdkafka(client, is_possible=settings.partitioner_class is None):
        made: Sender = _librdkafka().LibrdkafkaSender(servers, settings, topic)
        return made
    return OwnSender(servers, settings, topic)


def reader(
    client: str | None, servers: str, settings: ConsumerSettings, topics: Sequence[str], rebalances: Rebalances
) -> Reader:
    """Raises UsageError."""
    if _uses_librdkafka(client):
        made: Reader = _librdkafka().LibrdkafkaReader(servers, settings, topics, rebalances)
        return made
    return OwnReader(servers, settings, topics, rebalances)


def _uses_librdkafka(client: str | None, *, is_possible: bool = True) -> bool:
    is_installed = importlib.util.find_spec("confluent_kafka") is not None
    if client == CONFLUENT and not is_possible:
        raise click.UsageError(f"--client {CONFLUENT} has no partitioner.class: give --client {PENSTOCK}")
    if client == CONFLUENT and not is_installed:
        raise click.UsageError(f"--client {CONFLUENT}: it is not installed: pip install {CONFLUENT}")
    return client == CONFLUENT or (client is None and is_installed and is_possible)


def _librdkafka() -> Any:
    return importlib.import_module("penstock.cli.measuring.librdkafka")


class OwnSender:
    def __init__(self, servers: str, settings: ProducerSettings, topic: str) -> None:
        self._producer = Producer(servers, settings)
        self._topic = topic
        self._has_transactions = settings.transactional_id is not None

    async def __aenter__(self) -> Self:
        await self._producer.start()
        if self._has_transactions:
            await self._producer.init_transactions()
        return self

    async def __aexit__(self, *cause: Any) -> None:
        await self._producer.__aexit__(*cause)

    async def send(self, value: bytes, key: bytes | None, told: Told) -> None:
        def done(_: RecordMetadata | None, error: BaseException | None) -> None:
            told(error)

        await self._producer.send(self._topic, value, key=key, callback=done)

    async def flush(self) -> None:
        await self._producer.flush()

    async def begin(self) -> None:
        await self._producer.begin_transaction()

    async def commit(self) -> None:
        await self._producer.commit_transaction()


class OwnReader(RebalanceListener):
    def __init__(self, servers: str, settings: ConsumerSettings, topics: Sequence[str], rebalances: Rebalances) -> None:
        self._consumer = Consumer(servers, settings)
        self._topics = topics
        self._rebalances = rebalances
        self._most = settings.max_poll_records

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        await self._consumer.subscribe(self._topics, listener=self)
        return self

    async def __aexit__(self, *cause: Any) -> None:
        await self._consumer.__aexit__(*cause)

    async def poll(self, most: int) -> tuple[int, int]:
        records = await self._consumer.poll(POLL_MS, min(most, self._most))
        return len(records), sum(len(one.key or b"") + len(one.value or b"") for one in records)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._rebalances.assigned(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._rebalances.revoked(partitions)
