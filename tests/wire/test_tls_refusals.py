"""Those that do TLS wrong, or do not do it: both sides are told why in one line, and others are served."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
import struct
from contextlib import closing
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.wire.tls_node import Trust, address, authority, node, ours

from penstock.client.admin import Admin
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.connection import connect
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.security import Security
from penstock.client.settings import ClientSettings
from penstock.node.assembly.start import RunningNode
from penstock.protocol.address import Address, parse_bootstrap_servers
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.requests.framing import encode_request
from penstock.tls import layer

__all__ = ["authority"]
pytestmark = pytest.mark.timeout(60)
REFUSALS = "penstock.node.serving.refusals"
ASKED = encode_request(ApiVersionsRequest(), 0, 7, "raw")


async def why(where: str, properties: dict[str, str]) -> str:
    """What a client of ours says that cannot connect."""
    quick = ClientSettings(default_api_timeout_ms=500, request_timeout_ms=5000)
    with pytest.raises(ClientError) as raised:
        async with Admin(where, with_properties(quick, properties)) as admin:
            await admin.describe_cluster()
    return str(raised.value)


async def why_blocking(where: str, properties: dict[str, str]) -> str:
    """The same without an event loop."""
    keys = {key: value for key, value in properties.items() if key.startswith("ssl.")}
    protocol = properties.get("security.protocol", "PLAINTEXT")
    settings = ClusterSettings(
        parse_bootstrap_servers(where), retry_timeout_ms=0, security_protocol=protocol, security=Security(keys)
    )

    def run() -> None:
        with closing(BlockingCluster(settings)) as cluster:
            cluster.all_topics()

    with pytest.raises(OSError, match=where) as raised:
        await asyncio.to_thread(run)
    return str(raised.value)


async def is_served(running: RunningNode, authority: Trust) -> bool:
    """Whether a client that does all right gets an answer."""
    settings = with_properties(ClientSettings(), ours(authority, mutual=True))
    async with Admin(address(running, "MUTUAL"), settings) as admin:
        return (await admin.describe_cluster()).cluster_id == running.cluster_id


@pytest.mark.parametrize(
    ("listener", "change", "to_client", "in_log"),
    [
        ("SSL", {"security.protocol": "PLAINTEXT"}, "another security.protocol", "the client does not speak TLS"),
        ("PLAINTEXT", {}, "another security.protocol", "the client speaks TLS, and the listener does not"),
        (
            "MUTUAL",
            {"ssl.keystore.location": ""},
            r"wants a certificate of ours \(its ssl.client.auth is required\): set ssl.keystore",
            "the client shows no certificate",
        ),
        ("MUTUAL", {"ssl.keystore.location": "LATE"}, "our certificate has expired", "certificate has expired"),
        (
            "MUTUAL",
            {"ssl.keystore.location": "FOREIGN"},
            "does not trust who signed our certificate",
            "authority that is not in our ssl.truststore",
        ),
        (
            "SSL",
            {"ssl.truststore.location": "FOREIGN"},
            "authority that is not in our ssl.truststore",
            "does not trust who signed our certificate",
        ),
        (
            "SSL",
            {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"},
            "accepts none of our versions, suites",
            "no cipher suite that both sides know",
        ),
    ],
)
async def test_both_sides_say_why(
    listener: str,
    change: dict[str, str],
    to_client: str,
    in_log: str,
    authority: Trust,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = {
        "LATE": lambda: authority.signs("late", days=-1).pem,
        "FOREIGN": lambda: Authority(tmp_path, "foreign").signs("ada", file="ada").pem,
    }
    changed = {key: str(files[value]()) if value in files else value for key, value in change.items()}
    async with node(authority, tmp_path) as running:
        properties = ours(authority, mutual=listener == "MUTUAL") | changed
        for told in (
            await why(address(running, listener), properties),
            await why_blocking(address(running, listener), properties),
        ):
            assert len(told.splitlines()) == 1
            assert re.search(to_client, told), told
        lines = [record.getMessage() for record in caplog.records if record.name == REFUSALS]
        assert [in_log in line for line in lines] == [True], lines
        assert f"listener {listener})" in lines[0]
        assert await is_served(running, authority)


async def test_names_are_checked_unless_that_is_switched_off(authority: Trust, tmp_path: Path) -> None:
    elsewhere = authority.signs("elsewhere", hosts=("broker.example", "10.1.2.3"))
    async with node(authority, tmp_path, **{"ssl.keystore.location": str(elsewhere.pem)}) as running:
        where, properties = address(running, "SSL"), ours(authority, mutual=False)
        for told in (await why(where, properties), await why_blocking(where, properties)):
            assert "not valid for '127.0.0.1'" in told
            assert "broker.example, 10.1.2.3" in told
        unchecked = with_properties(ClientSettings(), properties | {"ssl.endpoint.identification.algorithm": ""})
        async with Admin(where, unchecked) as admin:
            await admin.describe_cluster()


def raw(where: str) -> socket.socket:
    """A socket without any cleverness."""
    host, port = where.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def over_tls(where: str, authority: Trust, **versions: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.certificate_file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    for name, version in versions.items():
        setattr(context, name, version)
    return context.wrap_socket(raw(where), server_hostname="localhost")


async def test_old_versions_are_refused(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    async with node(authority, tmp_path) as running:
        where = address(running, "SSL")
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(over_tls, where, authority, minimum_version=version, maximum_version=version)
        assert "speaks no version of TLS that is allowed here" in caplog.text
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            (await asyncio.to_thread(over_tls, where, authority, minimum_version=version)).close()


async def test_half_handshakes_are_gone_in_time_and_are_in_nobodys_way(
    authority: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "HANDSHAKE_S", 1.0)
    async with node(authority, tmp_path) as running:
        where = address(running, "SSL")
        sockets = [raw(where) for _ in range(50)]
        for one in sockets:
            one.sendall(b"\x16")
        assert await is_served(running, authority)
        for one in sockets:
            one.setblocking(False)
            try:
                assert await asyncio.get_running_loop().sock_recv(one, 1) == b""
            except ConnectionError:
                pass
            one.close()
        assert await is_served(running, authority)


async def test_who_leaves_in_the_middle_harms_nobody(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a request, of an answer, of a record, with garbage behind what was good."""

    def leave(where: str) -> None:
        for ending in (ASKED[:6], ASKED * 5000, b""):
            with over_tls(where, authority) as secured:
                secured.sendall(ending)
        with over_tls(where, authority) as secured:
            secured.sendall(ASKED)
            size = struct.unpack(">i", secured.recv(4))[0]
            assert size > 100
            plain = socket.socket(fileno=secured.detach())
            plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            plain.settimeout(20)
            while plain.recv(1000):
                pass
            plain.close()

    async with node(authority, tmp_path) as running:
        await asyncio.to_thread(leave, address(running, "SSL"))
        assert await is_served(running, authority)
    assert "not encrypted with this connection's key" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_a_certificate_that_no_rule_names_a_user_for_is_refused(
    authority: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(authority, tmp_path, **{"ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/"}) as running:
        await why(address(running, "MUTUAL"), ours(authority, mutual=True))
    assert "no rule of ssl.principal.mapping.rules fits the subject of the client's certificate, CN=ada" in caplog.text


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_handshake_that_a_client_gives_up_is_cut_off(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "HANDSHAKE_S", 1000.0)
    came, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        writer.close()
        gone.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    where = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    limit_ms = 30_000 if is_cancelled else 50
    settings = ClientSettings(security_protocol="SSL", socket_connection_setup_timeout_ms=limit_ms)
    opening = asyncio.ensure_future(connect(where, settings))
    await came.wait()
    if is_cancelled:
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
    else:
        with pytest.raises(ClientError, match="no answer within 50 ms"):
            await opening
    await gone.wait()
    server.close()
