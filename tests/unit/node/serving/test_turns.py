"""Connections take turns, whatever each of them sends."""

from __future__ import annotations

import asyncio
import struct
from functools import partial

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.logged import VERSIONS_REQUEST

from penstock.log.disk import OpenFile
from penstock.log.log_slice import LogSlice
from penstock.node.serving.connection import TURN_NS, Connection
from penstock.node.serving.connections import ROUND_NS, UNWATCHED_NS
from penstock.node.serving.frames import LATE_BYTES, READ_BYTES, SHARED_BYTES, SHORT_BYTES
from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.room import RequestMemory
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request


async def test_who_sends_very_much_at_once_lets_others_have_their_turn() -> None:
    handled: list[str] = []

    def slow(_: object, context: RequestContext, __: object) -> HeartbeatResponse:
        handled.append(context.client_id or "")
        now_ns[0] += TURN_NS // 4
        return HeartbeatResponse()

    now_ns = [0]
    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, slow, NOTHING)) as node:
        greedy, modest = await node.connect(), await node.connect()
        assert await greedy.lives()
        assert await modest.lives()
        node.connections.dispatcher.clock_ns = lambda: now_ns[0]
        for name, client, count in (("greedy", greedy, 100), ("modest", modest, 1)):
            client.writer.write(encode_request(HeartbeatRequest(), 4, 1, name) * count)
        for _ in range(100):
            await greedy.receive(ApiKey.HEARTBEAT, 4)
        await modest.receive(ApiKey.HEARTBEAT, 4)
    assert len(handled) == 101
    assert handled.index("modest") < 20


async def test_further_turns_of_very_many_are_not_all_in_one_turn_of_the_loop() -> None:
    """A thousand that had two milliseconds each held up leases and elections for two seconds."""
    now_ns, order, rounds = [0], list[int](), list[int]()
    async with serving() as node:
        node.connections.dispatcher.clock_ns = lambda: now_ns[0]

        def turn(number: int) -> None:
            now_ns[0] += TURN_NS
            order.append(number)
            if number == 3:
                node.connections.later(partial(turn, 1000))
                raise ValueError("a defect of one")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        for number in range(100):
            node.connections.later(partial(turn, number))
        while len(order) < 101:
            before = len(order)
            await asyncio.sleep(0)
            rounds.append(len(order) - before)
    assert order == [*range(100), 1000]
    assert max(rounds) <= ROUND_NS // TURN_NS


async def test_first_turns_of_very_many_are_not_all_in_one_turn_of_the_loop() -> None:
    """A thousand that had sent something at once took 240 ms of it."""
    handled, turns, step_ns = list[str](), list[int](), 1_000_000

    def slow(_: object, context: RequestContext, __: object) -> HeartbeatResponse:
        handled.append(context.client_id or "")
        now_ns[0] += step_ns
        return HeartbeatResponse()

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, slow, NOTHING)) as node:
        clients = [await node.connect() for _ in range(60)]
        for client in clients:
            assert await client.lives()
        now_ns = [node.connections.looks_ns]
        node.connections.dispatcher.clock_ns = lambda: now_ns[0]
        for number, client in enumerate(clients):
            client.writer.write(encode_request(HeartbeatRequest(), 4, 1, str(number)) * 2)
        while len(handled) < 2 * len(clients):
            before = len(handled)
            await asyncio.sleep(0)
            turns.append(len(handled) - before)
        for client in clients:
            for _ in range(2):
                await client.receive(ApiKey.HEARTBEAT, 4)
    assert max(turns) <= (UNWATCHED_NS + 2 * (ROUND_NS + TURN_NS)) // step_ns
    assert sorted(handled, key=int) == sorted([str(number) for number in range(60)] * 2, key=int)


async def test_who_comes_too_late_for_a_first_turn_has_little_received() -> None:
    """It has to be kept, for each of very many."""
    async with serving(settings={"queued.max.request.bytes": "10"}) as node:
        assert await (await node.connect()).lives()
        (connection,) = node.connections.active
        assert isinstance(connection, Connection)
        now_ns = node.connections.looks_ns
        assert not node.connections.look(now_ns), "the first ones of a turn of the loop"
        assert len(connection.get_buffer(-1)) == SHARED_BYTES
        assert node.connections.look(now_ns + ROUND_NS)
        _make_short(node.connections.memory)
        assert len(connection.get_buffer(-1)) == LATE_BYTES, "also where others wait for memory"
        await asyncio.sleep(0)
        assert len(connection.get_buffer(-1)) == SHORT_BYTES


