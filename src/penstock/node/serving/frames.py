"""Memory for frames: one buffer that all connections receive into, and a few large ones that are used again.

Touching new memory costs many times what touching warm memory does, so a large frame's buffer is given back and lent
again. A frame is handled within one call, so no handler keeps a slice of a buffer that was given back.
"""

import asyncio
import mmap
from contextlib import suppress
from typing import Self

from penstock.protocol.compression import NEW_MEMORY

SHARED_BYTES = 256 * 1024
POOLED_FRAME_BYTES = 2 * 1024 * 1024
"""Larger frames get memory of their own that is not kept."""
READ_BYTES = 512 * 1024
"""So much of a frame is taken from the system at a time, which may have 6 MB of it and more."""
GIVEN_BACK_BYTES = 2 * 1024 * 1024
"""So much of a large frame's memory goes back to the system at a time."""
MAX_POOLED_BUFFERS = 2
_SMALLEST_POOLED_BYTES = 64 * 1024


FREE_BYTES = 64 * 1024
"""What a connection may have without asking for room."""
SHORT_BYTES = 16 * 1024
"""So much is read first where others wait for room: it may have to be kept until there is some for the rest."""
LATE_BYTES = 4 * 1024
"""So much of each of very many that have sent something at once, where it has to be kept: most requests are shorter."""
FULL_BUFFERS = (SHORT_BYTES, SHARED_BYTES)
"""Whoever has sent so much at once may have sent more."""


class Mapping(mmap.mmap):
    """Memory of its own for a frame, which goes back to the system some in each turn of the event loop.

    All of it at once would hold the loop, and so would a thread: 10 to 30 ms for 90 MB. Pages that a peer does not
    fill are never touched, so a length that is a lie costs nothing.
    """

    _loop: asyncio.AbstractEventLoop | None

    def __new__(cls, size: int) -> Self:
        mapping = super().__new__(cls, -1, size, **NEW_MEMORY)
        mapping._loop = asyncio.get_running_loop()
        with suppress(AttributeError, OSError):  # not every system knows huge pages
            mapping.madvise(mmap.MADV_NOHUGEPAGE)  # the beginning of a frame would take 2 MB
        return mapping

    def __del__(self) -> None:
        """Nobody has it any more; where the loop still runs it lives on until all is given back."""
        loop, self._loop = self._loop, None
        if loop is not None and hasattr(self, "madvise"):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._give_back, loop, 0)

    def _give_back(self, loop: asyncio.AbstractEventLoop, start: int) -> None:
        end = min(start + GIVEN_BACK_BYTES, len(self))
        self.madvise(mmap.MADV_DONTNEED, start, end - start)
        if end < len(self):
            loop.call_soon(self._give_back, loop, end)


def kept(frame: memoryview) -> memoryview | bytes:
    """What stays when the frame's buffer is used again; a mapping is used by nobody else."""
    return frame if isinstance(frame.obj, mmap.mmap) else bytes(frame)


class FrameBuffers:
    """The receive memory of one node.

    `shared` is valid only between an event loop's `get_buffer` and the end of the `buffer_updated` that follows.
    """

    __slots__ = ("_spare", "max_frame_bytes", "shared")

    def __init__(self, max_frame_bytes: int) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.max_frame_bytes = max_frame_bytes
        self._spare: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """A writable buffer of at least `size` bytes; its content is arbitrary."""
        if _SMALLEST_POOLED_BYTES <= size <= POOLED_FRAME_BYTES:
            for i, buffer in enumerate(self._spare):
                if len(buffer) >= size:
                    return self._spare.pop(i)
            size = -(-size // _SMALLEST_POOLED_BYTES) * _SMALLEST_POOLED_BYTES
        if size > POOLED_FRAME_BYTES:
            return memoryview(Mapping(size))
        return memoryview(bytearray(size))

    def give(self, buffer: memoryview) -> None:
        if _SMALLEST_POOLED_BYTES <= len(buffer) <= POOLED_FRAME_BYTES and len(self._spare) < MAX_POOLED_BUFFERS:
            self._spare.append(buffer)
