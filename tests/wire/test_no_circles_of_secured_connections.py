"""A connection over TLS with a log-in leaves no circle either, at a node or at who comes to it, as nodes do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from tests.certificates import Authority
from tests.wire.unreachable import without_collector

from penstock.client.connection import connect
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.protocol.address import parse_address
from penstock.protocol.sasl.jaas import PLAIN_MODULE
from penstock.testing import Cluster

NODE = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ada="engine";',
    "connection.failed.authentication.delay.ms": "1",
}
ADA = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "engine"}


def come(address: str, settings: ClientSettings, *, fails: bool = False) -> None:
    """And go."""

    async def come_and_go() -> bool:
        try:
            connection = await connect(parse_address(address), settings)
        except ClientError:  # not known to `asyncio.run`, which would leave a circle
            return False
        await connection.close()
        return True

    assert asyncio.run(come_and_go()) is not fails


def send(address: str, data: bytes) -> None:
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as connection, suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1024):
            pass


CASES = (
    "logs in",
    "has another password",
    "does not trust the node",
    "comes where nobody listens",
    "does not speak TLS",
    "leaves in the middle",
)


def acts(address: str, trusting: dict[str, str]) -> dict[str, Callable[[], None]]:
    """What clients do. Their settings have a circle: there are a few in a process."""
    settings, password, stranger = (
        with_properties(ClientSettings(), ADA | more) for more in (trusting, trusting | {"sasl.password": "steam"}, {})
    )
    for one in (settings, password, stranger):
        one.security.context()
    return {
        "logs in": partial(come, address, settings),
        "has another password": partial(come, address, password, fails=True),
        "does not trust the node": partial(come, address, stranger, fails=True),
        "comes where nobody listens": partial(come, "127.0.0.1:1", settings, fails=True),
        "does not speak TLS": partial(send, address, b"GET / HTTP/1.1\r\n\r\n"),
        "leaves in the middle": partial(send, address, b"\x16\x03\x01\x02\x00\x01"),
    }


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By what somebody did: what only the collector would have freed."""
    authority, found = Authority(tmp_path_factory.mktemp("tls")), dict[str, list[str]]()
    with Cluster(config=NODE | authority.keys_of(authority.signs("node"))) as cluster:
        does = acts(cluster.bootstrap_servers, authority.keys_of())
        does["logs in"]()
        with without_collector() as find:
            for what, act in does.items():
                act()
                does["logs in"]()  # the end of the other one is over
                found[what] = find()
    return found


@pytest.mark.parametrize("what", CASES)
def test_nothing_is_left_to_the_collector(shown: dict[str, list[str]], what: str) -> None:
    assert shown[what] == []