async def test_what_is_received_of_those_who_come_too_late_is_taken_from_further_turns() -> None:
    """However little that is of each, there may be thousands."""
    order: list[int] = []
    async with serving() as node:
        now_ns = [node.connections.looks_ns]
        node.connections.dispatcher.clock_ns = lambda: now_ns[0]

        def turn(number: int) -> None:
            now_ns[0] += TURN_NS
            order.append(number)

        node.connections.look(now_ns[0])
        for number in range(20):
            node.connections.later(partial(turn, number))
        now_ns[0] += 2 * ROUND_NS - TURN_NS // 2
        await asyncio.sleep(0)
        assert len(order) == 1
        await asyncio.sleep(0)
        assert len(order) == 1 + ROUND_NS // TURN_NS, "they have had a turn of the loop for it"


SMALL_FRAME = encode_request(HeartbeatRequest(), 4, 1, "t" * 233)
LONG_FRAME = encode_request(HeartbeatRequest(group_id="n" * 30_000), 4, 1, "test")


def _make_short(memory: RequestMemory) -> None:
    memory.take("all", 10, print)
    memory.take("more", 10, print)
    assert memory.is_short


@pytest.mark.parametrize(
    ("pieces", "is_short"),
    [
        ([LONG_FRAME[:100], LONG_FRAME[100:]], False),
        ([SMALL_FRAME * (SHARED_BYTES // len(SMALL_FRAME))], False),
        ([SMALL_FRAME * (SHORT_BYTES // len(SMALL_FRAME))], True),
    ],
    ids=["the rest of a frame", "many small frames", "fewer, as others wait for memory"],
)
async def test_a_buffer_that_was_filled_ends_the_turn(pieces: list[bytes], is_short: bool) -> None:
    """Else uvloop would read on from this socket, up to 32 times, before any other has its turn."""
    handler = Handler(ApiKey.HEARTBEAT, 0, 4, lambda *_: HeartbeatResponse(), NOTHING)
    async with serving(handler, settings={"queued.max.request.bytes": "10"}) as node:
        if is_short:
            _make_short(node.connections.memory)
        client = await node.connect()
        assert await client.lives()
        (connection,) = node.connections.active
        assert isinstance(connection, Connection)
        transport = connection._transport
        assert transport is not None
        node.connections.dispatcher.clock_ns = lambda: 0  # the turn does not end because it took long
        for piece in pieces:
            assert transport.is_reading()
            buffer = connection.get_buffer(-1)
            buffer[: len(piece)] = piece
            connection.buffer_updated(len(piece))
        assert len(piece) == len(buffer)
        assert not transport.is_reading()
        await client.receive(ApiKey.HEARTBEAT, 4)
        while not transport.is_reading():
            await asyncio.sleep(0)


async def test_a_very_large_frame_is_received_in_turns() -> None:
    async with serving() as node:
        client = await node.connect()
        header = encode_request(VERSIONS_REQUEST, 3, 1, "t")[4:]
        client.writer.write((90 << 20).to_bytes(4, "big") + header + bytes(SHARED_BYTES - len(header)))
        assert await (await node.connect()).lives()
        (connection,) = [one for one in node.connections.active if isinstance(one, Connection) and one._frame]
        room = len(connection.get_buffer(-1))
        assert room <= READ_BYTES
        connection.buffer_updated(room)
        assert connection._held, "the others have their turn"


class CountedFile(OpenFile):
    """It has nothing but zeros, and counts how often it is read."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.reads = 0

    def read_at(self, length: int, position: int) -> bytes:
        self.reads += 1
        return bytes(length)


async def test_an_answer_of_very_many_slices_is_read_in_several_turns() -> None:
    """Thousands of small ones were read in one; the peer takes all of them at once."""
    file, count, a_turn = CountedFile(), 2_000, list[int]()

    def fetch(*_: object) -> list[bytes | LogSlice]:
        look()
        return [struct.pack(">ii", 4 + 100 * count, 1), *(LogSlice(file, 0, 100, 0) for _ in range(count))]

    def look() -> None:
        a_turn.append(file.reads)
        file.reads = 0
        if sum(a_turn) < count:
            asyncio.get_running_loop().call_soon(look)

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, fetch, NOTHING, raw=True)) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(), 4)
        assert (await client.receive_frame())[4:] == bytes(100 * count)
        assert await client.lives()
    assert sum(a_turn) == count
    assert max(a_turn) <= 300
