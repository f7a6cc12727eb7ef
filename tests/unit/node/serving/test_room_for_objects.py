"""Objects of large requests have room of `queued.max.request.bytes`, as long as that keeps nobody out."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.test_request_memory import HEARTBEAT, LARGE, LIMIT

from penstock.node.serving import frames
from penstock.node.serving.frames import RequestMemory
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.slices import Steps
from penstock.protocol.messages.heartbeat import HeartbeatResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "STILL_S", 1000.0)


@pytest.mark.parametrize("more", [{}, {"hands_on": True}, {"polls": True}, {"ends_with_client": True}], ids=str)
async def test_objects_of_a_large_request_have_room_until_it_is_answered(patience: None, more: dict[str, bool]) -> None:
    """As one that waits for the controller; but what waits for other clients keeps none of them out."""
    goes_on, begun = asyncio.Event(), list[int]()

    async def answers_later(*_: Any) -> HeartbeatResponse:
        begun.append(1)
        await goes_on.wait()
        return HeartbeatResponse()

    later = Handler(ApiKey.HEARTBEAT, 4, 4, answers_later, NOTHING, **more)  # type: ignore[arg-type]
    async with serving(later, settings=LIMIT) as node:
        clients = [await node.connect() for _ in range(3)]
        for client in clients:
            client.writer.write(LARGE)
        most = 3 if {"polls", "ends_with_client"} & set(more) else 1
        while len(begun) < most:
            assert await (await node.connect()).lives()
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert len(begun) == most
        goes_on.set()
        for client in clients:
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7


async def test_a_large_request_waits_for_no_work_of_others() -> None:
    ends = threading.Event()

    def works(*_: Any) -> Steps[ListGroupsResponse]:
        yield ends.wait
        return ListGroupsResponse()

    listing = Handler(ApiKey.LIST_GROUPS, 0, 0, works, NOTHING)
    async with serving(HEARTBEAT, listing) as node:
        worker, client = [await node.connect() for _ in range(2)]
        worker.send(ListGroupsRequest(), 0)
        assert await (await node.connect()).lives()
        client.writer.write(LARGE)
        try:
            async with asyncio.timeout(10):
                assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7
        finally:
            ends.set()


async def test_what_only_waits_hears_of_others_that_need_its_room() -> None:
    memory, told = RequestMemory(10), list[str]()
    async with memory.lent(6):
        with memory.idle(lambda: told.append("first")):
            assert memory.take("fits", 4, lambda: None)
            assert told == []
            assert not memory.take("late", 4, lambda: None)
            with memory.idle(lambda: told.append("second")):
                assert told == ["first", "second"]
        assert not memory.take("later", 4, lambda: None)
    assert told == ["first", "second"]
