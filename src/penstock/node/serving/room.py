"""Room for what clients send and are sent: one limit for all, and who gets some, waits for it, or loses it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Literal, NamedTuple

from penstock.protocol.sweeping_heap import SweepingHeap
from penstock.protocol.value import Value

STILL_S = 1.0
"""How long a peer may neither send nor read anything while others wait for the room that it has."""
PATIENCE_S = 10.0
"""How long it may take over a piece of a frame, an answer, or all of a frame that is beyond the limit, while others
wait: less than they have patience.
"""
SLOW_SHARE = 0.75
"""What peers that take longer than `STILL_S` over a piece may have together while others wait: the rest is for who is
quick.
"""


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
    each may have more than there is; and one frame at a time always may, so that they do not wait for each other, and
    one request that has waited for a second, as more may be held all the time than it leaves.
    What must not wait for those who have room (what nodes ask: clients' requests wait for that) takes it, room or not,
    until twice as much is held as there is: a name that is all that says so may be anybody's.
    Where something waits, a peer that stands still loses what it has, and so does one beyond that takes long, as nobody
    else has room until it ends; and of those that are slow, the last ones where together they have most of the room.
    """

    __slots__ = (
        "_begun",
        "_behind_s",
        "_beyond",
        "_bytes",
        "_first_work",
        "_frames",
        "_held",
        "_hosts",
        "_idle",
        "_most",
        "_new",
        "_numbers",
        "_parked_bytes",
        "_timer",
        "_turn_of_first",
        "_work",
        "_work_beyond",
        "_work_is_late",
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
        self._behind_s = 0.0
        """How long others have waited behind it."""
        self.wishes: dict[Hashable, _Wish] = {}
        """What waits for memory; each read looks whether there is any."""
        self._work = self._queue()
        self._first_work: _Wish | None = None
        """When we looked last."""
        self._work_is_late = False
        """It was the first when we looked twice. From then on work goes on beyond the limit, one at a time, and frames
        have what room there is: it may be more than is ever free.
        """
        self._work_beyond: Hashable = None
        self._begun = self._queue()
        self._idle: dict[Callable[[], object], int] = {}
        """Who is told of those that find no room, and what that one holds."""
        self._new: dict[str, SweepingHeap[_Wish]] = {}
        """Those of new frames by their hosts."""
        self._parked_bytes = 0
        """What is here as a whole and neither taken apart nor written: no frame goes beyond the limit behind more."""
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
            queue = self._begun if share is not None else self._new_of(peer.host)
        queue.push(wish)
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

    @contextmanager
    def parked(self, size: int) -> Iterator[None]:
        """A frame is here as a whole, and in memory until it is used. Work does not wait for that to go."""
        self._parked_bytes += size
        try:
            yield
        finally:
            self._parked_bytes -= size
            self._grant()

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
        if key is self._work_beyond:
            self._work_beyond = None
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
        need = self._bytes + (self._parked_bytes if self._frames else 0) - self._most
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
            self._first_work, self._work_is_late = None, False
            self._work.clear()
            self._begun.clear()
            self._new.clear()

    def _next(self) -> _Wish | None:
        work = self._first(self._work)
        self._work_is_late &= work is not None
        if work is not None and self._has_room(work):
            return work
        if work is None or self._work_is_late:
            frame = self._frame("room")
            if frame is not None and self._has_room(frame):
                self._turn_of_first["room"] ^= len(self.wishes) > 1
                return frame
        if work is not None and self._work_is_late and self._work_beyond is None:
            self._work_beyond = work.key
            return work
        is_full = 0 <= self._most < self._parked_bytes
        if self._beyond is None and not is_full and (frame := self._frame("beyond")) is not None:
            self._beyond, self._behind_s = frame.key, 0.0
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

    def _queue(self) -> SweepingHeap[_Wish]:
        return SweepingHeap(self._still_waits)

    def _new_of(self, host: str) -> SweepingHeap[_Wish]:
        queue = self._new.get(host)
        if queue is None:
            queue = self._new[host] = self._queue()
        return queue

    def _still_waits(self, wish: _Wish) -> bool:
        """It may have gone, or wish for more by now."""
        return self.wishes.get(wish.key) is wish

    def _first(self, queue: SweepingHeap[_Wish]) -> _Wish | None:
        while (first := queue.first) is not None and not self._still_waits(first):
            queue.pop()
        return first

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
        held = self._bytes + (self._parked_bytes if wish.peer is not None else 0)
        return self._most < 0 or not held or held + more <= self._most

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

    def _too_many(self, slow: list[tuple[_Share, Peer]]) -> Iterator[Peer]:
        """Those of the host that has most, and that began last: others are nearer to their end."""
        excess = sum(share.size for share, _ in slow) - SLOW_SHARE * self._most
        for share, peer in sorted(slow, key=lambda one: (self._hosts[one[1].host], one[0].since_s), reverse=True):
            if excess <= 0:
                return
            excess -= share.size
            yield peer

    def _watch(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(STILL_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self.is_short:
            return
        self._make_way()
        self._behind_s += STILL_S
        now_s, late, slow = asyncio.get_running_loop().time(), list[Peer](), list[tuple[_Share, Peer]]()
        for key, share in self._held.items():
            if share.peer is not None and not (key in self.wishes and share.peer.has_more()):
                far, share.far = share.far, share.peer.how_far()
                takes_s = now_s - share.since_s
                is_beyond = key is self._beyond and self._bytes + self._parked_bytes > self._most
                is_slow, is_late = takes_s >= STILL_S, (self._behind_s if is_beyond else takes_s) >= PATIENCE_S
                if is_late or (is_slow and (is_beyond or far == share.far)):
                    late.append(share.peer)
                elif is_slow:
                    slow.append((share, share.peer))
        late += self._too_many(slow)
        first, self._first_work = self._first_work, self._first(self._work)
        self._work_is_late |= first is not None and first is self._first_work
        self._grant()
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
