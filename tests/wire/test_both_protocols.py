"""A group rolls from the classic protocol to that of KIP-848 and back, with clients that others wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from click.testing import CliRunner
from kafka import KafkaConsumer

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings
from penstock.testing import Cluster

PARTITIONS = 6
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


class Reader(Protocol):
    async def poll(self) -> list[int]:
        """The partitions that it has."""

    async def close(self) -> None: ...


class Librdkafka:
    def __init__(self, node: str, topic: str, protocol: str, **settings: Any) -> None:
        classic = {"heartbeat.interval.ms": 100, "session.timeout.ms": 6_000}
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": node, "group.id": topic, "group.protocol": protocol}
            | ({} if protocol == "consumer" else classic)
            | settings
        )
        self.consumer.subscribe([topic])

    async def poll(self) -> list[int]:
        message = await asyncio.to_thread(self.consumer.poll, 0.05)
        assert message is None or message.error() is None, message
        return sorted(place.partition for place in self.consumer.assignment())

    async def close(self) -> None:
        await asyncio.to_thread(self.consumer.close)


class KafkaPython:
    def __init__(self, node: str, topic: str) -> None:
        self.consumer = KafkaConsumer(
            topic, bootstrap_servers=node, group_id=topic, heartbeat_interval_ms=100, enable_auto_commit=False
        )

    async def poll(self) -> list[int]:
        await asyncio.to_thread(self.consumer.poll, timeout_ms=500)
        return sorted(place.partition for place in self.consumer.assignment())

    async def close(self) -> None:
        await asyncio.to_thread(self.consumer.close)


class Aiokafka:
    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.consumer = consumer

    @classmethod
    async def start(cls, node: str, topic: str) -> Aiokafka:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=node,
            group_id=topic,
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )
        await consumer.start()
        return cls(consumer)

    async def poll(self) -> list[int]:
        await self.consumer.getmany(timeout_ms=50)
        return sorted(place.partition for place in self.consumer.assignment())

    async def close(self) -> None:
        await self.consumer.stop()


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with Cluster(config=CONFIG) as cluster:
        run("features", "upgrade", "--feature", "group.version=1", "--bootstrap-server", cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


async def shared_by(*readers: Reader) -> None:
    """Until all partitions are read, each by one, and everybody has some."""
    while True:
        shares = await asyncio.gather(*(reader.poll() for reader in readers))
        if all(shares) and sorted(number for share in shares for number in share) == list(range(PARTITIONS)):
            return


async def kind_of(node: str, group_id: str) -> str:
    arguments = ("groups", "--list", "--json", "--bootstrap-server", node)
    rows = json.loads(await asyncio.to_thread(run, *arguments))
    return next(str(row["type"]) for row in rows if row["group"] == group_id)


class Ours:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    @classmethod
    async def start(cls, node: str, topic: str, protocol: str = "classic") -> Ours:
        strategy = ("cooperative-sticky",)
        settings = ConsumerSettings(
            group_id=topic,
            group_protocol=protocol,
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=50,
        )
        consumer = Consumer(node, settings)
        await consumer.start()
        await consumer.subscribe([topic])
        return cls(consumer)

    async def poll(self) -> list[int]:
        await self.consumer.poll(50)
        return [place.partition for place in self.consumer.assignment]

    async def close(self) -> None:
        await self.consumer.close()


async def librdkafka(node: str, topic: str) -> Reader:
    """Its cooperative-sticky puts user data into assignments, which lets no group go up, here as in Kafka."""
    return Librdkafka(node, topic, "classic", **{"partition.assignment.strategy": "range"})


async def kafka_python(node: str, topic: str) -> Reader:
    return await asyncio.to_thread(KafkaPython, node, topic)


CLASSIC = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": Aiokafka.start, "ours": Ours.start}


@pytest.mark.parametrize("classic", CLASSIC.values(), ids=CLASSIC)
async def test_a_group_rolls_up_and_down(
    node: str, topic: str, classic: Callable[[str, str], Awaitable[Reader]]
) -> None:
    async with Admin(node) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=PARTITIONS))
        await admin.topics.wait_until_led(topic)
    one, two = await classic(node, topic), await classic(node, topic)
    await shared_by(one, two)
    assert await kind_of(node, topic) == "classic"
    first = Librdkafka(node, topic, "consumer")
    await shared_by(one, two, first)
    assert await kind_of(node, topic) == "consumer"
    await one.close()
    second = await Ours.start(node, topic, "consumer")
    await shared_by(two, first, second)
    await two.close()
    await shared_by(first, second)
    one = await classic(node, topic)
    await shared_by(one, first, second)
    await first.close()
    await shared_by(one, second)
    await second.close()
    await shared_by(one)
    assert await kind_of(node, topic) == "classic"
    two = await classic(node, topic)
    await shared_by(one, two)
    await asyncio.gather(one.close(), two.close())
