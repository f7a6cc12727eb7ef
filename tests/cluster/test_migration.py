"""A cluster in the clear becomes a secured one, node by node, while clients write and read: docs/migration.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.certificates import Authority

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.metadata.image import ClusterImage
from penstock.node.assembly.start import RunningNode, start_node
from penstock.protocol.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.secret import Secret
from penstock.testing.layout import (
    PATIENT_QUORUM,
    QUICK_QUORUM,
    format_as_one_cluster,
    replica_settings,
    voters_settings,
)
from penstock.testing.ports import ReservedPort

IDS = (1, 2, 3)
TOPIC = "flights"
PATIENCE_S = 60
PLAIN = ("PLAINTEXT", "CONTROLLER")
SECURE = ("CLIENTS", "NODES", "SECURED")
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_SSL,NODES:SSL,SECURED:SSL"
MECHANISM = "SCRAM-SHA-512"


class Migrating:
    """The nodes, and the files that they are started with next."""

    def __init__(self, folder: Path, *, dynamic: bool) -> None:
        self._dynamic = dynamic
        self._authority = Authority(folder)
        self._keys = {node_id: self._authority.keys_of(self._authority.signs(f"node-{node_id}")) for node_id in IDS}
        self._ports = {node_id: {name: ReservedPort() for name in PLAIN + SECURE} for node_id in IDS}
        self._folders = {node_id: folder / f"node-{node_id}" for node_id in IDS}
        format_as_one_cluster(self._folders, self._at("CONTROLLER") if dynamic else None)
        self._running: dict[int, RunningNode] = {}

    def _at(self, listener: str) -> dict[int, str]:
        return {node_id: self._ports[node_id][listener].address for node_id in IDS}

    def servers(self, listener: str) -> str:
        return ",".join(self._at(listener).values())

    def settings_of(self, user: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            **self._authority.keys_of(),
        }

    def file(self, node_id: int, listeners: tuple[str, ...], controller: str) -> dict[str, str]:
        """`controller` is the listener by which controllers are come to."""
        names = sorted((name for name in listeners if name in ("CONTROLLER", "SECURED")), key=controller.__ne__)
        return (
            QUICK_QUORUM
            | PATIENT_QUORUM
            | replica_settings(len(IDS))
            | voters_settings(self._at(controller), dynamic=self._dynamic)
            | {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "listeners": ",".join(f"{name}://{self._ports[node_id][name].address}" for name in listeners),
                "listener.security.protocol.map": PROTOCOLS,
                "controller.listener.names": ",".join(names),
                "log.dirs": str(self._folders[node_id]),
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": "1",
            }
        )

    def with_keys(self, node_id: int) -> dict[str, str]:
        return self._keys[node_id] | {
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.nodes.ssl.client.auth": "required",
            "listener.name.secured.ssl.client.auth": "required",
        }

    async def start(self, *node_ids: int, file: File) -> None:
        started = await asyncio.gather(*(start_node(BrokerConfig(file(self, node_id))) for node_id in node_ids))
        self._running |= dict(zip(node_ids, started, strict=True))

    async def roll(self, file: File) -> None:
        """Each is restarted with its new file when all replicas are in sync."""
        for node_id in IDS:
            await self._until(_all_in_sync)
            await self._running.pop(node_id).stop()
            await self.start(node_id, file=file)
        await self._until(_all_in_sync)

    async def _until(self, is_so: Callable[[ClusterImage], bool]) -> None:
        for node in self._running.values():
            changed = asyncio.Event()
            node.parts.log.add_listener(partial(_set, changed), changed.set)
            async with asyncio.timeout(PATIENCE_S):
                while not is_so(node.parts.log.image):
                    changed.clear()
                    await changed.wait()

    async def stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self._running.values()))
        for ports in self._ports.values():
            for port in ports.values():
                port.release()


File = Callable[[Migrating, int], dict[str, str]]


def _set(changed: asyncio.Event, records: object) -> None:
    changed.set()


def _all_in_sync(image: ClusterImage) -> bool:
    partitions = [one for topic in image.topics.values() for one in topic.partitions.values()]
    return all(len(one.isr) == len(IDS) for one in partitions) and len(image.brokers) == len(IDS)


class Load:
    """Writes numbers and reads them, and counts what went wrong."""

    def __init__(self) -> None:
        self.sent = 0
        self.read: list[int] = []
        self.errors: list[BaseException] = []
        self._writer: asyncio.Task[None]
        self._reader: asyncio.Task[None]
        self._stop = asyncio.Event()

    def start(self, servers: str, properties: dict[str, str]) -> None:
        self._stop = asyncio.Event()
        writes = with_properties(ProducerSettings(retry_backoff_ms=20), properties)
        reads = ConsumerSettings(group_id="readers", auto_offset_reset="earliest", retry_backoff_ms=20)
        self._writer = asyncio.create_task(self._write(servers, writes))
        self._reader = asyncio.create_task(self._read(servers, with_properties(reads, properties)))

    async def stop(self) -> None:
        """The reader reads to the end."""
        self._stop.set()
        await asyncio.gather(self._writer, self._reader)

    async def _write(self, servers: str, settings: ProducerSettings) -> None:
        try:
            async with Producer(servers, settings) as producer:
                while not self._stop.is_set():
                    await producer.send_and_wait(TOPIC, str(self.sent).encode(), partition=0)
                    self.sent += 1
        except (ClientError, KafkaError) as error:
            self.errors.append(error)

    async def _read(self, servers: str, settings: ConsumerSettings) -> None:
        try:
            async with Consumer(servers, settings) as consumer:
                await consumer.subscribe([TOPIC])
                while not self._writer.done() or len(self.read) < self.sent:
                    for record in await consumer.poll(200):
                        assert record.value is not None
                        self.read.append(int(record.value))
                await consumer.commit()
        except (ClientError, KafkaError) as error:
            self.errors.append(error)


def _rules(user: str) -> list[AclBinding]:
    wanted = ((Resource.TOPIC, Operation.READ), (Resource.TOPIC, Operation.WRITE), (Resource.GROUP, Operation.READ))
    return [
        AclBinding(resource, WILDCARD, PatternType.LITERAL, f"User:{user}", WILDCARD, operation, Permission.ALLOW)
        for resource, operation in wanted
    ]


# What a node's file has in each step.


def in_the_clear(cluster: Migrating, node_id: int) -> dict[str, str]:
    return cluster.file(node_id, PLAIN, "CONTROLLER")


def with_all_listeners(cluster: Migrating, node_id: int) -> dict[str, str]:
    keys = cluster.with_keys(node_id) | {"inter.broker.listener.name": "PLAINTEXT"}
    return cluster.file(node_id, PLAIN + SECURE, "CONTROLLER") | keys


def by_certificates(cluster: Migrating, node_id: int) -> dict[str, str]:
    keys = cluster.with_keys(node_id) | {"inter.broker.listener.name": "NODES"}
    return cluster.file(node_id, PLAIN + SECURE, "SECURED") | keys


def secured(cluster: Migrating, node_id: int, **more: str) -> dict[str, str]:
    authorized = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": ";".join(["User:admin", *(f"User:CN=node-{it}" for it in IDS)]),
        "inter.broker.listener.name": "NODES",
    }
    return cluster.file(node_id, SECURE, "SECURED") | cluster.with_keys(node_id) | authorized | more


def with_rules_to_come(cluster: Migrating, node_id: int) -> dict[str, str]:
    return secured(cluster, node_id, **{"allow.everyone.if.no.acl.found": "true"})


async def _all_listen(cluster: Migrating) -> None:
    await cluster.roll(with_all_listeners)
    async with Admin(cluster.servers("PLAINTEXT")) as admin:
        for user in ("admin", "app"):
            await admin.users.set_password(user, Secret(f"{user}-secret"), MECHANISM)


async def _rules_are_made(cluster: Migrating) -> None:
    await cluster.roll(with_rules_to_come)
    as_admin = with_properties(ClientSettings(), cluster.settings_of("admin"))
    async with Admin(cluster.servers("CLIENTS"), as_admin) as admin:
        await admin.acls.create(_rules("app"))
        await admin.users.set_password("eve", Secret("eve-secret"), MECHANISM)


@asynccontextmanager
async def migrating(folder: Path, *, dynamic: bool) -> AsyncIterator[Migrating]:
    cluster = Migrating(folder, dynamic=dynamic)
    await cluster.start(*IDS, file=in_the_clear)
    try:
        yield cluster
    finally:
        await cluster.stop()


@pytest.mark.soak
@pytest.mark.parametrize("dynamic", [True, False], ids=["voters that change", "voters in the file"])
async def test_no_client_sees_an_error(tmp_path: Path, dynamic: bool) -> None:
    async with migrating(tmp_path, dynamic=dynamic) as cluster:
        load = Load()
        async with Admin(cluster.servers("PLAINTEXT")) as admin:
            await admin.topics.create(NewTopic(name=TOPIC, partitions=1, replication_factor=3))
        load.start(cluster.servers("PLAINTEXT"), {})
        await _all_listen(cluster)
        await cluster.roll(by_certificates)
        await load.stop()
        load.start(cluster.servers("CLIENTS"), cluster.settings_of("app"))
        await _rules_are_made(cluster)
        await cluster.roll(secured)
        await load.stop()

        assert load.errors == []
        assert load.read == list(range(load.sent))
        assert load.sent > 200
        as_eve = with_properties(ClientSettings(), cluster.settings_of("eve"))
        async with Admin(cluster.servers("CLIENTS"), as_eve) as eve:
            with pytest.raises(KafkaError) as refused:
                await eve.topics.create(NewTopic(name="gates", partitions=1, replication_factor=1))
        assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
