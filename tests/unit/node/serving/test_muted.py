"""A connection that is muted has its answer, and is not heard until its time is up; others are."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

from tests.unit.node.served_node import serving

from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import Admitted, Throttling
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey

FOR_EVER_S = 1000.0


class Muting:
    """Mutes whoever asks; those that have come so far are `muted`."""

    has_quotas = True

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.muted: list[Admitted] = []

    def begin(self, frame: memoryview, connection: Admitted, session: object) -> Any:
        if frame[:2] != ApiKey.HEARTBEAT.to_bytes(2, "big"):
            return None
        return partial(self._mute, connection), Costless()

    def _mute(self, connection: Admitted, parts: object) -> None:
        self.muted.append(connection)
        connection.mute(self.seconds)

    def refuses(self, host: str) -> bool:
        return False


class Costless:
    most_fetched = 0

    def waits(self, answer: Any) -> Any:
        return answer


def throttling(muting: Muting) -> Throttling[Any]:
    found: Throttling[Any] = Throttling(lambda: muting)
    found.change(lambda _: None)
    return found


async def test_what_came_with_the_request_waits_as_well() -> None:
    muting, asked = Muting(FOR_EVER_S), list[object]()

    def answer(*request: object) -> HeartbeatResponse:
        asked.append(request)
        return HeartbeatResponse()

    handler = Handler(ApiKey.HEARTBEAT, 4, 4, answer, NOTHING)
    async with serving(handler, throttling=throttling(muting)) as node:
        client = await node.connect()
        for _ in range(3):
            client.send(HeartbeatRequest(), 4)
        assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 1
        assert await (await node.connect()).lives()
        assert (len(asked), len(muting.muted)) == (1, 1)


async def test_it_is_heard_again_when_the_last_of_its_times_is_up() -> None:
    muting = Muting(0.001)
    handler = Handler(ApiKey.HEARTBEAT, 4, 4, lambda *_: HeartbeatResponse(), NOTHING)
    async with serving(handler, throttling=throttling(muting)) as node:
        client = await node.connect()
        for number in range(1, 4):
            client.send(HeartbeatRequest(), 4)
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == number
        muting.muted[0].mute(FOR_EVER_S)
        muting.muted[0].mute(0.001)
        client.send(HeartbeatRequest(), 4)
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert len(muting.muted) == 3


async def test_an_answer_that_comes_later_mutes_as_well() -> None:
    muting, asked = Muting(FOR_EVER_S), list[object]()

    async def answer(*request: object) -> HeartbeatResponse:
        asked.append(request)
        return HeartbeatResponse()

    handler = Handler(ApiKey.HEARTBEAT, 4, 4, answer, NOTHING, pipelined=True)
    async with serving(handler, throttling=throttling(muting)) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(), 4)
        assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 1
        client.send(HeartbeatRequest(), 4)
        assert await (await node.connect()).lives()
        assert len(asked) == 1


async def test_who_is_muted_can_leave() -> None:
    muting = Muting(0.001)
    handler = Handler(ApiKey.HEARTBEAT, 4, 4, lambda *_: HeartbeatResponse(), NOTHING)
    async with serving(handler, throttling=throttling(muting)) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(), 4)
        await client.receive(ApiKey.HEARTBEAT, 4)
        client.writer.transport.abort()
        other = await node.connect()
        while len(node.connections.active) > 1:
            assert await other.lives()


def connections() -> list[Connection]:
    """Whoever holds these keeps the addresses of objects that are gone from being those of new ones."""
    return [one for one in gc.get_objects() if type(one) is Connection]


async def test_nothing_is_kept_of_who_was_muted_and_is_closed() -> None:
    """As one is that was idle for too long: a time may be a hundred times longer, and very many may come."""
    before = connections()  # of other tests
    muting = Muting(FOR_EVER_S)
    handler = Handler(ApiKey.HEARTBEAT, 4, 4, lambda *_: HeartbeatResponse(), NOTHING)
    async with serving(handler, throttling=throttling(muting)) as node:
        other = await node.connect()
        assert await other.lives()
        for _ in range(3):
            client = await node.connect()
            client.send(HeartbeatRequest(), 4)
            await client.receive(ApiKey.HEARTBEAT, 4)
            muting.muted[-1].mute(FOR_EVER_S / 2)
            muting.muted[-1].mute(FOR_EVER_S * 2)
            muting.muted[-1].abort()
        while len(node.connections.active) > 1:
            assert await other.lives()
        muting.muted.clear()
        gc.collect()
        known = {*map(id, before), *map(id, node.connections.active)}
        assert not [one for one in connections() if id(one) not in known]
