"""A client of a simulation that asks how far partitions go: any broker, whether it leads or has led.

Clients ask the leader of their metadata, and learn soon that it is another one. A leader that does not know yet that it
was replaced, and a replica that never led, must refuse; an answer covers all earlier answers. What counts as an answer
says `log_ends.py`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from random import Random
from typing import Final
from uuid import UUID

from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.address import parse_address
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.testing.simulator.clients import FAILURES, Client, World

PAUSE_S: Final = 0.1
LIMIT_S: Final = 1.0
"""A broker that is away does not answer; the next one is asked soon."""
MAX_BYTES: Final = 10_000
CONSUMER: Final = -1
LATEST: Final = -1


class ReadingClient(Client):
    def __init__(self, world: World, name: str, random: Random) -> None:
        super().__init__(world, name, random)
        self._connections: dict[str, Connection] = {}
        self._told: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        """The epoch and the end in a broker's last answer."""

    async def _live(self) -> None:
        address = self._world.bootstrap(self._random).partition(",")[0]
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._ask(address)
        except (*FAILURES, TimeoutError):
            connection = self._connections.pop(address, None)
            if connection is not None:
                await connection.close()
        await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))

    async def _ask(self, address: str) -> None:
        ledger, image = self._world.ledger, self._world.ledger.agreement.newest
        known = {} if image is None else image.topics
        topics = {name: n for name, n in ledger.topics.items() if name in known and ledger.is_linearizable(name)}
        if not topics:
            return
        names = {known[name].topic_id: name for name in topics}
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            settings = ClientSettings(**self._world.common(self.name, self._random))
            connection = self._connections[address] = await connect(parse_address(address), settings)
        await self._list_offsets(connection, address, topics)
        await self._fetch(connection, address, names)

    async def _list_offsets(self, connection: Connection, address: str, topics: Mapping[str, int]) -> None:
        asked = [ListOffsetsTopic(name=name, partitions=list(_ends_of(count))) for name, count in topics.items()]
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=asked)
        before, losses = self._world.ledger.promised_ends(_host(address)), self._world.ledger.lossy_crashes
        for topic in (await connection.request(request, ListOffsetsResponse)).topics:
            for row in topic.partitions:
                where = TopicPartition(topic.name, row.partition_index)
                if not row.error_code and self._world.ledger.holds_since(topic.name, losses):
                    self._told[address, where] = row.leader_epoch, row.offset
                    self._world.ledger.log_ends.read(address, where, row.offset, before.get(where, 0))

    async def _fetch(self, connection: Connection, address: str, topics: Mapping[UUID, str]) -> None:
        """Once more from a broker that has led the partitions, and may lead no longer."""
        asked = [FetchTopic(topic_id=it, partitions=list(self._told_by(address, name))) for it, name in topics.items()]
        request = FetchRequest(topics=[topic for topic in asked if topic.partitions])
        before, losses = self._world.ledger.promised_ends(_host(address)), self._world.ledger.lossy_crashes
        for topic in (await connection.request(request, FetchResponse)).responses:
            for row in topic.partitions:
                where = TopicPartition(topics[topic.topic_id], row.partition_index)
                if not row.error_code and self._world.ledger.holds_since(where.topic, losses):
                    self._world.ledger.log_ends.read(address, where, row.high_watermark, before.get(where, 0))

    def _told_by(self, address: str, topic: str) -> Iterator[FetchPartition]:
        for (by, where), (epoch, offset) in self._told.items():
            if by == address and where.topic == topic:
                yield FetchPartition(
                    partition=where.partition,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=MAX_BYTES,
                )


def _ends_of(partitions: int) -> Iterator[ListOffsetsPartition]:
    return (ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions))


def _host(address: str) -> str:
    return parse_address(address).host
