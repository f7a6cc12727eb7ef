"""Frames that are here as a whole, and wait to be taken apart or written, keep other large ones out meanwhile."""

from __future__ import annotations

import asyncio

from tests.unit.node.served_node import serving
from tests.unit.node.serving.crowd import Crowd, on_virtual_time

from penstock.node.serving.handler import Handler
from penstock.node.serving.room import STILL_S
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
        with crowd.memory.parked(11):
            assert not crowd.take("next", 2, rest=49)
            await asyncio.sleep(0)
            assert crowd.came == []
        await asyncio.sleep(0)
        assert crowd.came == ["next"]

    on_virtual_time(run)


def test_behind_as_much_as_there_is_one_may() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("begun", 1, rest=50)
        with crowd.memory.parked(10):
            assert crowd.take("begun", 5, rest=45)
            assert crowd.memory._beyond == "begun"

    on_virtual_time(run)


def test_frames_have_what_those_that_are_whole_leave_and_work_does_not_wait_for_them() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        with crowd.memory.parked(6):
            assert crowd.take("short", 4)
            assert not crowd.take("long", 1)
            crowd.memory.give("long")
            assert crowd.memory.take("work", 6, lambda: None)

    on_virtual_time(run)


def test_who_is_beyond_for_what_is_parked_has_no_longer_than_others_who_are() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("begun", 1, rest=50)
        with crowd.memory.parked(10):
            assert crowd.take("begun", 5, rest=45)
            assert not crowd.take("waits", 3)
            crowd.far["begun"] = 1
            await asyncio.sleep(STILL_S + 0.1)
            crowd.far["begun"] = 2
            await asyncio.sleep(STILL_S)
            assert crowd.lost == ["begun"]

    on_virtual_time(run)


def test_who_waits_with_an_answer_makes_way_for_what_the_parked_keep_out() -> None:
    async def run() -> None:
        crowd, told = Crowd(10), list[str]()
        with crowd.memory.parked(8), crowd.memory.idle(2, lambda: told.append("goes")):
            assert not crowd.take("long", 3)
            assert told == ["goes"]

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
