"""Does work in its order, a few things in each turn of the event loop, so that a lot of work blocks nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from penstock.log.health import lacks_files
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.signal import Signal
from penstock.protocol.errors import KafkaError

T = TypeVar("T")

AGAIN_MS: Final = 1_000
"""After so long what lacked an open file is tried again: nobody tells when others have closed theirs."""

logger = logging.getLogger(__name__)


class Backlog(Generic[T]):
    """`do` is called for each thing in turn; `done` after all are done, if some had to wait for later turns."""

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
        """Do as much as one turn has time for; the rest comes in later turns."""
        if self._done is None:
            self._work()

    async def settled(self) -> None:
        """Returns when all that was added so far is done."""
        while self._done is not None:
            await self._done.wait()

    def clear(self) -> None:
        self._todo.clear()

    def stop(self) -> None:
        """Drop what is still to be done; `settled` returns."""
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


class PutOff(Generic[T]):
    """Things that could not be done: `again` is called when it is time to try what is `taken` then."""

    def __init__(self, again: Callable[[], None], now_ms: Callable[[], int]) -> None:
        self._things: dict[T, None] = {}
        self._now_ms = now_ms
        self._alarm = Alarm(again, now_ms)

    def add(self, thing: T, why: KafkaError) -> bool:
        """Whether that is news: of all that lack a file at the same time the first one is."""
        self._things[thing] = None
        is_news = not lacks_files(why) or not self._alarm.is_set
        if lacks_files(why):
            self._alarm.set(self._now_ms() + AGAIN_MS)
        return is_news

    def drop(self, is_over: Callable[[T], bool]) -> None:
        """There is nothing to do any more for these."""
        for thing in [thing for thing in self._things if is_over(thing)]:
            del self._things[thing]

    def taken(self) -> list[T]:
        things, self._things = list(self._things), {}
        return things

    def stop(self) -> None:
        self._alarm.end()
