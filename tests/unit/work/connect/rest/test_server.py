"""Connections over TLS: whoever is in a handshake has one, and has as long as others for the head of a request."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.certificates import Authority

from penstock.work.connect.rest import server as rest_server
from penstock.work.connect.rest.server import RestServer
from penstock.work.connect.rest.tls import asking_of, tls_of
from penstock.work.connect.standalone.worker import StandaloneWorker

LIMIT_S = 10


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(authority: Authority) -> AsyncIterator[str]:
    """Its address; no worker is behind it, so it answers 503."""
    config = {
        "bootstrap.servers": "x:1",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "listeners": "https://127.0.0.1:0",
        "offset.storage.file.filename": "x",
    }
    server = RestServer(StandaloneWorker.parse(config), lambda: tls_of(authority.keys_of(authority.signs("worker"))))
    await server.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield server.urls[0]
    finally:
        await server.stop()


@asynccontextmanager
async def begun(url: str, said: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    """A connection that has said this, and says nothing more."""
    reader, writer = await asyncio.open_connection(*url.removeprefix("https://").split(":"))
    writer.write(said)
    try:
        yield reader
    finally:
        writer.close()


def hello() -> bytes:
    """How a handshake begins."""
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="x").do_handshake()
    return sent.read()


async def end_of(reader: asyncio.StreamReader) -> None:
    """Returns when the other end has closed."""
    try:
        await reader.read()
    except ConnectionResetError:
        pass


async def asked(url: str, authority: Authority) -> list[int]:
    """Of two requests over one connection, one of them long."""
    connector = aiohttp.TCPConnector(ssl=asking_of(authority.keys_of()))
    async with aiohttp.ClientSession(connector=connector) as session:
        return [
            (await session.put(f"{url}/connectors/x/config", json={"x": "y" * size})).status for size in (1, 100_000)
        ]


async def test_handshakes_count_as_connections(monkeypatch: pytest.MonkeyPatch, authority: Authority) -> None:
    monkeypatch.setattr(rest_server, "MAX_CONNECTIONS", 3)
    async with serving(authority) as url:
        async with AsyncExitStack() as handshakes:
            for said in (b"", hello()[:20], hello()):
                await handshakes.enter_async_context(begun(url, said))
            async with begun(url) as one_too_many:
                await end_of(one_too_many)
        while True:
            try:
                assert await asked(url, authority) == [503, 503]
                return
            except aiohttp.ClientConnectionError:
                continue  # it has not heard yet that those have gone


async def test_a_handshake_that_does_not_come_to_an_end_is_left(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(rest_server, "HEAD_LIMIT_S", 0.05)
    async with serving(authority) as url:
        for said in (b"", hello()[:20], hello()):
            async with begun(url, said) as reader:
                await end_of(reader)
