"""Who takes turns with others: the host that asks, however many connections it has; nodes beside its clients."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from tests.unit.node.served_node import serving

from penstock.node.serving.handler import NODES, Handler
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.slices import CLIENT, Steps
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request


@pytest.mark.parametrize("size", [1, 600, 20_000])
@pytest.mark.parametrize(("client_id", "asker"), [("c", "127.0.0.1"), ("penstock-1", ("127.0.0.1", NODES))])
async def test_a_long_answer_is_made_for_the_host_that_asks(client_id: str, asker: Hashable, size: int) -> None:
    async def later() -> None:
        seen.append(CLIENT.get())

    def steps(*_: Any) -> Steps[HeartbeatResponse]:
        yield from [None] * 10
        seen.append(CLIENT.get())
        yield later()
        return HeartbeatResponse()

    seen = list[Hashable]()
    async with serving(Handler(ApiKey.HEARTBEAT, 4, 4, steps, NOTHING)) as node:
        client = await node.connect()
        client.writer.write(encode_request(HeartbeatRequest(group_id="g" * size), 4, 7, client_id))
        await client.receive(ApiKey.HEARTBEAT, 4)
    assert seen == [asker] * 2
    assert CLIENT.get() is None


async def test_so_is_one_that_keeps_its_order_as_a_produce_request_does() -> None:
    async def produce(*_: Any) -> list[bytes]:
        seen.append(CLIENT.get())
        return [b"\0\0\0\4\0\0\0\7"]

    seen = list[Hashable]()
    async with serving(Handler(ApiKey.PRODUCE, 3, 3, produce, NOTHING, raw=True, pipelined=True)) as node:
        client = await node.connect()
        client.writer.write(b"\0\0\0\x0d\0\0\0\3\0\0\0\7\0\1cab")
        assert await client.reader.readexactly(8) == b"\0\0\0\4\0\0\0\7"
    assert seen == ["127.0.0.1"]
