"""Memory for frames: one buffer that all connections receive into, and a few large ones that are used again.

Touching new memory costs many times what touching warm memory does, so a large frame's buffer is given back and lent
again. A frame is handled within one call, so no handler keeps a slice of a buffer that was given back.
"""

import asyncio
import mmap
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from penstock.protocol.value import Value

SHARED_BYTES = 256 * 1024
POOLED_FRAME_BYTES = 2 * 1024 * 1024
"""Larger frames get memory of their own that is not kept."""
READ_BYTES = POOLED_FRAME_BYTES
"""So much of a frame is taken from the system at a time, which may have 6 MB of it and more."""
MAX_POOLED_BUFFERS = 2
_SMALLEST_POOLED_BYTES = 64 * 1024


FREE_BYTES = 64 * 1024
"""What a connection may have without asking for room."""
FULL_BUFFERS = (FREE_BYTES, SHARED_BYTES, READ_BYTES)
"""Whoever has sent so much at once may have sent more."""
PATIENCE_S = 10.0
"""How long a peer may take to send a frame, or to read an answer, while something else waits for their memory."""


class _Share(Value):
    size: int
    go_on: Callable[[], object]
    take_away: Callable[[], object]
    since_s: float


class RequestMemory:
    """`queued.max.request.bytes`: what frames that arrive, requests that are answered and answers that leave may take.

    What finds no room waits, first come, first served. Alone, each may have more than there is. Where something waits,
    whoever has held his share for `PATIENCE_S` loses it: a peer that does not send, or does not read, keeps nobody
    else out.
    """

    __slots__ = ("_bytes", "_held", "_most", "_timer", "waiting")

    def __init__(self, most: int = -1) -> None:
        """-1: no limit."""
        self._most = most
        self._bytes = 0
        self._held: dict[Hashable, _Share] = {}
        self.waiting: dict[Hashable, _Share] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(
        self, key: Hashable, size: int, go_on: Callable[[], object], take_away: Callable[[], object] = lambda: None
    ) -> bool:
        """Whether the key holds so much now; if not, `go_on` is called when it does."""
        if key in self._held:
            return True
        share = _Share(size, go_on, take_away, asyncio.get_running_loop().time())
        if self.waiting or not self._has_room(size):
            self.waiting[key] = share
            self._watch(PATIENCE_S)
            return False
        self._hold(key, share)
        return True

    def charge(self, key: Hashable, size: int, take_away: Callable[[], object]) -> None:
        """This is there already, room or not."""
        if key not in self._held:
            self._hold(key, _Share(size, take_away, take_away, asyncio.get_running_loop().time()))

    def give(self, key: Hashable) -> None:
        """The key holds nothing any more, and waits for nothing."""
        self.waiting.pop(key, None)
        share = self._held.pop(key, None)
        if share is not None:
            self._bytes -= share.size
        while self.waiting and self._has_room(next(iter(self.waiting.values())).size):
            key, share = next(iter(self.waiting.items()))
            del self.waiting[key]
            loop = asyncio.get_running_loop()
            self._hold(key, share.replace(since_s=loop.time()))
            loop.call_soon(share.go_on)

    @asynccontextmanager
    async def lent(self, size: int) -> AsyncIterator[None]:
        """Wait for so much, and hold it; with 0, until not all is held."""
        has_room = asyncio.Event()
        try:
            if not self.take(has_room, size, has_room.set):
                await has_room.wait()
            yield
        finally:
            self.give(has_room)

    def _has_room(self, size: int) -> bool:
        return self._most < 0 or not self._bytes or self._bytes + size <= self._most

    def _hold(self, key: Hashable, share: _Share) -> None:
        self._held[key] = share
        self._bytes += share.size

    def _watch(self, in_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(in_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.waiting:
            late_s = asyncio.get_running_loop().time() - PATIENCE_S
            for share in [one for one in self._held.values() if one.since_s <= late_s]:
                share.take_away()
            self._watch(1.0)


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
            # Pages that the peer does not fill are never touched, so a length that is a lie costs nothing.
            return memoryview(mmap.mmap(-1, size))
        return memoryview(bytearray(size))

    def give(self, buffer: memoryview) -> None:
        if _SMALLEST_POOLED_BYTES <= len(buffer) <= POOLED_FRAME_BYTES and len(self._spare) < MAX_POOLED_BUFFERS:
            self._spare.append(buffer)
