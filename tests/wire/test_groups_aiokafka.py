"""Groups as aiokafka lives them."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata

PARTITIONS = 12
POLLS = 9000


async def test_aiokafka_members_share_leave_and_commit(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])

    async def start(name: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id=topic,
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        )
        await consumer.start()
        return consumer

    started = await asyncio.gather(*(start(name) for name in ("anna", "berta", "carla")))
    consumers = dict(zip(("anna", "berta", "carla"), started, strict=True))

    async def poll_until(shares: dict[str, int]) -> None:
        found: dict[str, int] = {}
        for _ in range(POLLS):
            await asyncio.gather(*(consumer.getmany(timeout_ms=10) for consumer in consumers.values()))
            found = {name: len(consumer.assignment()) for name, consumer in consumers.items()}
            if found == shares:
                return
        raise AssertionError(found)

    await poll_until({"anna": 4, "berta": 4, "carla": 4})
    await consumers.pop("carla").stop()
    await poll_until({"anna": 6, "berta": 6})
    anna = consumers["anna"]
    mine = min(anna.assignment())
    await anna.commit({mine: OffsetAndMetadata(41, "half way")})
    assert await anna.committed(mine) == 41
    assert await anna.committed(TopicPartition(topic, (mine.partition + 1) % PARTITIONS)) is None
    for consumer in consumers.values():
        await consumer.stop()
    await admin.close()
