"""What is made and taken away again, over and over, leaves nothing in a node that grows."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest
from tests.unit.node.test_offline_directories import Running, running
from tests.unit.node.turns import until

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.topics import NewTopic
from penstock.client.connection import connect
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.client.values import TopicPartition
from penstock.log import removals
from penstock.node.api import coordinated
from penstock.node.partitions import fetch_sessions
from penstock.node.serving import dispatch
from penstock.protocol.acls import AclBinding, AclFilter, Operation, PatternType, Permission, Resource
from penstock.protocol.address import Address
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from penstock.protocol.secret import Secret

SET, UNSET = ConfigOperation.SET, ConfigOperation.DELETE
ROUNDS: Final = 5
"""Before the first count, and between the two."""


BOUNDED: Final = {
    "KnownCoordinators._known": "the client's, no more than 10,000",
    "LogDirectory._gone": "until checkpoints are written, once a minute",
    "ScramLooks._names": "1,024 places for users",
    "ShareImage._deleted": "hashes of the last share partitions that were deleted",
    "SweepingHeap._heap": "a hundred entries are not looked at",
    "SweepingHeap._old": "as the other half",
}
"""What may grow from round to round, and how long it does."""
OF_SESSIONS: Final = {"FetchSessions._sessions", "Session", "Session.wanted", "Wanted", "FetchPartition"}
"""Of clients that may come again; no more than max.incremental.fetch.session.cache.slots, and 250,000 partitions."""
MAY_GROW: Final = {*BOUNDED, *OF_SESSIONS}


def counted() -> Counter[str]:
    """How many objects of each class of ours live, and how much is in what they hold."""
    for kept in (dispatch._decode_once, coordinated._kept_caller):
        kept.cache_clear()
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        of = type(one)
        if str(of.__module__).startswith("penstock.") or isinstance(one, asyncio.Future):
            found[of.__qualname__] += 1
            for name, size in sizes(one):
                found[f"{of.__qualname__}.{name}"] += size
    return found


def sizes(one: object) -> Iterator[tuple[str, int]]:
    names = {name for of in type(one).__mro__ for name in getattr(of, "__slots__", ())} | set(
        getattr(one, "__dict__", ())
    )
    for name in names:
        try:
            value = object.__getattribute__(one, name)
        except AttributeError:
            continue
        if isinstance(value, dict | list | set | deque):
            yield name, len(value)


RULE: Final = AclBinding(Resource.TOPIC, "t", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)


class Round:
    """Makes things of a name that no other round has, and takes them away."""

    def __init__(self, world: Running, admin: Admin, number: int) -> None:
        self.world = world
        self.address = world.bootstrap
        self.admin = admin
        self.name = f"thing-{number}"

    async def all(self) -> None:
        await self.admin.topics.create(NewTopic(name=self.name, partitions=3, replication_factor=1))
        await self.writes()
        for protocol in ("classic", "consumer"):
            await self.reads(protocol)
        await self.shares()
        await self.streams()
        await self.sets()
        await self.listens()
        await self.fetches()
        await self.moves()
        await self.admin.topics.delete(self.name)

    async def writes(self) -> None:
        """In a transaction, as a producer that comes again and again."""
        settings = ProducerSettings(transactional_id="t")
        async with Producer(self.address, settings) as producer, producer.transaction():
            for number in range(6):
                await producer.send(self.name, b"v", partition=number % 3)

    async def reads(self, protocol: str) -> None:
        group = f"{self.name}-{protocol}"
        settings = ConsumerSettings(group_id=group, group_protocol=protocol, auto_offset_reset="earliest")
        async with Consumer(self.address, settings) as consumer:
            await consumer.subscribe([self.name])
            async for _ in consumer:
                break
            await consumer.commit()
        await self.admin.groups.delete(group)

    async def shares(self) -> None:
        group = f"{self.name}-share"
        earliest = ConfigChange("share.auto.offset.reset", SET, "earliest")
        await self.admin.configs.alter(ResourceType.GROUP, group, [earliest])
        async with ShareConsumer(self.address, ShareConsumerSettings(group_id=group)) as consumer:
            await consumer.subscribe([self.name])
            async for _ in consumer:
                break
        await self.admin.groups.delete(group)
        await self.admin.configs.alter(ResourceType.GROUP, group, [earliest.replace(operation=UNSET, value=None)])

    async def streams(self) -> None:
        """Two members of a streams group, and a static one of a classic group, come and go."""
        group, endpoint = f"{self.name}-streams", self.world.node.endpoints[0]
        topology = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[self.name])])
        connection = await connect(Address(endpoint.host, endpoint.port), ClientSettings(client_id=self.name))
        for epoch in (0, -1):
            for member in "ab":
                joins = StreamsGroupHeartbeatRequest(
                    group_id=group,
                    member_id=f"{self.name}-{member}",
                    member_epoch=epoch,
                    rebalance_timeout_ms=1_000,
                    process_id=member,
                    topology=topology if epoch == 0 else None,
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                )
                answer = await connection.request(joins, StreamsGroupHeartbeatResponse)
                assert not answer.error_code, answer.error_message
        await connection.close()
        await self.admin.groups.delete(group)
        settings = ConsumerSettings(group_id=group, group_instance_id=self.name)
        async with Consumer(self.address, settings) as consumer:
            await consumer.subscribe([self.name])
            while not consumer.assignment:
                await consumer.poll(10)
        await self.admin.groups.remove_members(group, "it comes no more")
        await self.admin.groups.delete(group)

    async def listens(self) -> None:
        """On one more listener, for a moment."""
        own, server = "PLAINTEXT://127.0.0.1:0", cast("Any", self.world.node._serving)._server
        protocols = ConfigChange("listener.security.protocol.map", SET, "PLAINTEXT:PLAINTEXT,EXTRA:SASL_PLAINTEXT")
        mechanisms = ConfigChange("sasl.enabled.mechanisms", SET, "SCRAM-SHA-256")
        added = ConfigChange("listeners", SET, f"{own},EXTRA://127.0.0.1:0")
        await self.admin.configs.alter(ResourceType.BROKER, "1", [protocols, mechanisms, added])
        await self.world.until(lambda: "EXTRA" in server._servers)
        await self.admin.configs.alter(ResourceType.BROKER, "1", [ConfigChange("listeners", UNSET)])
        await self.world.until(lambda: "EXTRA" not in server._servers)

    async def sets(self) -> None:
        retention = ConfigChange("retention.ms", SET, "86400000")
        await self.admin.configs.alter(ResourceType.TOPIC, self.name, [retention])
        rule = RULE._replace(resource_name=self.name)
        await self.admin.acls.create([rule])
        await self.admin.acls.delete([AclFilter(resource_name=self.name)])
        for value in (1e6, None):
            await self.admin.quotas.alter({"client-id": self.name}, {"producer_byte_rate": value})
        await self.admin.users.set_password(self.name, Secret("secret"), "SCRAM-SHA-256")
        await self.admin.users.remove(self.name, "SCRAM-SHA-256")

    async def fetches(self) -> None:
        """In a session that nobody ends."""
        endpoint = self.world.node.endpoints[0]
        connection = await connect(Address(endpoint.host, endpoint.port), ClientSettings(client_id=self.name))
        topic_id = self.world.node.broker.image.topics[self.name].topic_id
        partitions = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(3)]
        topics = [FetchTopic(topic_id=topic_id, partitions=partitions)]
        request = FetchRequest(session_epoch=0, max_bytes=1, topics=topics)
        assert (await connection.request(request, FetchResponse)).session_id
        await connection.close()

    async def moves(self) -> None:
        """From one log directory to the other."""
        logs = [partition.log for partition in self.world.node.broker.partitions.of_topic(self.name)]
        there = {log: log.parent[:-1] + ("2" if log.parent.endswith("1") else "1") for log in logs}
        await self.admin.move_replicas(
            {(TopicPartition(self.name, log.partition), 1): path for log, path in there.items()}
        )
        await self.world.until(lambda: all(log.parent == path for log, path in there.items()))


async def test_nothing_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "LET_GO_S", 0)
    monkeypatch.setattr(removals, "SWEEP_AT_LEAST", 1)
    settings = {
        "log.segment.delete.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.share.min.heartbeat.interval.ms": "50",
        "group.share.heartbeat.interval.ms": "50",
        "group.share.assignment.interval.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    async with running(tmp_path, None, **settings) as world, Admin(world.bootstrap) as admin:
        rounds = [Round(world, admin, number) for number in range(2 * ROUNDS)]
        for one in rounds[:ROUNDS]:
            await one.all()
        await until(lambda: not world.node.broker.fetch_sessions.tasks)
        before = counted()
        for one in rounds[ROUNDS:]:
            await one.all()

        def grown() -> dict[str, tuple[int, int]]:
            more = {name: (before[name], count) for name, count in counted().items() if name not in MAY_GROW}
            return {name: (was, count) for name, (was, count) in more.items() if count - was >= ROUNDS}

        with suppress(TimeoutError):  # what is under way ends
            await world.until(lambda: not grown())
        assert not grown()
