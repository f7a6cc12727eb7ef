"""Clients that keep a table in a compacted topic: reading it from the beginning gives what they wrote last.

A table is a topic of one partition with small segments and one writer. For a while it is idempotent and waits for all
replicas, for a while it waits for the leader alone, which so has much that the others have not, and may lose it. A
write that was not acknowledged by all may have happened or not, now or later, as what is under way may arrive last. A
key that was deleted may live on in a replica that was away for longer than tombstones stay.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ProducerSettings
from penstock.client.values import ConsumedRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing.simulator.clients import FAILURES, Client, World
from penstock.testing.simulator.plan import Plan

KEYS: Final = (6, 60)
"""Few keys come again soon, many show for long that a value is gone wrongly."""
PAD: Final = "." * 40


@dataclass(slots=True)
class _Key:
    """The last value that all replicas have acknowledged, and values that may still come."""

    value: bytes | None = None
    doubtful: dict[int, bytes | None] = field(default_factory=dict)
    """By the number of the write."""


class TableClient(Client):
    def __init__(self, world: World, name: str, random: Random, plan: Plan) -> None:
        super().__init__(world, name, random)
        self.is_made = False
        self._replicas = plan.replicas
        self._keeps_tombstones = plan.keeps_tombstones
        self._segment_bytes = random.choice((300, 1000, 5000))
        self._keys = {b"k%d" % number: _Key() for number in range(random.choice(KEYS))}
        self._written = 0

    async def _live(self) -> None:
        common = self._world.common(self.name, self._random)
        if not self.is_made:
            await self._make(ClientSettings(**common))
        by_all = self._random.random() < 0.7
        settings = ProducerSettings(
            **common,
            enable_idempotence=by_all,
            acks=-1 if by_all else 1,
            delivery_timeout_ms=15_000,
            max_block_ms=5_000,
        )
        async with Producer(self._world.bootstrap(self._random), settings) as producer:
            await self._write(producer, by_all=by_all)

    async def _make(self, settings: ClientSettings) -> None:
        configs = {"cleanup.policy": "compact", "internal.segment.bytes": str(self._segment_bytes)}
        topic = NewTopic(name=self.name, partitions=1, replication_factor=self._replicas, configs=configs)
        async with Admin(self._world.bootstrap(self._random), settings) as admin:
            try:
                await admin.topics.create(topic)
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # by an earlier attempt of its own
                    raise
        self.is_made = True

    async def _write(self, producer: Producer, *, by_all: bool) -> None:
        for _ in range(self._random.randrange(20, 200)):
            if self._world.stopping:
                return
            await self._write_some(producer, self._random.choice((1, 1, 5)), by_all=by_all)
            await asyncio.sleep(self._random.expovariate(10))

    async def _write_some(self, producer: Producer, count: int, *, by_all: bool) -> None:
        sent = []
        for _ in range(count):
            self._written += 1
            key = self._random.choice(list(self._keys))
            value = None if self._random.random() < 0.2 else f"{self.name}:{self._written}{PAD}".encode()
            self._keys[key].doubtful[self._written] = value
            sent.append((key, self._written, await producer.send(self.name, value, key=key, partition=0)))
        results = await asyncio.gather(*(future for _, _, future in sent), return_exceptions=True)
        for (key, number, _), result in zip(sent, results, strict=True):
            if not isinstance(result, BaseException):
                if not by_all:
                    continue
                known = self._keys[key]
                known.value = known.doubtful.pop(number)
                self._note(f"{key!r} is {known.value!r} at {result.offset}")
            elif not isinstance(result, FAILURES):
                raise result

    def compare(self, records: Iterable[ConsumedRecord]) -> None:
        """All records of the topic must make the table."""
        found = {record.key: record.value for record in records}
        if self._world.ledger.lossy_crashes:
            return
        for key, known in self._keys.items():
            possible = {known.value, *known.doubtful.values()}
            if found.get(key) not in possible and (self._keeps_tombstones or None not in possible):
                self._world.ledger.violated(f"{self.name}: {key!r} is {found.get(key)!r}, {known.value!r} was written")
