"""No connection is left open behind a link, whatever becomes of it; who waits gets one to the place it asked for."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from penstock.client.connection import Connection
from penstock.client.errors import ConnectionFailedError
from penstock.client.link import Link
from penstock.protocol.address import Address

PLACES = Address("a", 1), Address("b", 2)
OPERATIONS = ("open", "open", "make", "make", "fail", "give up", "cancel", "break")


class Made:
    def __init__(self, place: tuple[Address, ...]) -> None:
        self.place = place
        self.closed = False

    def abort(self, why: str) -> None:
        assert why
        self.closed = True

    async def close(self) -> None:
        self.closed = True


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.link = Link(self.connect)
        self.made: list[Made] = []
        self.attempts: list[tuple[tuple[Address, ...], asyncio.Future[Connection]]] = []
        self.waiting: list[tuple[Address, asyncio.Future[Any]]] = []
        self.cancelled: list[asyncio.Future[Any]] = []

    async def connect(self, *place: Address) -> Connection:
        attempt: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self.attempts.append((place, attempt))
        try:
            return await attempt
        except asyncio.CancelledError:
            if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().abort("nobody gets it")
            raise

    def do(self, operation: str) -> None:
        attempts = [(place, attempt) for place, attempt in self.attempts if not attempt.done()]
        if operation == "open":
            place = self.random.choice(PLACES)
            self.waiting.append((place, asyncio.ensure_future(self.link.opened(place))))
        elif operation == "give up":
            self.link.give_up("it is over")
        elif operation == "cancel" and self.waiting:
            _, waiting = self.random.choice(self.waiting)
            self.cancelled += [waiting] if waiting.cancel() else []
        elif operation == "break" and self.made:
            self.made[-1].closed = True
        elif operation == "make" and attempts:
            at, attempt = self.random.choice(attempts)
            self.made.append(Made(at))
            attempt.set_result(cast("Connection", self.made[-1]))
        elif operation == "fail" and attempts:
            self.random.choice(attempts)[1].set_exception(OSError("nobody listens"))

    async def settle(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(8))
async def test_no_connection_is_left_behind(seed: int) -> None:
    world, raised = World(Random(seed)), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["message"]))
    for _ in range(400):
        world.do(world.random.choice(OPERATIONS))
        await world.settle(world.random.choice((0, 1, 2, 6)))
        if world.random.random() < 0.1:
            await world.settle(6)
            assert [cast("Any", one) for one in world.made if not one.closed] in ([], [world.link.connection])
            assert world.link.connection is None or not world.link.connection.closed
            assert sum(not attempt.done() for _, attempt in world.attempts) <= 1
    await world.link.close()
    await world.settle(6)
    assert all(one.closed for one in world.made)
    for place, waiting in world.waiting:
        assert waiting.done()
        if waiting.cancelled():
            assert waiting in world.cancelled
        else:
            error = waiting.exception()
            assert isinstance(error, ConnectionFailedError | OSError) if error else waiting.result().place == (place,)
    assert not [message for message in raised if message.startswith("Exception in callback")]
