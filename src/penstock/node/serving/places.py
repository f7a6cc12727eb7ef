"""Places for work: so many at a time in all, and so many of each client; clients that wait take turns."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from math import inf


class Places:
    """Who waits goes on in the order of their clients' turns, and each client's own in the order in which they came.

    None is nobody in particular, as what a node does for itself: it takes turns as a client does, and may have all.
    """

    __slots__ = ("_held", "_most", "_most_of_one", "_taken", "_waiting")

    def __init__(self, most: float, most_of_one: float = inf) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._taken = 0
        self._held = Counter[Hashable]()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """The client first whose turn is next."""

    @asynccontextmanager
    async def of(self, client: Hashable) -> AsyncIterator[None]:
        await self.enter(client)
        try:
            yield
        finally:
            self.leave(client)

    async def enter(self, client: Hashable) -> None:
        if self._has_one_for(client):
            self.come_back(client)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave(client)  # it had a place before it heard of that
            raise

    def come_back(self, client: Hashable) -> None:
        """At once, though all places may be taken: who comes next waits until they are fewer again."""
        self._taken += 1
        self._held[client] += 1

    def leave(self, client: Hashable) -> None:
        self._taken -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self._give()

    def _has_one_for(self, client: Hashable) -> bool:
        return self._taken < self._most and (client is None or self._held[client] < self._most_of_one)

    def _give(self) -> None:
        """The place that is free now to the first who may have it."""
        for client in list(self._waiting):
            if not self._has_one_for(client):
                continue
            turns = self._waiting.pop(client)
            while turns and turns[0].done():  # called off
                turns.popleft()
            if turns:
                self.come_back(client)
                turns.popleft().set_result(None)
                if turns:
                    self._waiting[client] = turns
                return
