"""`queued.max.request.bytes`: large requests and answers share a limit, and nobody keeps the others out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest
from tests.unit.node.served_node import serving

from penstock.node.serving import frames
from penstock.node.serving.frames import FREE_BYTES, SHARED_BYTES, RequestMemory
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.slices import UNDER_WAY_AT_ONCE, Slices
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request
from penstock.testing.simulator.loop import VirtualLoop

MEGABYTE = 1 << 20
LIMIT = {"queued.max.request.bytes": str(MEGABYTE)}
LARGE = encode_request(
    HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000, group_instance_id="i" * 30_000), 4, 7, "c"
)


def answers_shortly(*_: Any) -> HeartbeatResponse:
    return HeartbeatResponse()


HEARTBEAT = Handler(ApiKey.HEARTBEAT, 4, 4, answers_shortly, NOTHING)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PATIENCE_S", 0.0)


def announced(size: int) -> bytes:
    """The beginning of a frame of this size."""
    return size.to_bytes(4, "big") + LARGE[4:100]


async def test_a_large_request_waits_until_there_is_memory_for_it_and_a_small_one_does_not() -> None:
    async with serving(HEARTBEAT, settings=LIMIT) as node:
        first, second, third = [await node.connect() for _ in range(3)]
        first.writer.write(announced(MEGABYTE))
        assert await third.lives()
        second.writer.write(LARGE[:100])
        assert await third.lives()
        second.writer.write(LARGE[100:])
        answer = asyncio.ensure_future(second.receive(ApiKey.HEARTBEAT, 4))
        assert await third.lives()
        assert not answer.done()
        first.writer.close()
        assert (await answer)[0] == 7


async def test_where_something_waits_for_room_little_is_taken_in_advance() -> None:
    """Five hundred peers that begin large frames hold five hundred first reads."""
    async with serving(HEARTBEAT, settings=LIMIT) as node:
        first, second, third = [await node.connect() for _ in range(3)]

        def first_reads() -> set[int]:
            return {len(cast("Any", one).get_buffer(-1)) for one in node.connections.active}

        assert await third.lives()
        assert first_reads() == {SHARED_BYTES}
        first.writer.write(announced(MEGABYTE))
        assert await third.lives()
        second.writer.write(LARGE[:100])
        assert await third.lives()
        assert FREE_BYTES in first_reads()
        assert SHARED_BYTES not in first_reads()
        first.writer.close()
        second.writer.write(LARGE[100:])
        assert (await second.receive(ApiKey.HEARTBEAT, 4))[0] == 7
        assert SHARED_BYTES in first_reads()


async def test_a_frame_that_is_answered_in_slices_is_there_until_it_is() -> None:
    goes_on = asyncio.Event()

    async def answers_later(*_: Any) -> list[bytes]:
        await goes_on.wait()
        return [bytes(8)]

    later = Handler(ApiKey.HEARTBEAT, 4, 4, answers_later, NOTHING, raw=True, pipelined=True)
    frame = announced(MEGABYTE) + bytes(MEGABYTE)
    async with serving(later, settings=LIMIT) as node:
        first, second = [await node.connect() for _ in range(2)]
        first.writer.write(frame[: MEGABYTE + 4])
        while not any(connection.is_waiting for connection in node.connections.active):
            await asyncio.sleep(0)
        second.writer.write(frame[: MEGABYTE + 4])
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert sum(connection.is_waiting for connection in node.connections.active) == 1
        goes_on.set()
        assert await first.reader.readexactly(8) == await second.reader.readexactly(8)


async def test_who_does_not_send_on_loses_the_memory_that_another_waits_for(no_patience: None) -> None:
    async with serving(HEARTBEAT, settings=LIMIT) as node:
        first, second, third = [await node.connect() for _ in range(3)]
        first.writer.write(announced(MEGABYTE))
        assert await third.lives()
        second.writer.write(LARGE[:100])
        with suppress(ConnectionError):
            assert await first.reader.read() == b""
        second.writer.write(LARGE[100:])
        assert (await second.receive(ApiKey.HEARTBEAT, 4))[0] == 7


async def test_who_does_not_read_on_loses_the_memory_that_another_waits_for(no_patience: None) -> None:
    large = Handler(ApiKey.LIST_GROUPS, 0, 0, lambda *_: ListGroupsResponse(groups=[]), NOTHING, raw=False).replace(
        function=lambda *_: bytes(64 * MEGABYTE)
    )
    async with serving(HEARTBEAT, large, settings=LIMIT) as node:
        first, second, third = [await node.connect() for _ in range(3)]
        first.send(ListGroupsRequest(), 0)
        await first.writer.drain()
        await first.reader.readexactly(4)
        second.writer.write(LARGE[:100])
        assert await third.lives()
        second.writer.write(LARGE[100:])
        assert (await second.receive(ApiKey.HEARTBEAT, 4))[0] == 7
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await first.reader.readexactly(64 * MEGABYTE)


async def test_alone_a_request_may_have_more_than_there_is() -> None:
    async with serving(HEARTBEAT, settings={"queued.max.request.bytes": "10"}) as node:
        client, other = [await node.connect() for _ in range(2)]
        for _ in range(3):
            client.writer.write(LARGE[:100])
            assert await other.lives()
            client.writer.write(LARGE[100:])
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7


def test_first_come_first_served() -> None:
    async def run() -> list[str]:
        memory, came = RequestMemory(10), []
        assert memory.take("a", 6, lambda: None)
        assert not memory.take("b", 5, lambda: came.append("b"))
        assert not memory.take("c", 1, lambda: came.append("c"))
        memory.give("b")  # it does not want it any more
        assert memory.take("a", 6, lambda: None)
        await asyncio.sleep(1)
        return came

    assert VirtualLoop(Random(1)).run_until_complete(run()) == ["c"]


def test_nothing_is_taken_away_where_nothing_waits() -> None:
    lost: list[str] = []

    async def run() -> None:
        memory = RequestMemory(10)
        memory.take("a", 10, lambda: None, lambda: lost.append("a"))
        await asyncio.sleep(1000)
        assert not lost
        async with asyncio.timeout(1000):
            memory.take("b", 1, lambda: None)
            while not lost:
                await asyncio.sleep(1)

    VirtualLoop(Random(1)).run_until_complete(run())
    assert lost == ["a"]


async def test_a_few_long_answers_are_under_way_at_once() -> None:
    slices, begun, ended = Slices(), set[int](), set[int]()
    most = 0

    def steps(number: int) -> Iterator[None]:
        nonlocal most
        for _ in range(10):
            yield None
        begun.add(number)
        most = max(most, len(begun - ended))
        for _ in range(10):
            yield None
        ended.add(number)

    await asyncio.gather(*(slices.answer(steps(number)) for number in range(20)))  # type: ignore[arg-type]
    assert most == UNDER_WAY_AT_ONCE
    assert ended == set(range(20))


async def test_a_long_answer_may_wait_for_another() -> None:
    slices = Slices()

    def inner() -> Iterator[None]:
        for _ in range(10):
            yield None

    def outer() -> Iterator[Any]:
        for _ in range(10):
            yield None
        yield slices.answer(inner())  # type: ignore[arg-type]

    async with asyncio.timeout(30):
        await asyncio.gather(*(slices.answer(outer()) for _ in range(20)))  # type: ignore[arg-type]
