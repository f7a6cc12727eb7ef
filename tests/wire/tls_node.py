"""A node with listeners that speak TLS: one for everybody, one for who shows a certificate, and one in the clear."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Authority

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, start_node

LISTENERS = "SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
MAP = "SSL:SSL,MUTUAL:SSL,PLAINTEXT:PLAINTEXT"


class Trust(Authority):
    """Signs for the node, and for a client called ada."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.node, self.ada = self.signs("node"), self.signs("ada")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    """Made once."""
    return Trust(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def node(authority: Trust, directory: Path, **settings: str) -> AsyncIterator[RunningNode]:
    """It stops in the end."""
    keys = authority.keys_of(authority.node) | {
        "listeners": LISTENERS,
        "listener.security.protocol.map": MAP,
        "listener.name.mutual.ssl.client.auth": "required",
        "inter.broker.listener.name": "PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "log.dir": str(directory / "data"),
    }
    running = await start_node(BrokerConfig.embedded(keys | settings))
    try:
        yield running
    finally:
        await running.stop()


def address(node: RunningNode, listener: str) -> str:
    """Where clients find it."""
    (port,) = (one.port for one in node.endpoints if one.listener == listener)
    return f"127.0.0.1:{port}"


def names_of_clients(node: RunningNode) -> set[str]:
    """Of those that are connected."""
    assert node._serving is not None
    sessions = (connection.session for connection in node._serving.connections.active)
    return {str(session.principal) for session in sessions if session is not None}


def ours(authority: Trust, *, mutual: bool, **settings: str) -> dict[str, str]:
    """Properties of a client of ours."""
    keys = {"security.protocol": "SSL", **authority.keys_of(authority.ada if mutual else None)}
    return keys | {key.replace("_", "."): value for key, value in settings.items()}
