"""Peers whose certificates are revoked, or expire: they do not come in, and those that are in do not stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Holder
from tests.wire.tls_node import Trust, address, authority, node

from penstock.client.connection import Connection, connect
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.node.assembly.start import RunningNode
from penstock.protocol.address import parse_bootstrap_servers
from penstock.tls.certificates import expires_s
from penstock.tls.stores import CRL

__all__ = ["authority"]


def settings(authority: Trust, holder: Holder) -> ClientSettings:
    return with_properties(ClientSettings(), authority.keys_of(holder) | {"security.protocol": "SSL"})


@asynccontextmanager
async def connected(running: RunningNode, authority: Trust, holder: Holder) -> AsyncIterator[Connection]:
    (where,) = parse_bootstrap_servers(address(running, "MUTUAL"))
    connection = await connect(where, settings(authority, holder))
    try:
        yield connection
    finally:
        await connection.close()


async def lost(connection: Connection) -> None:
    async with asyncio.timeout(10):
        await connection._lost.wait()


async def refusal(running: RunningNode, authority: Trust, holder: Holder) -> str:
    with pytest.raises(ClientError) as refused:
        async with connected(running, authority, holder):
            pass
    return str(refused.value)


async def test_who_is_revoked_does_not_come_in_nor_stay(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ada, bob, file = authority.ada, authority.signs("bob"), tmp_path / "authority.crl"
    file.write_text(authority.revokes())
    of_listener = {f"listener.name.mutual.{CRL}": str(file)}
    async with (
        node(authority, tmp_path, **of_listener) as running,
        connected(running, authority, ada) as of_ada,
        connected(running, authority, bob) as of_bob,
    ):
        file.write_text(authority.revokes(ada))
        await running.parts.tls.refresh()
        await lost(of_ada)
        assert not of_bob.closed
        assert "revoked" in await refusal(running, authority, ada)
        async with connected(running, authority, bob):
            pass
    assert sum("the peer's certificate is revoked" in message for message in caplog.messages) >= 1


async def test_a_list_that_has_expired_lets_nobody_in_and_says_so(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "authority.crl"
    file.write_text(authority.revokes(days=-1))
    async with node(authority, tmp_path, **{CRL: str(file)}) as running:
        await refusal(running, authority, authority.ada)
    assert "the list of revoked certificates in penstock.ssl.crl.location has expired" in caplog.text


async def test_a_connection_ends_with_its_certificate(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(authority, tmp_path) as running:
        async with connected(running, authority, authority.ada) as of_ada:
            (shown,) = (one._shown for one in running.parts.tls._listeners.values() if len(one._shown))
            (one,) = shown._known.values()
            shown._now_ms = lambda: one.expires_ms - 1
            await running.parts.tls.refresh()
            assert not of_ada.closed
            shown._now_ms = lambda: one.expires_ms
            await running.parts.tls.refresh()
            await lost(of_ada)
        assert "the peer's certificate has expired" in caplog.text
        while len(shown):
            await asyncio.sleep(0)


@pytest.mark.parametrize("expires", [True, False])
async def test_a_connection_to_another_node_ends_with_that_ones_certificate(
    authority: Trust, tmp_path: Path, expires: bool
) -> None:
    file = tmp_path / "authority.crl"
    file.write_text(authority.revokes())
    async with node(authority, tmp_path, **{CRL: str(file)}) as running:
        tls = running.parts.tls
        (where,) = parse_bootstrap_servers(address(running, "SSL"))
        of_node = ClientSettings(security_protocol="SSL", security=tls.asking("SSL", None))
        connection, gone = await connect(where, of_node), await connect(where, of_node)
        (shown,) = tls._shown.values()
        assert len(shown) == 2
        await gone.close()
        while len(shown) == 2:
            await asyncio.sleep(0)
        await tls.refresh()
        assert not connection.closed
        if expires:
            certificate = tls._keys[next(iter(tls._shown))].certificate
            assert certificate is not None
            shown._now_ms = lambda: expires_s(certificate) * 1000
        else:
            file.write_text(authority.revokes(authority.node))
        await tls.refresh()
        await lost(connection)
        with pytest.raises(ClientError, match="has expired" if expires else "is revoked"):
            raise connection._failed()
        with pytest.raises(ClientError, match="has expired" if expires else "revoked"):
            await connect(where, of_node)
        assert len(shown) == 0
