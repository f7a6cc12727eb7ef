"""A client of a simulation that takes the rights of one user after the other away, while they ask.

Whoever is told that a right is gone knows that no broker serves the user any more: what was asked after that must be
refused, by each broker, whatever it has led, and whatever became of it meanwhile. What is asked goes to all brokers,
past the metadata: where partitions end, and what is in them. Each user loses its rights once, and gets them never back:
a request to give them back that was given up could come to the controller at any time.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.protocol.acls import EVERY_USER, WILDCARD, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.address import parse_address
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.testing.simulator.admin_client import AdminClient
from penstock.testing.simulator.clients import FAILURES, World
from penstock.testing.simulator.plan import OTHERS

MEAN_PAUSE_S: Final = 0.4
MEAN_ASK_S: Final = 0.05
LIMIT_S: Final = 1.0
MAX_BYTES: Final = 10_000


def _rule(principal: str, topic: str, permission: Permission) -> AclBinding:
    return AclBinding(Resource.TOPIC, topic, PatternType.LITERAL, principal, WILDCARD, Operation.ALL, permission)


class RevokingClient(AdminClient):
    def __init__(self, world: World, name: str, random: Random) -> None:
        super().__init__(world, name, random, MEAN_PAUSE_S)
        self._users = list(OTHERS)
        """Those whose rights were not taken yet; the first one asks."""
        self._revoked_s: float | None = None
        """Since when its rights are gone."""
        self._is_open = False

    async def _live(self) -> None:
        asking = [asyncio.ensure_future(self._ask_on(address)) for address in self._world.addresses]
        try:
            await super()._live()
        finally:
            for one in asking:
                one.cancel()
            await asyncio.wait(asking)

    @property
    def _has_enough(self) -> bool:
        return self._world.stopping or not self._users

    async def _act(self, admin: Admin) -> None:
        if not self._is_open:  # a rule about anything is one about a topic: who has none has no rights then
            await admin.acls.create([_rule(EVERY_USER, WILDCARD, Permission.ALLOW)])
            self._is_open = True
        elif self._revoked_s is None:
            await admin.acls.create([_rule(f"User:{self._users[0]}", WILDCARD, Permission.DENY)])
            self._revoked_s = self._world.loop.time()
            self._note(f"revoked the rights of {self._users[0]}")
        else:
            self._users.pop(0)
            self._revoked_s = None

    async def _ask_on(self, address: str) -> None:
        connection: Connection | None = None
        user = ""
        while self._users:
            try:
                async with asyncio.timeout(LIMIT_S):
                    if connection is None or connection.closed or user != self._users[0]:
                        if connection is not None:
                            await connection.close()
                        user = self._users[0]
                        keys = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": "psst"}
                        security = type(self._world.secured["security"])(keys)
                        secured = {**self._world.common(self.name, self._random), "security": security}
                        connection = await connect(parse_address(address), ClientSettings(**secured))
                    await self._ask(connection, address, user)
            except (*FAILURES, TimeoutError):
                if connection is not None:
                    await connection.close()
                connection = None
            await asyncio.sleep(self._random.expovariate(1 / MEAN_ASK_S))

    async def _ask(self, connection: Connection, address: str, user: str) -> None:
        image, counts = self._world.ledger.agreement.newest, self._world.ledger.topics
        for topic, count in list(counts.items()):
            known = None if image is None else image.topics.get(topic)
            if known is None or user != self._users[0]:
                continue
            since = self._revoked_s
            ends = [ListOffsetsTopic(name=topic, partitions=[*_ends_of(count)])]
            told = await connection.request(ListOffsetsRequest(topics=ends), ListOffsetsResponse)
            self._look(told.topics, since, f"where {topic} ends, at {address}")
            since = self._revoked_s if user == self._users[0] else since
            begins = [FetchTopic(topic_id=known.topic_id, partitions=[*_begins_of(count)])]
            read = await connection.request(FetchRequest(max_wait_ms=100, topics=begins), FetchResponse)
            self._look(read.responses, since, f"what is in {topic}, at {address}")

    def _look(self, topics: Sequence[Any], since_s: float | None, what: str) -> None:
        """`since_s` is from before the question."""
        if since_s is not None and not all(row.error_code for topic in topics for row in topic.partitions):
            late_s = self._world.loop.time() - since_s
            self._world.ledger.violated(f"{what}, is told {late_s:.3f} s after the right was revoked")


def _ends_of(count: int) -> Iterator[ListOffsetsPartition]:
    return (ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count))


def _begins_of(count: int) -> Iterator[FetchPartition]:
    return (FetchPartition(partition=index, partition_max_bytes=MAX_BYTES) for index in range(count))
