"""Memory for frames: one buffer that all connections receive into, and a few large ones that are used again.

Touching new memory costs many times what touching warm memory does, so a large frame's buffer is given back and lent
again. A frame is handled within one call, so no handler keeps a slice of a buffer that was given back.
"""

import asyncio
import mmap
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from typing import Literal, NamedTuple, Self

from penstock.protocol.compression import NEW_MEMORY
from penstock.protocol.value import Value

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
STILL_S = 1.0
"""How long a peer may neither send nor read anything while others wait for the room that it has."""
PATIENCE_S = 10.0
"""How long it may take over a piece of a frame, or an answer, while others wait."""


class Peer(Value):
    """Whose frame or answer it is."""

    host: str
    how_far: Callable[[], int]
    """Another number as soon as a byte was sent, or read."""
    has_more: Callable[[], bool]
    """Whether bytes of it wait here that were not taken in for want of room."""
    take_away: Callable[[], object]


class _Share:
    __slots__ = ("far", "peer", "since_s", "size")

    def __init__(self, peer: Peer | None) -> None:
        self.peer = peer
        self.size = 0
        self.since_s = 0.0
        self.far = 0


class _Wish(NamedTuple):
    """For room; the one with the least rest first, in their order."""

    rest: int
    number: int
    key: Hashable
    size: int
    go_on: Callable[[], object]
    peer: Peer | None


