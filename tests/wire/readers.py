"""Consumers of all makes that take part in a group, by either protocol, behind one face."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import confluent_kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka import KafkaConsumer

from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings

PARTITIONS = 6


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


async def shared_by(*readers: Reader) -> None:
    """Until all partitions are read, each by one, and everybody has some."""
    while True:
        shares = await asyncio.gather(*(reader.poll() for reader in readers))
        if all(shares) and sorted(number for share in shares for number in share) == list(range(PARTITIONS)):
            return


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
