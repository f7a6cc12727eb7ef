"""Connections of the simulation: what arrives when, what cut links hold, and what befalls them when processes end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.serving.server import Endpoint
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.network import FIRST_PORT, SYN_RETRY_S, Network, Pipe

DELAY_S = 0.25
TICK_S = 0.000_01


class Drawn:
    """Each delay is the mean; a write stays whole unless there are marks to cut it at."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.asked: list[Any] = []
        self.chance = 0.0

    def random(self) -> float:
        return 0.8 if self.marks else self.chance

    def randrange(self, low: int, high: int) -> int:
        self.asked.append((low, high))
        return self.marks.pop(0)

    def expovariate(self, rate: float) -> float:
        return 1 / rate


class End(asyncio.Protocol):
    """One end of a connection, and all that it is told, with the time."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.pipe: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.pipe = transport
        self.note("made")

    def data_received(self, data: bytes) -> None:
        self.note(data.decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.note(f"lost: {exc}")

    def pause_writing(self) -> None:
        self.note("paused")

    def resume_writing(self) -> None:
        self.note("resumed")

    def note(self, what: str) -> None:
        self.world.seen.append((self.name, what))
        self.world.times.append(round(self.world.loop.moment, 4))


class World:
    """A server on host s and a client on host c."""

    def __init__(self) -> None:
        self.loop, self.drawn = VirtualLoop(Random(1)), Drawn()
        self.mixed: list[bytes] = []
        trace: Any = SimpleNamespace(mix=self.mixed.append)
        self.network = Network(self.loop, cast("Any", self.drawn), trace)
        self.network.conditions.delay_s = DELAY_S
        self.server, self.client = Process("s"), Process("c")
        self.seen: list[tuple[str, str]] = []
        self.times: list[float] = []
        self.far, self.near = End(self, "far"), End(self, "near")
        self.failure: Exception | None = None

    def until(self, moment: float) -> list[tuple[str, str]]:
        """What is seen up to then, since this was asked last."""
        self.seen.clear()
        self.times.clear()
        self.loop.call_at_moment(moment, self.loop.stop)
        self.loop.run_forever()
        return list(self.seen)

    def listen(self, process: Process | None = None) -> Any:
        async def begin() -> Any:
            bound = self.network.bind(Endpoint("L", "s", 9))
            return await self.loop.create_server(lambda: self.far, sock=bound.socket)

        return (process or self.server).spawn(self.loop, begin())

    def connect(self) -> asyncio.Task[None]:
        async def begin() -> None:
            try:
                await self.loop.create_connection(lambda: self.near, "s", 9)
            except OSError as error:
                self.failure = error

        return self.client.spawn(self.loop, begin())

    def connected(self) -> World:
        self.listen()
        self.connect()
        self.until(1.0)
        return self


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.loop.close()


def test_a_connection_takes_two_ways(world: World) -> None:
    world.listen()
    world.connect()
    assert world.until(0.5) == []
    assert sorted(world.until(1.0)) == [("far", "made"), ("near", "made")]
    assert world.times == [round(2 * (DELAY_S + TICK_S), 4)] * 2
    near, far = world.near.pipe, world.far.pipe
    assert (near.get_extra_info("sockname"), near.get_extra_info("peername")) == (("c", FIRST_PORT), ("s", 9))
    assert (far.get_extra_info("sockname"), far.get_extra_info("peername")) == (("s", 9), ("c", FIRST_PORT))
    assert (near.peer, far.peer, near.can_write_eof()) == (far, near, False)


def test_where_nobody_listens_it_is_refused(world: World) -> None:
    world.connect()
    world.until(1.0)
    assert isinstance(world.failure, ConnectionRefusedError)
    server = world.listen()
    other = Process("s")
    world.until(1.1)
    world.listen(other)
    world.until(1.2)
    server.result().close()
    world.failure = None
    world.connect()
    assert len(world.until(2.0)) == 2, "another process listens there by now"
    assert world.failure is None


@pytest.mark.parametrize("links", [[("c", "s")], [("s", "c")]])
def test_who_is_cut_off_tries_again(world: World, links: list[tuple[str, str]]) -> None:
    world.network.conditions.cut.update(dict.fromkeys(links))
    world.listen()
    world.connect()
    assert world.until(3.0) == []
    world.network.mend(links)
    assert len(world.until(3.0 + 2 * DELAY_S + SYN_RETRY_S + 0.01)) == 2


def test_bytes_arrive_in_their_order(world: World) -> None:
    world.connected()
    world.near.pipe.write(b"first")
    world.near.pipe.write(b"second")
    world.near.pipe.write(b"")
    world.far.pipe.write(bytearray(b"back"))
    assert sorted(world.until(2.0)) == [("far", "first"), ("far", "second"), ("near", "back")]
    assert world.times == [round(1.0 + DELAY_S + TICK_S, 4)] * 3
    assert world.mixed == [b"first", b"second", b"back"]
    world.network.conditions.delay_s = 0.001
    world.near.pipe._last_arrival = 5.0
    world.near.pipe.write(b"third")
    assert world.until(4.99) == []
    assert world.until(5.1) == [("far", "third")], "not before what was sent before it"


def test_a_slow_host_multiplies_delays(world: World) -> None:
    for slow, factor in (({"c": 3}, 3), ({"s": 5}, 5), ({"c": 3, "s": 5}, 15), ({"x": 9}, 1)):
        world.network.conditions.slow = dict(slow)
        assert world.network.arrival("c", "s", 0.0) == pytest.approx(factor * DELAY_S + TICK_S)
    assert world.network.arrival("c", "s", 50.0) == 50.0 + 1e-6
    world.network.conditions.cut = {("c", "s"): None}
    world.network.heal()
    assert (world.network.conditions.slow, world.network.conditions.cut) == ({}, {})


@pytest.mark.parametrize(
    ("content", "marks", "pieces"),
    [
        (b"abcdef", [1, 3], [b"abc", b"def"]),
        (b"abcdef", [3, 4, 1, 4], [b"a", b"bcd", b"ef"]),
        (b"abcdef", [2, 5, 1], [b"a", b"bcde", b"f"]),
        (b"ab", [1, 1], [b"a", b"b"]),
        (b"a", [1, 1], [b"a"]),
        (b"abcdef", [], [b"abcdef"]),
    ],
)
def test_a_write_is_cut_into_pieces(world: World, content: bytes, marks: list[int], pieces: list[bytes]) -> None:
    world.drawn.marks = list(marks)
    assert list(world.network.pieces(content)) == pieces
    if len(content) > 1 and marks:
        limits = [(1, 4)] + [(1, len(content))] * marks[0]
        assert world.drawn.asked == limits
    else:
        assert world.drawn.asked == []


def test_a_cut_link_holds_bytes_back_in_one_direction(world: World) -> None:
    world.connected()
    world.network.conditions.cut[("c", "s")] = None
    world.near.pipe.write(b"a")
    world.near.pipe.write(b"b")
    world.far.pipe.write(b"back")
    assert world.until(2.0) == [("near", "back")]
    del world.network.conditions.cut[("c", "s")]
    world.near.pipe.write(b"c")
    assert world.until(3.0) == [], "it stays behind what is held"
    world.network.mend([("c", "s")])
    assert world.until(4.0) == [("far", "a"), ("far", "b"), ("far", "c")]


def test_an_end_that_closes_tells_the_other_one(world: World) -> None:
    world.connected()
    world.near.pipe.write(b"last")
    world.near.pipe.close()
    world.near.pipe.close()
    assert world.near.pipe.is_closing()
    world.near.pipe.write(b"never")
    assert not world.far.pipe.is_closing()
    assert world.until(3.0) == [("near", "lost: None"), ("far", "last"), ("far", "lost: None")]
    assert (world.near.pipe.is_open, world.far.pipe.is_open) == (False, False)


def test_what_arrives_waits_for_who_reads(world: World) -> None:
    world.connected()
    world.far.pipe.pause_reading()
    world.near.pipe.write(b"a")
    assert world.until(2.0) == []
    world.near.pipe.write(b"b")
    world.far.pipe.resume_reading()
    world.far.pipe.resume_reading()
    assert world.until(3.0) == [("far", "a"), ("far", "b")]


@pytest.mark.parametrize("high", [None, 100])
def test_who_writes_more_than_there_is_room_for_is_paused(world: World, high: int | None) -> None:
    world.connected()
    world.network.conditions.socket_bytes = 1_000
    near = world.near.pipe
    near.set_write_buffer_limits(high)
    room = 1_000 + (65_536 if high is None else high)
    world.far.pipe.pause_reading()
    near.write(b"x" * 1_000)
    assert near.get_write_buffer_size() == 0
    near.write(b"x" * (room - 1_000))
    assert near.get_write_buffer_size() == room - 1_000
    assert world.until(1.1) == []
    near.write(b"x")
    near.write(b"x")
    assert world.seen == [("near", "paused")], "once"
    world.until(2.0)
    world.far.pipe.resume_reading()
    seen = world.until(3.0)
    assert [one for one in seen if one[0] == "near"] == [("near", "resumed")]
    assert near._in_flight == 0


class Buffered(asyncio.BufferedProtocol):
    """It has room for three bytes."""

    def __init__(self) -> None:
        self.buffer, self.got = bytearray(3), b""
        self.pipe: Any = None
        self.stops_at = 99

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.pipe = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += bytes(self.buffer[:nbytes])
        if len(self.got) >= self.stops_at:
            self.pipe.pause_reading()


def test_a_protocol_with_a_buffer_of_its_own_gets_as_much_as_fits(world: World) -> None:
    buffered = Buffered()
    world.far = cast("Any", buffered)
    world.connected()
    world.near.pipe.write(b"abcdefgh")
    world.until(2.0)
    assert buffered.got == b"abcdefgh"
    buffered.got, buffered.stops_at = b"", 6
    world.near.pipe.write(b"abcdefgh")
    world.until(3.0)
    assert buffered.got == b"abcdef"
    buffered.stops_at = 99
    buffered.pipe.resume_reading()
    world.until(4.0)
    assert buffered.got == b"abcdefgh"


RESET = "lost: [Errno 104] Connection reset by peer"


def test_connections_of_a_process_that_was_killed_are_reset(world: World) -> None:
    world.connected()
    world.server.kill()
    world.network.process_died(world.server, power_lost=False)
    assert world.until(2.0) == [("near", RESET)]
    world.connect()
    world.until(3.0)
    assert isinstance(world.failure, ConnectionRefusedError)


def test_a_host_without_power_says_nothing_until_it_is_back(world: World) -> None:
    world.connected()
    world.server.kill()
    world.network.process_died(world.server, power_lost=True)
    world.near.pipe.write(b"unheard")
    world.connect()
    assert world.until(9.0) == []
    assert world.failure is None
    world.network.host_is_back("x")
    assert world.until(10.0) == []
    world.network.host_is_back("s")
    assert world.until(11.0) == [("near", RESET)]
    assert isinstance(world.failure, ConnectionRefusedError)
    world.network.host_is_back("s")
    assert world.until(12.0) == []


@pytest.mark.parametrize(("share", "count"), [(0.4, 0), (0.6, 2), (2.0, 2)])
def test_some_connections_break(world: World, share: float, count: int) -> None:
    world.connected()
    world.drawn.chance = 0.25
    assert world.network.break_some(share) == count
    assert world.until(2.0) == ([("near", RESET), ("far", RESET)] if count else [])
    if count:
        assert world.network.break_some(2.0) == 0, "they are broken"


def test_connections_that_are_over_are_forgotten(world: World) -> None:
    world.connected()
    first: Pipe = world.near.pipe
    first.close()
    world.until(2.0)
    world.connect()
    world.until(3.0)
    assert first not in world.network._pipes
    assert len(world.network._pipes) == 2