class RequestMemory:
    """`queued.max.request.bytes`: what frames that arrive, requests that are answered and answers that leave may take.

    A frame takes room as it comes, for what is there and one more read, whatever length it claims. Requests that are
    here as a whole go first; then the frame that lacks least, of new ones that of the host that holds least, and in
    every second turn the one that came first, so that none waits for ever behind shorter ones. Alone,
    each may have more than there is; and one frame at a time always may, so that they do not wait for each other.
    What must not wait for those who have room (what nodes ask: clients' requests wait for that) takes it, room or not,
    until twice as much is held as there is: a name that is all that says so may be anybody's.
    Where something waits, a peer that stands still loses what it has.
    """

    __slots__ = (
        "_begun",
        "_beyond",
        "_bytes",
        "_frames",
        "_held",
        "_hosts",
        "_idle",
        "_late_work",
        "_most",
        "_new",
        "_numbers",
        "_timer",
        "_turn_of_first",
        "_work",
        "wishes",
    )

    def __init__(self, most: int = -1) -> None:
        """-1: no limit."""
        self._most = most
        self._bytes = 0
        self._held: dict[Hashable, _Share] = {}
        self._hosts: Counter[str] = Counter()
        self._frames: dict[Hashable, None] = {}
        """As they came, until they give back what they have."""
        self._turn_of_first = {"room": False, "beyond": False}
        self._beyond: Hashable = None
        """The frame that need not find room."""
        self.wishes: dict[Hashable, _Wish] = {}
        """What waits for memory; each read looks whether there is any."""
        self._work: list[_Wish] = []
        self._late_work: _Wish | None = None
        """It waited already when we looked last."""
        self._begun: list[_Wish] = []
        self._idle: dict[Callable[[], object], int] = {}
        """Who is told of those that find no room, and what that one holds."""
        self._new: dict[str, list[_Wish]] = {}
        """Heaps; those of new frames by their hosts. What is in `wishes` no more, or anew, counts for nothing."""
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_short(self) -> bool:
        return bool(self.wishes)

    def take(
        self,
        key: Hashable,
        size: int,
        go_on: Callable[[], object],
        peer: Peer | None = None,
        rest: int = 0,
        waits: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Whether the key has so much in all now; if not, `go_on` is called when it has.

        `waits` is asked where there is no room. `rest` is what the frame of a peer lacks. Without a peer it is work on
        a request that is here as a whole.
        """
        share = self._held.get(key)
        if share is not None and (share.size >= size or key is self._beyond):
            self._hold(key, max(size, share.size), peer)
            return True
        self.wishes[key] = wish = _Wish(rest, next(self._numbers), key, size, go_on, peer)
        if peer is None:
            queue = self._work
        else:
            self._frames.setdefault(key)
            queue = self._begun if share is not None else self._new.setdefault(peer.host, [])
        heappush(queue, wish)
        self._grant(key)
        if key not in self.wishes:
            return True
        if self._bytes < 2 * self._most and not waits():
            del self.wishes[key]
            self._hold(key, size, peer)
            return True
        self._make_way()
        if self._timer is None:
            self._watch()
        return False

    def charge(self, key: Hashable, size: int, peer: Peer | None = None) -> None:
        """This is there already, room or not."""
        if key not in self._held:
            self._hold(key, size, peer)

    def give(self, key: Hashable) -> None:
        """The key holds nothing any more, and waits for nothing."""
        self.wishes.pop(key, None)
        self._frames.pop(key, None)
        share = self._held.pop(key, None)
        if share is not None:
            self._bytes -= share.size
            if share.peer is not None:
                self._count(share.peer.host, -share.size)
        if key is self._beyond:
            self._beyond = None
        self._grant()

    @asynccontextmanager
    async def lent(self, size: int, *, waits: bool = True) -> AsyncIterator["Room"]:
        """Wait for so much, and hold it; with 0, until not all is held."""
        room = Room(self, size, waits=waits)
        try:
            await room.take()
            yield room
        finally:
            room.give()

    @contextmanager
    def idle(self, size: int, give_way: Callable[[], object]) -> Iterator[None]:
        """So much is held by a request that only waits: it gives way when others need room, the latest first."""
        self._idle[give_way] = size
        try:
            self._make_way()
            yield
        finally:
            del self._idle[give_way]

    def _make_way(self) -> None:
        """Tell as many as hold what others lack."""
        if not self._idle or not self.wishes:
            return
        need = self._bytes - self._most
        for wish in self.wishes.values():
            share = self._held.get(wish.key)
            need += wish.size - (share.size if share is not None else 0)
        for give_way, size in reversed(list(self._idle.items())):
            if need <= 0:
                return
            give_way()
            need -= size

    def _grant(self, asks: Hashable = None) -> None:
        """Who asks just now is not called."""
        while self.wishes and (wish := self._next()) is not None:
            del self.wishes[wish.key]
            self._hold(wish.key, wish.size, wish.peer)
            if wish.key is not asks:
                asyncio.get_running_loop().call_soon(wish.go_on)
        if not self.wishes:
            self._work.clear()
            self._begun.clear()
            self._new.clear()

    def _next(self) -> _Wish | None:
        best = self._first(self._work) or self._frame("room")
        if best is not None and self._has_room(best):
            self._turn_of_first["room"] ^= best.peer is not None and len(self.wishes) > 1
            return best
        if self._beyond is None and (frame := self._frame("beyond")) is not None:
            self._beyond = frame.key
            self._turn_of_first["beyond"] ^= True
        return self.wishes.get(self._beyond)

    def _frame(self, asked_for: Literal["room", "beyond"]) -> _Wish | None:
        """That lacks least or, in its turn, that came first; none begins beyond the limit."""
        may_begin = asked_for == "room"
        if self._turn_of_first[asked_for]:
            for key in self._frames:
                if key in self.wishes and (may_begin or key in self._held):
                    return self.wishes[key]
        begun = self._first(self._begun)
        new = self._first_new() if may_begin else None
        return min((wish for wish in (begun, new) if wish is not None), default=None)

    def _first(self, queue: list[_Wish]) -> _Wish | None:
        while queue and self.wishes.get(queue[0].key) is not queue[0]:
            heappop(queue)
        return queue[0] if queue else None

    def _first_new(self) -> _Wish | None:
        while self._new:
            host = min(self._new, key=self._hosts.__getitem__)
            first = self._first(self._new[host])
            if first is not None:
                return first
            del self._new[host]
        return None

    def _has_room(self, wish: _Wish) -> bool:
        share = self._held.get(wish.key)
        more = wish.size - (share.size if share is not None else 0)
        return self._most < 0 or not self._bytes or self._bytes + more <= self._most

    def _hold(self, key: Hashable, size: int, peer: Peer | None) -> None:
        share = self._held.get(key)
        if share is None:
            share = self._held[key] = _Share(peer)
        self._bytes += size - share.size
        if peer is not None:
            self._count(peer.host, size - share.size)
        share.size, share.since_s = size, asyncio.get_running_loop().time()
        share.far = -1 if peer is None else peer.how_far()

    def _count(self, host: str, size: int) -> None:
        self._hosts[host] += size
        if not self._hosts[host]:
            del self._hosts[host]

    def _in_the_way_of(self, work: _Wish) -> Iterator[Peer]:
        """Of frames that wait for room themselves, those that lack most."""
        need = self._bytes + work.size - self._most
        begun = [wish for wish in self.wishes.values() if wish.peer is not None and wish.key in self._held]
        for wish in sorted(begun, reverse=True):
            if need <= 0:
                return
            need -= self._held[wish.key].size
            if wish.peer is not None:
                yield wish.peer

    def _watch(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(STILL_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self.is_short:
            return
        self._make_way()
        now_s, late = asyncio.get_running_loop().time(), list[Peer]()
        for key, share in self._held.items():
            if share.peer is not None and not (key in self.wishes and share.peer.has_more()):
                far, share.far = share.far, share.peer.how_far()
                is_still = far == share.far and share.since_s <= now_s - STILL_S
                if is_still or share.since_s <= now_s - PATIENCE_S:
                    late.append(share.peer)
        work = self._first(self._work)
        if work is not None and work is self._late_work:
            late += self._in_the_way_of(work)
        self._late_work = work
        for peer in late:
            peer.take_away()
        self._watch()


class Room:
    """What one request is lent of a memory."""

    __slots__ = ("_memory", "_size", "_waits")

    def __init__(self, memory: RequestMemory, size: int, *, waits: bool) -> None:
        self._memory = memory
        self._size = size
        self._waits = waits

    async def take(self) -> None:
        """Also once more, after it was given back."""
        has_room = asyncio.Event()
        if not self._memory.take(self, self._size, has_room.set, waits=lambda: self._waits):
            await has_room.wait()

    def give(self) -> None:
        self._memory.give(self)


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
