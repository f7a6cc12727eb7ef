"""One group with members of two makes: each understands the other's subscription and assignment, whoever leads."""

import asyncio
from collections.abc import Callable

import confluent_kafka
import pytest

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings


class Librdkafka:
    """A member whose calls block: they run in a thread."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, strategy: str) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": 6_000,
            }
        )
        self.consumer.subscribe([topic])

    async def poll(self) -> list[int]:
        await asyncio.to_thread(self.consumer.poll, 0.05)
        return sorted(each.partition for each in self.consumer.assignment())


class Ours:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    async def poll(self) -> list[int]:
        await self.consumer.poll(50)
        return [each.partition for each in self.consumer.assignment]


async def until(members: "list[Librdkafka | Ours]", is_right: Callable[[list[list[int]]], bool]) -> list[list[int]]:
    while True:
        assigned = [await member.poll() for member in members]
        if is_right(assigned):
            return assigned


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("ours_leads", [True, False])
async def test_two_makes_share_a_group(bootstrap: str, topic: str, strategy: str, ours_leads: bool) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=5))
        await admin.topics.wait_until_led(topic)
    group_id = f"group-{topic}"
    settings = ConsumerSettings(group_id=group_id, partition_assignment_strategy=(strategy,), heartbeat_interval_ms=50)
    async with Consumer(bootstrap, settings) as consumer:
        ours: Librdkafka | Ours = Ours(consumer)
        if ours_leads:
            await consumer.subscribe([topic])
            await until([ours], lambda assigned: assigned == [[0, 1, 2, 3, 4]])
        theirs = Librdkafka(bootstrap, group_id, topic, strategy)
        if not ours_leads:
            await until([theirs], lambda assigned: assigned == [[0, 1, 2, 3, 4]])
            await consumer.subscribe([topic])
        try:
            shares = await until([ours, theirs], lambda assigned: sorted(map(len, assigned)) == [2, 3])
            assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3, 4]
        finally:
            await asyncio.to_thread(theirs.consumer.close)
        await until([ours], lambda assigned: assigned == [[0, 1, 2, 3, 4]])
