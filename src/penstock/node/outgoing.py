"""What a connection has still to send: bytes, and slices of log files that are read only when the peer takes them.

The socket is fed in chunks, the next one when the last has left the process. So a reader that is slow, or gone to
sleep, costs one chunk of memory, whatever it asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

CHUNK_BYTES = 256 * 1024


class ReadableFile(Protocol):
    """An open file that can be read anywhere; it stays open as long as it is referred to."""

    def read_at(self, length: int, position: int) -> bytes:
        """At most `length` bytes from `position`."""
        ...


class FilePart:
    """A part of a response that lies in a file."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: ReadableFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length


ResponsePart = bytes | bytearray | memoryview | FilePart


class FileCutError(Exception):
    """A file ends before the slice that was promised to the peer: the response cannot be finished."""


class Outgoing:
    """The queue of response parts of one connection. `is_blocked`: the transport still has unsent bytes."""

    __slots__ = ("_parts", "is_blocked")

    def __init__(self) -> None:
        # A list, as ten thousand idle connections have one each: an empty deque takes ten times as much.
        self._parts: list[ResponsePart] = []
        self.is_blocked = False

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Iterable[ResponsePart]) -> None:
        """Send `parts` after all that is queued."""
        self._parts.extend(parts)

    def clear(self) -> None:
        """Forget what is not sent."""
        self._parts.clear()

    def flush(self, transport: asyncio.Transport) -> None:
        """Write until the transport holds bytes back. FileCutError when a slice cannot be read."""
        parts = self._parts
        if len(parts) == 1 and not self.is_blocked and len(parts[0]) <= CHUNK_BYTES and type(parts[0]) is bytes:
            transport.write(parts.pop(0))  # type: ignore[arg-type]  # the line above says that it is bytes
            return
        while parts and not self.is_blocked:
            transport.write(self._next_chunk())

    def _next_chunk(self) -> bytes:
        """The next bytes, at most CHUNK_BYTES of them."""
        parts = self._parts
        chunk: list[bytes | bytearray | memoryview] = []
        room = CHUNK_BYTES
        while parts and room > 0:
            part = parts[0]
            size = len(part)
            if size <= room:
                parts.pop(0)
            if isinstance(part, FilePart):
                taken: bytes | bytearray | memoryview = self._read(part, min(size, room))
            elif size <= room:
                taken = part
            else:
                whole = memoryview(part)
                taken, parts[0] = whole[:room], whole[room:]
            chunk.append(taken)
            room -= len(taken)
        return bytes(chunk[0]) if len(chunk) == 1 else b"".join(chunk)

    @staticmethod
    def _read(part: FilePart, length: int) -> bytes:
        data = part.file.read_at(length, part.position)
        if len(data) != length:
            raise FileCutError(f"the file ends at {part.position + len(data)}, {length - len(data)} bytes are missing")
        part.position += length
        part.length -= length
        return data
