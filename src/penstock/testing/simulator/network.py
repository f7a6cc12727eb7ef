"""The network of a simulation: connections that keep the order of bytes and nothing else about time.

A write is cut into pieces at random, and each piece takes its own delay. A link that is cut, in one direction or both,
holds bytes back as TCP does until it is healed or the connection breaks. What is written to a host without power gets
no answer at all; when the host is back, it resets the connection.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from penstock.node.serving.server import BoundListener, Endpoint
from penstock.testing.simulator.loop import Process, VirtualLoop, current_process
from penstock.testing.simulator.trace import Trace

FIRST_PORT = 40_000
SYN_RETRY_S = 0.25
MAX_PIECES = 4


@dataclass(slots=True)
class Conditions:
    """`cut` has pairs (from, to); a name in `slow` multiplies its delays."""

    delay_s: float = 0.001
    socket_bytes: int = 65_536
    cut: dict[tuple[str, str], None] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)


class Pipe(asyncio.Transport):
    def __init__(self, network: Network, process: Process, name: tuple[str, int], peer_name: tuple[str, int]) -> None:
        super().__init__({"peername": peer_name, "sockname": name})
        self.process = process
        self.name = name
        self.peer: Pipe
        self.protocol: Any
        self.is_open = True
        self._network = network
        self._closing = False
        self._incoming: list[bytes] = []
        self._reading = True
        self._in_flight = 0
        self._high = 65_536
        self._write_paused = False
        self._last_arrival = 0.0
        self._held: list[bytes] = []

    # What protocols call

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """The protocol is paused when more bytes are under way than sockets hold."""
        if self._closing or not data:
            return
        content = bytes(data)
        self._in_flight += len(content)
        for piece in self._network.pieces(content):
            self._send(piece)
        if not self._write_paused and self._in_flight > self._network.conditions.socket_bytes + self._high:
            self._write_paused = True
            self.protocol.pause_writing()

    def close(self) -> None:
        """Closes when everything is sent; `connection_lost` comes from the loop, not from within the call."""
        if self._closing:
            return
        self._closing = True
        self._network.loop.call_soon(self.reset, None, context=self.process.context)
        when = self._network.arrival(self.process.host, self.peer.process.host, self._last_arrival)
        self._network.loop.call_at_moment(when, self.peer.reset, None, context=self.peer.process.context)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How many bytes may wait before the protocol is paused."""
        self._high = 65_536 if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self._in_flight - self._network.conditions.socket_bytes)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._network.loop.call_soon(self._deliver, context=self.process.context)

    def can_write_eof(self) -> bool:
        """Half-closed connections are not simulated."""
        return False

    # What the network calls

    def connected(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    def heal(self) -> None:
        """Delivers what the cut link held back."""
        held, self._held = self._held, []
        for piece in held:
            self._send(piece)

    def reset(self, error: Exception | None) -> None:
        """The connection is broken, as seen from this end."""
        if self.is_open:
            self.is_open = False
            self._closing = True
            self._network.loop.call_soon(self.protocol.connection_lost, error, context=self.process.context)

    def vanish(self) -> None:
        """The process at this end is gone, without a word."""
        self.is_open = False
        self._closing = True

    def _send(self, piece: bytes) -> None:
        network = self._network
        source, target = self.process.host, self.peer.process.host
        if self._held or (source, target) in network.conditions.cut:
            self._held.append(piece)
            return
        network.trace.mix(piece)
        when = network.arrival(source, target, self._last_arrival)
        self._last_arrival = when
        network.loop.call_at_moment(when, self.peer.arrived, piece, context=self.peer.process.context)

    def arrived(self, piece: bytes) -> None:
        if self.is_open:
            self._incoming.append(piece)
            self._deliver()

    def _deliver(self) -> None:
        while self._incoming and self._reading and self.is_open:
            piece = self._incoming.pop(0)
            self._peer_is_told_of(len(piece))
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._fill(self.protocol, piece)
            else:
                self.protocol.data_received(piece)

    def _peer_is_told_of(self, count: int) -> None:
        """So many bytes were read. That is an event at the other end only if more may wait there than sockets hold."""
        peer, network = self.peer, self._network
        if peer._in_flight <= network.conditions.socket_bytes and not (peer._write_paused or peer.process.is_paused):
            peer._in_flight -= count
        else:
            network.loop.call_soon(peer.taken, count, context=peer.process.context)

    def _fill(self, protocol: asyncio.BufferedProtocol, piece: bytes) -> None:
        while piece and self.is_open:
            if not self._reading:
                self._incoming.insert(0, piece)
                return
            buffer = memoryview(protocol.get_buffer(len(piece)))
            count = min(len(buffer), len(piece))
            buffer[:count] = piece[:count]
            protocol.buffer_updated(count)
            piece = piece[count:]

    def taken(self, count: int) -> None:
        """The other end has read so many bytes."""
        self._in_flight -= count
        if self._write_paused and not self._closing and self._in_flight <= self._network.conditions.socket_bytes:
            self._write_paused = False
            self.protocol.resume_writing()


class SimulatedSocket:
    def __init__(self, process: Process, address: tuple[str, int]) -> None:
        self.process = process
        self.address = address
        self.close: Callable[[], None] = lambda: None

    def listen(self, backlog: int) -> None:
        """The loop's server listens."""


class _Server:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close

    async def wait_closed(self) -> None:
        """A simulated server is closed as soon as `close` returns."""


class Network:
    """A process is reached at (host, port) while it listens there."""

    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.conditions = Conditions()
        self._random = random
        self._listening: dict[tuple[str, int], tuple[Process, Callable[[], asyncio.BaseProtocol]]] = {}
        self._pipes: list[Pipe] = []
        self._ports = itertools.count(FIRST_PORT)
        self._dark: dict[str, None] = {}
        loop.create_server = self._create_server  # type: ignore[method-assign,assignment]  # what a real loop does
        loop.getaddrinfo = self._getaddrinfo  # type: ignore[method-assign,assignment]  # the same
        loop.create_connection = self._create_connection  # type: ignore[method-assign,assignment]  # the same

    # The shape of traffic

    def pieces(self, content: bytes) -> Iterable[bytes]:
        """Cuts a write as TCP might."""
        if len(content) < 2 or self._random.random() < 0.8:
            return (content,)
        marks = sorted(self._random.randrange(1, len(content)) for _ in range(self._random.randrange(1, MAX_PIECES)))
        return [content[a:b] for a, b in itertools.pairwise((0, *marks, len(content))) if a < b]

    def arrival(self, source: str, target: str, not_before: float) -> float:
        """When a piece that is sent now arrives."""
        slow, delay_s = self.conditions.slow, self._random.expovariate(1 / self.conditions.delay_s)
        if slow:
            delay_s *= slow.get(source, 1.0) * slow.get(target, 1.0)
        delay_s += 0.000_01
        return max(self.loop.moment + delay_s, not_before + 1e-6)  # timers of the same moment have no order

    # What processes do

    def bind(self, endpoint: Endpoint, **_: object) -> BoundListener:
        process = current_process()
        assert process is not None
        bound = BoundListener.__new__(BoundListener)
        bound.endpoint = endpoint
        bound.backlog = 1
        bound.socket = cast("Any", SimulatedSocket(process, (endpoint.host, endpoint.port)))
        return bound

    async def _create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], *, sock: SimulatedSocket, **_: object
    ) -> _Server:
        self._listening[sock.address] = (sock.process, factory)
        return _Server(lambda: self._stop_listening(sock))

    def _stop_listening(self, sock: SimulatedSocket) -> None:
        if self._listening.get(sock.address, (None,))[0] is sock.process:
            del self._listening[sock.address]

    async def _getaddrinfo(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        """A name is the host itself."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def _create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        process = current_process()
        assert process is not None
        while True:
            await asyncio.sleep(2 * (self.arrival(process.host, host, 0) - self.loop.moment))
            if host not in self._dark and not self._is_cut(process.host, host):
                break
            await asyncio.sleep(SYN_RETRY_S)
        if (host, port) not in self._listening:
            raise ConnectionRefusedError(111, "Connection refused")
        server, server_factory = self._listening[host, port]
        name = (process.host, next(self._ports))
        near, far = Pipe(self, process, name, (host, port)), Pipe(self, server, (host, port), name)
        near.peer, far.peer = far, near
        self._pipes = [pipe for pipe in self._pipes if pipe.is_open]
        self._pipes += [near, far]
        self.loop.call_soon(lambda: far.connected(server_factory()), context=server.context)
        protocol = factory()
        near.connected(protocol)
        return near, protocol

    def _is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.conditions.cut or (other, one) in self.conditions.cut

    # What befalls them

    def process_died(self, process: Process, *, power_lost: bool) -> None:
        """Its connections end: at once if the system lives on, else when the host is back."""
        for address in [address for address, (owner, _) in self._listening.items() if owner is process]:
            del self._listening[address]
        for pipe in self._pipes:
            if pipe.process is process and pipe.is_open:
                pipe.vanish()
                if not power_lost:
                    self._reset_later(pipe.peer)
        if power_lost:
            self._dark[process.host] = None

    def host_is_back(self, host: str) -> None:
        """Packets to it are answered again: those of old connections with a reset."""
        if self._dark.pop(host, "") is None:
            for pipe in self._pipes:
                if pipe.is_open and not pipe.peer.is_open and pipe.peer.process.host == host:
                    self._reset_later(pipe)

    def break_some(self, share: float) -> int:
        """Returns the number of connections that were reset."""
        count = 0
        for pipe in self._pipes:
            if pipe.is_open and pipe.peer.is_open and self._random.random() < share / 2:
                count += 1
                self._reset_later(pipe)
                self._reset_later(pipe.peer)
        return count

    def _reset_later(self, pipe: Pipe) -> None:
        when = self.arrival(pipe.process.host, pipe.peer.process.host, 0)
        error = ConnectionResetError(104, "Connection reset by peer")
        self.loop.call_at_moment(when, pipe.reset, error, context=pipe.process.context)

    def mend(self, links: Iterable[tuple[str, str]]) -> None:
        """Packets pass between these hosts again."""
        for link in links:
            self.conditions.cut.pop(link, None)
        for pipe in list(self._pipes):
            if pipe.is_open:
                pipe.heal()

    def heal(self) -> None:
        self.conditions.slow.clear()
        self.mend(list(self.conditions.cut))
