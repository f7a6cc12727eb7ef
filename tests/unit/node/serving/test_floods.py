"""Peers that send too much, do not read, or ask in large requests."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.logged import VERSIONS_REQUEST, refusals

from penstock.node.serving.handler import Handler
from penstock.node.serving.outgoing import CHUNK_BYTES
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request


async def test_answers_do_not_pile_up_before_a_peer_that_does_not_read() -> None:
    answers = 0

    def describe(*_: Any) -> list[bytes]:
        nonlocal answers
        answers += 1
        return [struct.pack(">ii", CHUNK_BYTES, 1), bytes(CHUNK_BYTES - 4)]

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, describe, NOTHING, raw=True)) as node:
        client = await node.connect()
        transport = cast("asyncio.Transport", client.writer.transport)
        transport.pause_reading()
        client.writer.write(encode_request(HeartbeatRequest(), 4, 1, "test") * 1000)  # all of them in one piece
        while not answers:
            assert await (await node.connect()).lives()
        assert answers < 1000
        transport.resume_reading()
        for _ in range(1000):
            assert len(await client.receive_frame()) == CHUNK_BYTES
    assert answers == 1000


async def test_an_old_version_is_told_once_for_each_client(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Handler(ApiKey.HEARTBEAT, 2, 4, lambda *_: HeartbeatResponse(), NOTHING)) as node:
        for name in ("old", "old", "older", "old"):
            client = await node.connect()
            client.writer.write(encode_request(HeartbeatRequest(), 1, 1, name))
            assert await client.reader.read() == b""
    first, second = refusals(caplog)
    assert "version 1 of Heartbeat is not served (client old)" in first
    assert "(client older)" in second


async def test_of_an_old_version_no_more_is_kept_than_the_beginning_of_a_client_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Handler(ApiKey.HEARTBEAT, 2, 4, lambda *_: HeartbeatResponse(), NOTHING)) as node:
        for end in "ab":
            client = await node.connect()
            client.writer.write(encode_request(HeartbeatRequest(), 1, 1, "long" * 8_000 + end))
            assert await client.reader.read() == b""
    (one,) = refusals(caplog)
    assert one.endswith(f"(client {'long' * 64})")


async def test_a_flood_of_garbage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as node:
        for _ in range(5):
            client = await node.connect()
            client.writer.write(b"\xff" * 8)
            assert await client.reader.read() == b""
    assert len(refusals(caplog)) == 1


async def test_a_large_request_is_read_beside_the_others_and_answered_in_its_place() -> None:
    async with serving(Handler(ApiKey.DELETE_GROUPS, 0, 2, lambda _, __, asked: answer_of(asked), NOTHING)) as node:
        client = await node.connect()
        names = [f"group-{number}" for number in range(40_000)]
        client.send(DeleteGroupsRequest(groups_names=names), 2)
        client.send(VERSIONS_REQUEST, 3)
        _, response = await client.receive(ApiKey.DELETE_GROUPS, 2)
        assert isinstance(response, DeleteGroupsResponse)
        assert [result.group_id for result in response.results] == names
        await client.receive(ApiKey.API_VERSIONS, 3)


def answer_of(asked: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name) for name in asked.groups_names])


async def test_a_large_request_that_makes_no_sense_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Handler(ApiKey.DELETE_GROUPS, 0, 2, lambda _, __, asked: answer_of(asked), NOTHING)) as node:
        client = await node.connect()
        frame = bytearray(encode_request(DeleteGroupsRequest(groups_names=["x" * 30_000] * 10), 2, 1, "test"))
        frame[-1] = 99
        client.writer.write(frame)
        assert await client.reader.read() == b""
    (line,) = refusals(caplog)
    assert "DeleteGroupsRequest version 2" in line


async def test_an_answer_that_is_not_read_counts_as_a_whole_until_its_end_has_gone() -> None:
    """Most of it is with the system, and all of it in memory."""
    size = 32 << 20
    whole = [struct.pack(">ii", 4 + size, 1) + bytes(size)]
    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, lambda *_: whole, NOTHING, raw=True)) as node:
        reader, neighbour = await node.connect(), await node.connect()
        reader.send(HeartbeatRequest(), 4)
        memory = node.connections.memory
        while not memory._bytes:
            assert await neighbour.lives()
        assert memory._bytes >= size
        await reader.receive_frame()
        while memory._bytes:
            assert await neighbour.lives()
