"""Certificates of a running cluster are renewed again and again, and signed by another authority, under load."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cluster.test_migration import IDS, TOPIC, Load

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.files import from_file
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.pairs import decode_properties
from penstock.node.assembly.start import RunningNode, start_node
from penstock.testing.layout import PATIENT_QUORUM, QUICK_QUORUM
from penstock.testing.ports import ReservedPort
from penstock.testing.secured.places import ABOVE, Place
from penstock.testing.secured_cluster import make_secured

CHANGES = 100


class Rotating:
    """Nodes on the folder of a secured cluster, which they read again when they are told."""

    def __init__(self, path: Path) -> None:
        self.path = path / "made"
        self._ports = {node_id: {name: ReservedPort() for name in ABOVE} for node_id in IDS}
        places = [
            Place(node_id, ("127.0.0.1",), {name: port.port for name, port in ports.items()})
            for node_id, ports in self._ports.items()
        ]
        make_secured(self.path, places, ["app"], now=dt.datetime.now(dt.UTC))
        self._running: dict[int, RunningNode] = {}

    async def start(self, *node_ids: int) -> None:
        started = await asyncio.gather(*(start_node(self._config(node_id)) for node_id in node_ids))
        self._running |= dict(zip(node_ids, started, strict=True))

    async def restart(self, node_id: int) -> None:
        """All that it says to others it says with its new certificate."""
        await self._running.pop(node_id).stop()
        await self.start(node_id)

    def _config(self, node_id: int) -> BrokerConfig:
        file = self.path / f"nodes/node-{node_id}/server.properties"
        return BrokerConfig(decode_properties(file.read_bytes()) | QUICK_QUORUM | PATIENT_QUORUM)

    async def after(self, *words: str) -> None:
        """Of `penstock security`; the nodes have taken what is new."""
        command = ["security", words[0], "--directory", str(self.path), *words[1:]]
        done = await asyncio.to_thread(CliRunner().invoke, main, command)
        assert done.exit_code == 0, done.output
        await asyncio.gather(*(node.parts.tls.refresh() for node in self._running.values()))

    def client(self, user: str) -> tuple[str, ClientSettings]:
        """By the file as it is now."""
        return from_file(self.path / f"clients/{user}/client.properties", ClientSettings(retry_backoff_ms=20))

    async def are_well(self) -> bool:
        servers, settings = self.client("admin")
        async with Admin(servers, settings) as admin:
            return len((await admin.describe_cluster()).brokers) == len(IDS)

    async def stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self._running.values()))
        for ports in self._ports.values():
            for port in ports.values():
                port.release()


@asynccontextmanager
async def rotating(path: Path) -> AsyncIterator[tuple[Rotating, Load]]:
    cluster, load = Rotating(path), Load()
    await cluster.start(*IDS)
    try:
        servers, settings = cluster.client("app")
        async with Admin(servers, settings) as admin:
            await admin.topics.create(NewTopic(name=TOPIC, partitions=1, replication_factor=3))
        keys = dict(settings.security.properties) | {"security.protocol": "SASL_SSL"}
        load.start(servers, keys)
        yield cluster, load
        await load.stop()
        assert load.errors == []
        assert load.read == list(range(load.sent))
    finally:
        await cluster.stop()


@pytest.mark.soak
async def test_a_hundred_renewals_disturb_nobody(tmp_path: Path) -> None:
    async with rotating(tmp_path) as (cluster, _):
        for number in range(CHANGES):
            await cluster.after("renew")
            assert await cluster.are_well()
            if number % 50 == 0:
                await cluster.restart(2)


@pytest.mark.soak
async def test_another_authority_disturbs_nobody(tmp_path: Path) -> None:
    async with rotating(tmp_path) as (cluster, load):
        await cluster.after("rotate-ca", "--begin")
        assert await cluster.are_well()
        await load.stop()
        servers, settings = cluster.client("app")  # trusts both
        load.start(servers, dict(settings.security.properties) | {"security.protocol": "SASL_SSL"})
        for step in ("--sign", "--finish"):
            await cluster.after("rotate-ca", step)
            for node_id in IDS:
                await cluster.restart(node_id)
                assert await cluster.are_well()
        assert load.sent > 100
