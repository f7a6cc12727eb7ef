"""A cluster on virtual time, and clients that do not heed what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.protocol.address import parse_address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from penstock.protocol.records import Record, encode_batch
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.plan import NodePlan, Plan
from penstock.testing.simulator.trace import Trace

PLAN = Plan(
    settings={},
    flushes_each=False,
    producers=0,
    consumers=0,
    groups=0,
    topics=0,
    faults=(),
    seconds=0,
    delay_s=0.001,
    socket_bytes=65_536,
)
RATE = 100_000.0
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
PIECE = 5_000
SOON_S = 0.1
"""A few of the network's delays."""


class World:
    def __init__(self, settings: dict[str, str], nodes: int = 1) -> None:
        self.loop = VirtualLoop(Random(2))
        trace = Trace(self.loop.time)
        self.ledger = Ledger(trace, flushes_each=False)
        members = tuple(NodePlan(number) for number in range(1, nodes + 1))
        plan = PLAN.replace(settings=settings, nodes=members, replicas=nodes)
        self.of_clients = plan.of_clients
        network = Network(self.loop, Random(3), trace)
        self.machines = [Machine(one, plan, network, Random(one.node_id), self.ledger, trace) for one in members]
        self.machine = self.machines[0]
        for machine in self.machines if nodes > 1 else ():
            machine.format("ABCDEFGHIJKLMNOPQRSTUQ", UUID(int=1000 + machine.plan.node_id), None)

    def settings(self, client_id: str) -> ClientSettings:
        return ClientSettings(client_id=client_id, now_ms=self.loop.now_ms, random=Random(1), **self.of_clients)

    async def connect(self, client_id: str, machine: Machine | None = None) -> Connection:
        """To the first node, by default."""
        return await connect(parse_address((machine or self.machine).address), self.settings(client_id))

    async def alter(self, entity: dict[str, str | None], **changes: float | None) -> None:
        async with Admin(self.machine.address, self.settings("admin")) as admin:
            await admin.quotas.alter(entity, changes)

    async def timed(self, request: Awaitable[Any]) -> tuple[float, Any]:
        """How long the answer took in s, and the answer."""
        begun_s = self.loop.time()
        answer = await request
        return self.loop.time() - begun_s, answer

    def run(self, live: Callable[[World], Awaitable[None]]) -> None:
        async def whole() -> None:
            await asyncio.gather(*(machine.start() for machine in self.machines))
            async with Admin(self.machine.address, self.settings("admin")) as admin:
                await admin.topics.create(NewTopic(name="t", partitions=1, replication_factor=len(self.machines)))
            await live(self)

        async def in_process() -> None:
            await Process("client").spawn(self.loop, whole())

        try:
            self.loop.run_until_complete(in_process())
            assert self.ledger.violations + self.loop.failures == []
        finally:
            for machine in self.machines:
                assert machine.process is not None
                machine.process.kill()
            self.loop.close()


def in_world(live: Callable[[World], Awaitable[None]], nodes: int = 1, **settings: str) -> None:
    World({name.replace("_", "."): value for name, value in settings.items()}, nodes).run(live)


def produce(connection: Connection, size: int = PIECE, *, acks: int = 1) -> asyncio.Future[ProduceResponse]:
    batch = bytes(encode_batch([Record(value=bytes(size))]))
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    return connection.submit(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]), ProduceResponse, newest=12)


def fetch(
    connection: Connection, offset: int = 0, *, session: tuple[int, int] = (0, -1), replica_id: int = -1
) -> asyncio.Future[FetchResponse]:
    """An incremental fetch names nothing: all was named when its session began."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    request = FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=500,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="t", partitions=[partition])] if offset >= 0 else [],
    )
    return connection.submit(request, FetchResponse, newest=12)


def create(connection: Connection, version: int, **partitions: int) -> asyncio.Future[CreateTopicsResponse]:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in partitions.items()
    ]
    return connection.submit(CreateTopicsRequest(topics=topics), CreateTopicsResponse, newest=version)


def told(topics: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in topics}


def records_in(response: FetchResponse) -> int:
    return sum(len(part.records or b"") for topic in response.responses for part in topic.partitions)
