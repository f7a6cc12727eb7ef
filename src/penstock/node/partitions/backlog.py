"""What is to be done in its order, a few things in each turn of the event loop: very many hold nothing else up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from penstock.node.environment.signal import Signal

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Backlog(Generic[T]):
    """`do` is called with one after the other; `done` tells when some had to wait for later turns, and all are done."""

    def __init__(self, do: Callable[[T], None], at_once: int, done: Signal[()]) -> None:
        self._do = do
        self._at_once = at_once
        self._has_done = done
        self._todo: deque[T] = deque()
        self._done: asyncio.Event | None = None

    def extend(self, things: Iterable[T]) -> None:
        """Have these done, from the next `work` on."""
        self._todo.extend(things)

    def work(self) -> None:
        """Do what there is, as far as it goes in one turn; the rest comes in later ones."""
        if self._done is None:
            self._work()

    async def settled(self) -> None:
        """Returns when all is done that there was."""
        while self._done is not None:
            await self._done.wait()

    def clear(self) -> None:
        """Forget what is still to be done."""
        self._todo.clear()

    def stop(self) -> None:
        """Forget it; who waits for it waits no longer."""
        self.clear()
        self._tell()

    def _work(self) -> None:
        for _ in range(min(self._at_once, len(self._todo))):
            thing = self._todo.popleft()
            try:
                self._do(thing)
            except Exception:
                logger.exception("%s: could not be done", thing)
        if self._todo:
            self._done = self._done or asyncio.Event()
            asyncio.get_running_loop().call_soon(self._work)
        elif self._done is not None:
            self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done.set()
            self._has_done()
