"""What `kafka.request.logger` says at DEBUG: which requests were answered, and nothing of what is in them."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.logged import VERSIONS_REQUEST

from penstock.node.serving.dispatch import request_log
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey

LINE = re.compile(
    r"(?P<api>\w+) (?P<version>\d+), correlation id (?P<id>\d+), client 'test' at 127.0.0.1:\d+ "
    r"\(connection 1, listener \w+\): (?P<asked>\d+) bytes, answered with (?P<answer>\d+) after \d+\.\d ms"
)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == request_log.name]


async def test_each_request_is_named_when_it_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, request_log.name)
    let_go = asyncio.Event()

    async def late(*_: Any) -> HeartbeatResponse:
        await let_go.wait()
        return HeartbeatResponse()

    handlers = (
        Handler(ApiKey.HEARTBEAT, 1, 4, late, NOTHING, pipelined=True),
        Handler(ApiKey.DELETE_GROUPS, 0, 2, lambda *_: DeleteGroupsResponse(), NOTHING, pipelined=True),
    )
    async with serving(*handlers) as node:
        client = await node.connect()
        client.send(VERSIONS_REQUEST, 3)
        await client.receive(ApiKey.API_VERSIONS, 3)
        client.send(HeartbeatRequest(group_id="secret", member_id="words"), 4)
        client.send(DeleteGroupsRequest(groups_names=["secret"]), 2)
        while len(told(caplog)) < 2:
            await asyncio.sleep(0)
        let_go.set()
        sizes = [len(await client.receive_frame()) for _ in range(2)]
    found = [LINE.fullmatch(line) for line in told(caplog)]
    assert all(found), told(caplog)
    assert [(one["api"], one["id"]) for one in found if one] == [
        ("ApiVersions", "1"), ("DeleteGroups", "3"), ("Heartbeat", "2")
    ]  # fmt: skip
    assert [int(one["answer"]) for one in found[1:] if one] == [4 + size for size in reversed(sizes)]
    assert "secret" not in "".join(told(caplog))


async def test_nothing_is_said_unless_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, request_log.name)
    async with serving() as node:
        client = await node.connect()
        client.send(VERSIONS_REQUEST, 3)
        await client.receive(ApiKey.API_VERSIONS, 3)
    assert not told(caplog)
