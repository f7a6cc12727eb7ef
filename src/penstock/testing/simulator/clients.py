"""Producers and consumers in a simulation: real clients, each a process of its own on a host of its own."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.client.background import SameLoop
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import KafkaError
from penstock.testing.history import ANYWHERE, Outcome
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.trace import Trace

FAILURES = (ClientError, KafkaError)
RETRY_S = 0.5
STRATEGIES = (("range", "cooperative-sticky"), ("cooperative-sticky",))
"""Of the first group and of the others: members of one group must agree."""


@dataclass(slots=True)
class World:
    """What all clients share: the clock, the addresses of the brokers, the ledger and the trace."""

    loop: VirtualLoop
    addresses: Sequence[str]
    ledger: Ledger
    trace: Trace
    secured: Mapping[str, Any] = field(default_factory=dict)
    """How clients come to the brokers, where that is not in the clear."""
    is_over: bool = False
    stopping: bool = False

    def bootstrap(self, random: Random) -> str:
        """All brokers, in any order."""
        return ",".join(random.sample(self.addresses, len(self.addresses)))

    def common(self, name: str, random: Random) -> dict[str, Any]:
        """For every client: time-outs that fit the length of a simulation."""
        return {
            "client_id": name,
            "now_ms": self.loop.now_ms,
            "random": random,
            "request_timeout_ms": 5_000,
            "default_api_timeout_ms": 10_000,
            "socket_connection_setup_timeout_ms": 2_000,
            "reconnect_backoff_ms": 0,
            **self.secured,
        }


class Client(ABC):
    """A process of its own."""

    def __init__(self, world: World, name: str, random: Random) -> None:
        self.name = name
        self._world = world
        self._random = random

    @property
    def _is_done(self) -> bool:
        return self._world.stopping

    async def run(self) -> None:
        """Until the world stops; after a failure it begins anew."""
        while not self._is_done:
            try:
                await self._live()
            except FAILURES as error:
                self._failed(error)
                await asyncio.sleep(RETRY_S)

    @abstractmethod
    async def _live(self) -> None: ...

    def _failed(self, error: Exception) -> None:
        self._note(f"failed: {error!r}")

    def _note(self, what: str) -> None:
        self._world.trace.note(self.name, what)


class ProducingClient(Client):
    """Sends numbered records to random partitions, one after the other or several at once."""

    def __init__(
        self, world: World, name: str, random: Random, *, idempotent: bool, may_not_wait: bool = False
    ) -> None:
        super().__init__(world, name, random)
        self.idempotent = idempotent
        self._may_not_wait = may_not_wait
        self.acknowledged = 0
        self._next = 0
        self._lives = 0
        self._acks = -1

    async def _live(self) -> None:
        self._acks = -1 if self.idempotent else self._random.choice((-1, 1))
        if self._may_not_wait and self._acks == 1:
            self._acks = self._random.choice((0, 1))
        settings = ProducerSettings(
            **self._world.common(self.name, self._random),
            enable_idempotence=self.idempotent,
            acks=self._acks,
            delivery_timeout_ms=15_000,
            max_block_ms=5_000,
            linger_ms=self._random.choice((0, 5)),
        )
        self._lives += 1
        async with Producer(self._world.bootstrap(self._random), settings) as producer:
            await self._send(producer)

    async def _send(self, producer: Producer) -> None:
        for _ in range(self._random.randrange(5, 200)):
            if self._world.stopping:
                return
            topics = self._world.ledger.topics
            if topics:
                topic = self._random.choice(list(topics))
                partition = self._random.randrange(topics[topic])
                await self._send_some(producer, TopicPartition(topic, partition), self._random.choice((1, 1, 5)))
                self._note_identity(producer)
            await asyncio.sleep(self._random.expovariate(8))

    def _note_identity(self, producer: Producer) -> None:
        identity = producer._sender._sequences.identity
        if self.idempotent and identity is not None:
            self._world.ledger.agreement.producer_id(identity[0], f"{self.name}.{self._lives}")

    async def _send_some(self, producer: Producer, where: TopicPartition, count: int) -> None:
        sent, before = [], self._world.ledger.log_ends.reached().get(where, 0)
        losses, written_ms = self._world.ledger.lossy_crashes, self._world.loop.now_ms()
        for number in range(self._next, self._next + count):
            value = f"{self.name}.{self._lives}:{number}".encode()
            sent.append((value, await producer.send(where.topic, value, partition=where.partition)))
        self._next += count
        for (value, _), result in zip(
            sent, await asyncio.gather(*(future for _, future in sent), return_exceptions=True), strict=True
        ):
            if isinstance(result, BaseException):
                self._note(f"{value.decode()} failed: {result!r}")
                if not isinstance(result, FAILURES):
                    raise result
                self._tell_history(where, value, Outcome.UNKNOWN)
            else:
                self.acknowledged += 1
                if not self._acks:
                    self._tell_history(where, value, Outcome.UNKNOWN)
                    continue
                self._note(f"{value.decode()} acknowledged at {where} offset {result.offset}")
                is_certain = self._acks == -1
                if self._world.ledger.holds_since(where.topic, losses):  # else it may come from before the power cut
                    self._world.ledger.acked(where, result.offset, value, written_ms, by_all=is_certain, before=before)
                outcome = Outcome.ACKNOWLEDGED if is_certain else Outcome.UNKNOWN
                self._tell_history(where, value, outcome, result.offset if is_certain else ANYWHERE)

    def _tell_history(self, where: TopicPartition, value: bytes, outcome: Outcome, offset: int = ANYWHERE) -> None:
        history = self._world.ledger.history
        history.sent(self.name, where, value, outcome, offset, idempotent=self.idempotent)


class ConsumingClient(Client, RebalanceListener):
    """A member of a group, which commits what it has read, and perhaps now and then by itself as well."""

    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        random: Random,
        *,
        commits_by_itself: bool = False,
        may_stay: bool = False,
    ) -> None:
        """`may_stay`: alone in its group, without faults. It has no reason to join for what it has."""
        super().__init__(world, name, random)
        self.group = group
        self._commits_by_itself = commits_by_itself
        self._may_stay = may_stay
        self._last: tuple[str, list[TopicPartition]] | None = None
        self._consumer: Consumer | None = None
        self._losses = 0
        self._lives = 0

    @property
    def _member(self) -> str:
        return f"{self.name}/{self._lives}"

    async def _live(self) -> None:
        settings = ConsumerSettings(
            **self._world.common(self.name, self._random),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=self._commits_by_itself,
            partition_assignment_strategy=STRATEGIES[self.group != "g0"],
            background=SameLoop,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=10_000,
            metadata_max_age_ms=2_000,
            allow_auto_create_topics=False,
        )
        self._lives += 1
        async with Consumer(self._world.bootstrap(self._random), settings) as consumer:
            self._consumer = consumer
            await consumer.subscribe(pattern="t[0-9]+", listener=self)
            await self._read(consumer)

    async def _read(self, consumer: Consumer) -> None:
        until = self._world.loop.time() + self._random.uniform(5, 60)
        losses = self._world.ledger.lossy_crashes
        last: dict[TopicPartition, int] = {}
        while not self._world.stopping and self._world.loop.time() < until:
            self._note_losses(consumer)
            for record in await consumer.poll(500):
                if self._world.ledger.holds_since(record.topic, losses):  # else it may be from before the power cut
                    self._world.ledger.consumed(record)
                self._world.ledger.history.polled(self._member, record)
                last[record.topic_partition] = record.offset
            mine = {partition: offset + 1 for partition, offset in last.items() if partition in consumer.assignment}
            if mine:
                await self._commit(consumer)
                last.clear()

    def _note_losses(self, consumer: Consumer) -> None:
        """The partitions of a poll were given after this, unless the member was already joining a generation."""
        rebalances = consumer._preparation._rebalances
        if rebalances is None or not rebalances.is_joining:
            self._losses = self._world.ledger.lossy_crashes

    async def _commit(self, consumer: Consumer) -> None:
        positions = {partition: await consumer.position(partition) for partition in consumer.assignment}
        losses = self._world.ledger.lossy_crashes
        try:
            await consumer.commit()
        except FAILURES as error:
            self._note(f"could not commit: {error!r}")
            return
        self._note(f"committed {', '.join(f'{p}={o}' for p, o in positions.items())}")
        if losses == self._world.ledger.lossy_crashes:
            for partition, offset in positions.items():
                self._world.ledger.commit_acknowledged(self.group, partition, offset)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self._consumer is not None
        membership = self._consumer._preparation._group
        generation = -1 if membership is None else membership.membership.generation
        for partition in partitions:
            self._world.ledger.history.moved(self._member, partition)
        held = self._consumer.assignment
        self._note(f"generation {generation}: {', '.join(map(str, held)) or 'nothing'}")
        if self._may_stay and held and self._last == (self._member, held):
            self._world.ledger.violated(f"{self._member} has joined {self.group} again, and nothing has happened")
        self._last = self._member, list(held)
        if self._losses == self._world.ledger.lossy_crashes:  # else it may have been given before the power cut
            self._world.ledger.owns(self.group, generation, self._member, held)
        self._losses = self._world.ledger.lossy_crashes  # the next generation is not on its way yet
