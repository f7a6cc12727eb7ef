"""What a connection has still to send: bytes, and slices of log files that are read only when the peer takes them.

The socket is fed in chunks, the next one when the last has left the process. So a reader that is slow, or gone to
sleep, costs one chunk of memory, whatever it asked for. One that takes chunk after chunk has several in a turn.

A large slice goes from the file to the socket inside the system (`sendfile`). When the socket is full, the transport is
given one small chunk to wait with; once it has left, the system takes the next part. A transport that encrypts has to
see the bytes, so there, and where the system cannot, they are read.
"""

import asyncio
import fcntl
import os
import termios
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

from penstock.log.log_slice import LogSlice
from penstock.node.serving.room import Peer
from penstock.node.serving.session import Session

CHUNK_BYTES = 256 * 1024
SENT_BY_SYSTEM_BYTES = 64 * 1024
"""A slice from this size on is sent by the system; what is smaller costs less in one write with its neighbours."""
WAITING_CHUNK_BYTES = 16 * 1024
"""What the transport waits with when the socket is full."""
LEAST_BYTES = 16 * 1024
"""A slice counts as so many bytes at least: what is in thousands of them is little, and takes long to read."""
CHUNKS_AT_ONCE = 16
"""What a connection may read and write in a turn, some 250 small slices at most: a millisecond or two."""
HAS_SENDFILE = hasattr(os, "sendfile")


ResponsePart = bytes | bytearray | memoryview | LogSlice


class FileCutError(Exception):
    """A file ends before the slice that was promised to the peer: the response cannot be finished."""


class Outgoing:
    """The queue of response parts of one connection. `is_blocked`: the transport still has unsent bytes, or others have
    their turn.

    `queued_bytes` counts what the transport has not got yet.
    """

    __slots__ = ("_chunk_bytes", "_files", "_parts", "is_blocked", "queued_bytes")

    def __init__(self) -> None:
        # A list, as ten thousand idle connections have one each: an empty deque takes ten times as much.
        self._parts: list[ResponsePart] = []
        self._files = self._chunk_bytes = 0
        self.is_blocked = False
        self.queued_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def unsent_bytes(self, transport: asyncio.Transport) -> int:
        """What is in memory, and not in files; beside those there is little."""
        return transport.get_write_buffer_size() + (0 if self._files else self.queued_bytes)

    def held_bytes(self) -> int:
        """What a peer that does not read costs: the chunk that the transport has, and parts, as wholes however much of
        them has gone.
        """
        if self._files:
            return self._chunk_bytes
        wholes = (part.obj if type(part) is memoryview else part for part in self._parts)
        return self._chunk_bytes + sum(map(len, cast("Iterable[bytes]", wholes)))

    def add(self, parts: list[ResponsePart]) -> None:
        self._parts += parts
        for part in parts:
            self.queued_bytes += len(part)
            if type(part) is LogSlice:
                self._files += 1

    def clear(self) -> None:
        self._parts.clear()
        self.queued_bytes = self._files = 0

    def flush(self, transport: asyncio.Transport) -> bool:
        """Write until the transport holds bytes back, or until the turn is over: then it is blocked, and to be resumed
        in the next one. FileCutError when a slice cannot be read.
        """
        parts = self._parts
        if not self._files and self.queued_bytes <= CHUNK_BYTES and not self.is_blocked:
            chunk = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]  # no file is there
            parts.clear()
            self.queued_bytes = 0
            self._chunk_bytes = len(chunk)
            transport.write(chunk)
            return False
        socket = socket_of(transport)
        for _ in range(CHUNKS_AT_ONCE):
            if not parts or self.is_blocked or transport.is_closing():
                return False
            if socket < 0 or not is_large(parts[0]):
                transport.write(self._next_chunk(CHUNK_BYTES, stops_at_large=socket >= 0))
            elif not self._sent_by_system(socket):
                transport.write(self._next_chunk(WAITING_CHUNK_BYTES))
        if not parts or self.is_blocked:
            return False
        self.is_blocked = True
        return True

    def _drop(self, count: int) -> None:
        """They are all written; at once, as each removal moves the thousands behind it."""
        self._files -= sum(type(part) is LogSlice for part in self._parts[:count])
        del self._parts[:count]

    def _sent_by_system(self, socket: int) -> bool:
        """Send what the socket takes of the slice at the front; False when it takes nothing.

        Where the peer has gone, the transport finds out with its next write, as it does for other bytes.
        """
        part = self._parts[0]
        assert isinstance(part, LogSlice)
        try:
            sent = part.file.send_to(socket, part.length, part.position)
        except (BlockingIOError, ConnectionError):
            return False
        if sent == 0:
            raise FileCutError(f"the file ends at {part.position}, {part.length} bytes are missing")
        self.queued_bytes -= sent
        if sent == part.length:
            self._drop(1)
        else:
            part.position += sent
            part.length -= sent
        return True

    def _next_chunk(self, room: int, *, stops_at_large: bool = False) -> bytes:
        parts, count = self._parts, 0
        chunk: list[bytes | bytearray | memoryview] = []
        for part in parts:
            if room <= 0 or (stops_at_large and is_large(part)):
                break
            size, cost = len(part), 0
            if isinstance(part, LogSlice):
                taken: bytes | bytearray | memoryview = self._read(part, min(size, room))
                cost = LEAST_BYTES
            elif size <= room:
                taken = part
            else:
                whole = memoryview(part)
                taken, parts[count] = whole[:room], whole[room:]
            chunk.append(taken)
            room -= max(len(taken), cost)
            self.queued_bytes -= len(taken)
            count += len(taken) == size
        self._drop(count)
        self._chunk_bytes = sum(map(len, chunk))
        return bytes(chunk[0]) if len(chunk) == 1 else b"".join(chunk)

    @staticmethod
    def _read(part: LogSlice, length: int) -> bytes:
        data = part.file.read_at(length, part.position)
        if len(data) != length:
            raise FileCutError(f"the file ends at {part.position + len(data)}, {length - len(data)} bytes are missing")
        part.position += length
        part.length -= length
        return data


def is_large(part: ResponsePart) -> bool:
    """Whether the system sends it straight from the file."""
    return type(part) is LogSlice and part.length >= SENT_BY_SYSTEM_BYTES


def peer_of(
    session: Session,
    transport: asyncio.Transport,
    out: Outgoing,
    filled: Callable[[], int],
    take_away: Callable[[], object],
) -> Peer:
    """`filled` says how much of its frame is here."""
    return Peer(
        session.client_host,
        lambda: filled() - out.unsent_bytes(transport),
        partial(_has_arrived, transport),
        take_away,
    )


def _has_arrived(transport: asyncio.Transport) -> bool:
    """Whether the system has bytes that were not taken from it."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return False
    return any(fcntl.ioctl(socket.fileno(), termios.FIONREAD, bytes(4)))


def socket_of(transport: asyncio.Transport) -> int:
    """The descriptor that the system may send to itself; -1 where every byte has to go through the transport."""
    if not HAS_SENDFILE or transport.get_extra_info("sslcontext") is not None:
        return -1
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())
