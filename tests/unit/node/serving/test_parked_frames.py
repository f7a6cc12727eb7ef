"""Frames that are here as a whole, and wait to be taken apart or written, keep other large ones out meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.crowd import Crowd, on_virtual_time

from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.requests.api import ApiKey


def test_no_frame_goes_beyond_the_limit_behind_more_than_that() -> None:
    """Forty clients that sent 38 MB each, again and again, had a node at 700 MB."""

    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("next", 1, rest=50)
        crowd.memory.park("whole", 11)
        assert not crowd.take("next", 2, rest=49)
        await asyncio.sleep(0)
        assert crowd.came == []
        crowd.memory.unpark("whole")
        await asyncio.sleep(0)
        assert crowd.came == ["next"]

    on_virtual_time(run)


def test_behind_as_much_as_there_is_one_may() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("begun", 1, rest=50)
        crowd.memory.park("whole", 10)
        assert crowd.take("begun", 5, rest=45)
        assert crowd.memory._beyond == "begun"

    on_virtual_time(run)


def test_frames_have_what_those_that_are_whole_leave_and_work_does_not_wait_for_them() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        crowd.memory.park("whole", 6)
        assert crowd.take("short", 4)
        assert not crowd.take("long", 1)
        crowd.memory.give("long")
        assert crowd.memory.take("work", 6, lambda: None)

    on_virtual_time(run)


@pytest.mark.parametrize("limit", [-1, 10])
def test_what_was_parked_is_taken_out_once(limit: int) -> None:
    async def run() -> None:
        crowd = Crowd(limit)
        crowd.memory.park("whole", 11)
        for _ in range(2):
            crowd.memory.unpark("whole")
        assert crowd.memory._parked_bytes == 0
        assert crowd.take("all", 10)

    on_virtual_time(run)


async def test_a_large_request_is_parked_until_it_is_taken_apart() -> None:
    parked, goes_on, handled = list[int](), asyncio.Event(), list[int]()

    async def handle(*_: object) -> OffsetDeleteResponse:
        handled.append(node.connections.memory._parked_bytes)
        await goes_on.wait()
        return OffsetDeleteResponse()

    partitions = [OffsetDeleteRequestPartition(partition_index=n) for n in range(10_000)]
    request = OffsetDeleteRequest(topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    async with serving(Handler(ApiKey.OFFSET_DELETE, 0, 0, handle, NOTHING)) as node:
        memory = node.connections.memory
        client, neighbour = await node.connect(), await node.connect()
        client.send(request, 0)
        while not handled:
            parked.append(memory._parked_bytes)
            assert await neighbour.lives()
        assert max(parked) > 40_000
        assert handled == [0]
        goes_on.set()
        await client.receive(ApiKey.OFFSET_DELETE, 0)
