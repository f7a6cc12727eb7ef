"""Large frames whose beginning says that they will be refused: the rest is not taken in."""

from __future__ import annotations

import asyncio
import struct

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.logged import VERSIONS_REQUEST, refusals
from tests.unit.node.serving.test_sasl_connection import Users
from tests.unit.node.serving.test_sasl_connection import serving as serving_users

from penstock.node.serving.frames import SHARED_BYTES
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.sasl.mechanism import PLAIN
from penstock.protocol.varint import MAX_TAGGED_FIELDS

HEARTBEAT = Handler(ApiKey.HEARTBEAT, 1, 4, lambda *_: HeartbeatResponse(), NOTHING)


def beginning(header: bytes, size: int = 90 << 20) -> bytes:
    """Of a frame of `size` bytes, as much as a buffer takes."""
    return size.to_bytes(4, "big") + header + bytes(SHARED_BYTES - len(header))


def header(api_key: int, version: int, fields: bytes = b"") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1) + fields


def fields(count: int) -> bytes:
    """A header says that so many of them follow."""
    return bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])


@pytest.mark.parametrize(
    ("begins", "reason"),
    [
        (header(ApiKey.HEARTBEAT, 0), "version 0 of Heartbeat is not served (client None)"),
        (header(ApiKey.HEARTBEAT, 5, b"\0"), "version 5 of Heartbeat is not served (client None)"),
        (header(ApiKey.HEARTBEAT, 4, fields(MAX_TAGGED_FIELDS + 1)), f"{MAX_TAGGED_FIELDS + 1} tagged fields in one"),
    ],
)
async def test_what_will_be_refused_need_not_come(begins: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(HEARTBEAT) as node:
        client, neighbour = await node.connect(), await node.connect()
        client.writer.write(beginning(begins))
        assert await client.closed()
        assert await neighbour.lives()
    (line,) = refusals(caplog)
    assert reason in line


@pytest.mark.parametrize(
    "begins",
    [
        header(ApiKey.HEARTBEAT, 1),
        header(ApiKey.HEARTBEAT, 4, fields(MAX_TAGGED_FIELDS)),
        header(ApiKey.API_VERSIONS, 99),  # is answered with what is served
        header(999, 0),  # a program may have added it
    ],
)
async def test_what_may_be_answered_is_awaited(begins: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(HEARTBEAT) as node:
        client, neighbour = await node.connect(), await node.connect()
        client.writer.write(beginning(begins))
        while not any(getattr(connection, "_frame", None) for connection in node.connections.active):
            assert await neighbour.lives()
    assert not refusals(caplog)


async def test_a_header_that_is_cut_is_looked_at_when_more_is_there(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(HEARTBEAT) as node:
        client, neighbour = await node.connect(), await node.connect()
        whole = beginning(header(ApiKey.HEARTBEAT, 0), 4 << 20)
        client.writer.write(whole[:9])
        while not any(getattr(connection, "_frame", None) for connection in node.connections.active):
            assert await neighbour.lives()
        assert not refusals(caplog)
        assert node.connections.memory._bytes
        client.writer.write(whole[9:] + bytes(2 << 20))
        assert await client.closed()
        assert not node.connections.memory._bytes
    (line,) = refusals(caplog)
    assert "version 0 of Heartbeat is not served" in line


async def test_what_waits_for_an_answer_before_it_gets_that_first(caplog: pytest.LogCaptureFixture) -> None:
    answer = asyncio.Event()

    async def waits(*_: object) -> HeartbeatResponse:
        await answer.wait()
        return HeartbeatResponse()

    async with serving(Handler(ApiKey.HEARTBEAT, 1, 4, waits, NOTHING, pipelined=True)) as node:
        client, neighbour = await node.connect(), await node.connect()
        client.send(HeartbeatRequest(), 4)
        whole = beginning(header(ApiKey.HEARTBEAT, 0), 1 << 20)
        client.writer.write(whole)
        while not any(getattr(connection, "_frame", None) for connection in node.connections.active):
            assert await neighbour.lives()
        answer.set()
        await client.receive(ApiKey.HEARTBEAT, 4)
        client.writer.write(bytes((1 << 20) + 4 - len(whole)))
        assert await client.closed()
    (line,) = refusals(caplog)
    assert "version 0 of Heartbeat is not served" in line


async def test_a_token_has_no_header(caplog: pytest.LogCaptureFixture) -> None:
    """In the old kind of log-in it is all that a frame has: bytes that may stand for any API."""
    users = Users()
    async with serving_users(users) as node:
        client = await node.connect()
        client.send(SaslHandshakeRequest(mechanism=PLAIN), 0)
        await client.receive(ApiKey.SASL_HANDSHAKE, 0)
        token = b"\x7f" * (300 << 10)
        client.writer.write(len(token).to_bytes(4, "big") + token)
        assert await client.closed()
    (line,) = refusals(caplog)
    assert "API key" not in line


def test_the_header_that_these_are_made_of_is_the_protocols() -> None:
    assert encode_request(VERSIONS_REQUEST, 3, 1, None)[4:].startswith(header(ApiKey.API_VERSIONS, 3, b"\0"))
