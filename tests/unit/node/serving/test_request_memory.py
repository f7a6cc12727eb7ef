"""`queued.max.request.bytes`: large requests and answers share a limit, and nobody keeps the others out."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.crowd import Crowd, on_virtual_time

from penstock.node.serving import room
from penstock.node.serving.frames import READ_BYTES, SHARED_BYTES, SHORT_BYTES
from penstock.node.serving.handler import Handler
from penstock.node.serving.room import STILL_S, Peer
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.slices import SLICED_BYTES, UNDER_WAY_AT_ONCE, Slices
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request

MEGABYTE = 1 << 20
LIMIT = {"queued.max.request.bytes": str(READ_BYTES)}
"""As much as a frame takes that has begun."""
LARGE = encode_request(
    HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000, group_instance_id="i" * 30_000), 4, 7, "c"
)


def answers_shortly(*_: Any) -> HeartbeatResponse:
    return HeartbeatResponse()


HEARTBEAT = Handler(ApiKey.HEARTBEAT, 4, 4, answers_shortly, NOTHING)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STILL_S", 1000.0)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STILL_S", 0.0)


def announced(size: int) -> bytes:
    """The beginning of a frame of this size."""
    return size.to_bytes(4, "big") + LARGE[4:100]


async def test_a_large_request_waits_until_there_is_memory_for_it_and_a_small_one_does_not(patience: None) -> None:
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


async def test_where_something_waits_for_room_little_is_taken_in_advance(patience: None) -> None:
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
        assert SHORT_BYTES in first_reads()
        assert SHARED_BYTES not in first_reads()
        first.writer.close()
        second.writer.write(LARGE[100:])
        assert (await second.receive(ApiKey.HEARTBEAT, 4))[0] == 7
        assert SHARED_BYTES in first_reads()


async def test_a_frame_that_is_answered_in_slices_is_there_until_it_is(patience: None) -> None:
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


async def test_who_reads_its_answer_to_the_end_has_nothing_more(patience: None) -> None:
    large = Handler(ApiKey.LIST_GROUPS, 0, 0, lambda *_: ListGroupsResponse(groups=[]), NOTHING, raw=False).replace(
        function=lambda *_: bytes(8 * MEGABYTE)
    )
    async with serving(HEARTBEAT, large, settings=LIMIT) as node:
        first, second = [await node.connect() for _ in range(2)]
        first.send(ListGroupsRequest(), 0)
        size = int.from_bytes(await first.reader.readexactly(4), "big")
        await first.reader.readexactly(size)
        second.writer.write(LARGE)
        assert (await second.receive(ApiKey.HEARTBEAT, 4))[0] == 7, "while the first one stays"


async def test_alone_a_request_may_have_more_than_there_is(patience: None) -> None:
    async with serving(HEARTBEAT, settings={"queued.max.request.bytes": "10"}) as node:
        client, other = [await node.connect() for _ in range(2)]
        for _ in range(3):
            client.writer.write(LARGE[:100])
            assert await other.lives()
            client.writer.write(LARGE[100:])
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7


def test_first_come_first_served() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("a", 6)
        assert not crowd.take("b", 5)
        assert not crowd.take("c", 1)
        crowd.memory.give("b")  # it does not want it any more
        assert crowd.take("a", 6)
        await asyncio.sleep(1)
        assert crowd.came == ["c"]

    on_virtual_time(run)


def test_work_goes_first_then_the_frame_that_lacks_least() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("a", 4)
        assert crowd.take("b", 5, rest=4)
        assert not crowd.take("long", 2, rest=90)
        assert not crowd.take("short", 2, rest=2)
        assert not crowd.memory.take("work", 2, lambda: crowd.came.append("work"))
        assert crowd.take("b", 6, rest=3), "one frame that has begun does not wait for room"
        crowd.memory.give("a")
        await asyncio.sleep(0)
        assert crowd.came == ["work", "short"]
        crowd.memory.give("work")
        await asyncio.sleep(0)
        assert crowd.came == ["work", "short", "long"]

    on_virtual_time(run)


def test_frames_that_have_begun_do_not_wait_for_each_other() -> None:
    """One of them has what it needs, that which lacks least first; so work that needs all comes as well."""

    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("a", 4, rest=90)
        assert crowd.take("b", 6, rest=80)
        assert not crowd.memory.take("work", 10, lambda: crowd.came.append("work"))
        assert crowd.take("b", 7, rest=75)
        assert not crowd.take("a", 5, rest=89)
        assert crowd.take("b", 86)
        crowd.memory.give("b")
        await asyncio.sleep(0)
        assert crowd.came == ["a"]
        assert crowd.take("a", 94)
        crowd.memory.give("a")
        await asyncio.sleep(0)
        assert crowd.came == ["a", "work"]

    on_virtual_time(run)


def test_a_host_with_very_many_frames_does_not_keep_another_one_out() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        for number in range(500):
            crowd.take(f"half {number}", 1, "crowd")
        assert not crowd.take("mine", 3, "another")
        await asyncio.sleep(STILL_S + 0.1)
        assert crowd.came[0] == "mine"
        assert len(crowd.lost) == 10

    on_virtual_time(run)


def test_half_frames_of_the_same_host_hold_a_shorter_one_up_for_moments() -> None:
    """Each has sent more than there is room for, and nothing more when there is."""

    async def run() -> None:
        crowd = Crowd(100)
        for number in range(500):
            key = f"half {number}"
            crowd.more[key] = None
            if crowd.take(key, 1, rest=90):
                crowd.take(key, 2, rest=89)
        came = asyncio.Event()
        peer = Peer("h", lambda: -1, lambda: True, lambda: crowd.lost.append("mine"))
        for size in range(1, 50):
            if not crowd.memory.take("mine", size, came.set, peer, 50 - size):
                await came.wait()
                came.clear()
        assert asyncio.get_running_loop().time() < 4 * STILL_S
        assert "mine" not in crowd.lost

    on_virtual_time(run)


def test_the_longest_frame_comes_though_shorter_ones_always_do() -> None:
    async def run() -> None:
        crowd = Crowd(100)

        def come(number: int) -> None:
            """A half frame, and another one when it is closed."""
            key, loop = f"half {number}", asyncio.get_running_loop()

            def lost() -> None:
                crowd.memory.give(key)
                loop.call_soon(come, number + 500)

            peer = Peer("h", lambda: 0, lambda: False, lost)
            crowd.memory.take(key, 1, lambda: crowd.memory.take(key, 2, lambda: None, peer, 89), peer, 90)

        for number in range(500):
            come(number)
        came = asyncio.Event()
        peer = Peer("h", lambda: -1, lambda: True, lambda: crowd.lost.append("mine"))
        async with asyncio.timeout(30 * STILL_S):
            for size in range(1, 92):
                if not crowd.memory.take("mine", size, came.set, peer, 92 - size):
                    await came.wait()
                    came.clear()
        assert not crowd.lost

    on_virtual_time(run)


def test_a_request_that_is_here_waits_for_no_frame_that_waits_itself() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        for size in (1, 2):
            for number in range(10):
                crowd.more[f"half {number}"] = None
                crowd.take(f"half {number}", size, rest=90 - number)
        assert not crowd.take("new", 9, rest=99), "it holds nothing that could be taken away"
        assert not crowd.memory.take("work", 5, lambda: crowd.came.append("work"))
        await asyncio.sleep(2.5 * STILL_S)
        assert "work" in crowd.came
        assert crowd.lost == ["half 0"], "others are held back here"

    on_virtual_time(run)


def test_who_has_sent_more_than_there_is_room_for_does_not_stand_still() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        for key, size in (("slow", 4), ("a", 3), ("b", 3)):
            assert crowd.take(key, size)
        assert crowd.take("slow", 5)
        assert not crowd.take("a", 4)
        assert not crowd.take("b", 4)
        crowd.more["a"] = None
        for turn in range(12):
            crowd.far["slow"] = turn + 1
            assert crowd.take("slow", turn + 6)
            await asyncio.sleep(0.5)
        assert crowd.lost == ["b"]
        assert crowd.came == []

    on_virtual_time(run)


def test_who_moves_loses_nothing_until_a_piece_takes_too_long() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("slow", 4)
        assert crowd.take("still", 6)
        assert not crowd.take("waits", 10)
        for second in range(9):
            crowd.far["slow"] = second + 1
            await asyncio.sleep(1)
        assert crowd.lost == ["still"]
        assert crowd.take("slow", 5)
        for second in range(9):
            crowd.far["slow"] = second + 100
            await asyncio.sleep(1)
        assert crowd.lost == ["still"]
        for second in range(3):
            crowd.far["slow"] = second + 200
            await asyncio.sleep(1)
        assert crowd.lost == ["still", "slow"]

    on_virtual_time(run)


def test_nothing_is_taken_away_where_nothing_waits() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        crowd.take("a", 10)
        await asyncio.sleep(1000)
        assert not crowd.lost
        crowd.take("b", 1)
        await asyncio.sleep(2)
        assert crowd.lost == ["a"]

    on_virtual_time(run)


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


async def test_a_long_answer_begins_where_there_is_room_for_it(patience: None) -> None:
    """Else a hundred that nobody reads begin while one byte is free."""
    goes_on, begun = asyncio.Event(), list[int]()

    def steps(*asked: Any) -> Generator[Any, Any, ListGroupsResponse]:
        for _ in range(10):
            yield None
        begun.append(1)
        yield goes_on.wait()
        return ListGroupsResponse()

    handler = Handler(ApiKey.LIST_GROUPS, 0, 0, steps, NOTHING)
    async with serving(handler, settings={"queued.max.request.bytes": str(SLICED_BYTES * 8 // 3)}) as node:
        clients = [await node.connect() for _ in range(4)]
        for client in clients:
            client.send(ListGroupsRequest(), 0)
        other = await node.connect()
        for _ in range(20):
            assert await other.lives()
        assert len(begun) == 2
        goes_on.set()
        for client in clients:
            await client.receive(ApiKey.LIST_GROUPS, 0)
        assert len(begun) == 4


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
