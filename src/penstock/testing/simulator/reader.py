"""Who asks in a simulation how far partitions of storage groups go: any broker, whether it leads or has led.

Clients ask the leader of their metadata, and learn soon that it is another one. A leader that does not know yet that it
was replaced, and a replica that never led, must refuse; who answers has all that anybody was told is there.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.testing.simulator.clients import FAILURES, World

PAUSE_S: Final = 0.1
LIMIT_S: Final = 1.0
"""A broker that is away answers nobody; the next one is asked soon."""
MAX_BYTES: Final = 10_000


class ReadingClient:
    """See the module."""

    def __init__(self, world: World, name: str, random: Random) -> None:
        self.name = name
        self._world = world
        self._random = random

    async def run(self) -> None:
        """Until the world stops."""
        while not self._world.stopping:
            settings = ClientSettings(**self._world.common(self.name, self._random))
            try:
                async with Admin(self._world.bootstrap(self._random), settings) as admin:
                    while not self._world.stopping:
                        await self._ask(admin)
                        await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            except (*FAILURES, TimeoutError):
                await asyncio.sleep(PAUSE_S)

    async def _ask(self, admin: Admin) -> None:
        ledger = self._world.ledger
        image, brokers = ledger.agreement.newest, list(admin.cluster.metadata.brokers)
        topics = [name for name in ledger.topics if ledger.is_by_consensus(name)]
        if not topics or image is None or not brokers:
            return
        where = TopicPartition(name := self._random.choice(topics), self._random.randrange(ledger.topics[name]))
        before, node_id = ledger.log_ends.reached(where), self._random.choice(brokers)
        partition = FetchPartition(
            partition=where.partition, fetch_offset=max(before - 1, 0), partition_max_bytes=MAX_BYTES
        )
        topic = FetchTopic(topic_id=image.topics[name].topic_id, partitions=[partition])
        async with asyncio.timeout(LIMIT_S):
            found = await admin.cluster.to_node(node_id, FetchRequest(topics=[topic]), FetchResponse)
        row = found.responses[0].partitions[0]
        if not row.error_code:
            ledger.log_ends.read(f"node {node_id}", where, row.high_watermark, before)
