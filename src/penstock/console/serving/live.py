"""Pages hear which of their views have changed, and fetch those: one stream of events for a browser.

A view is alive while somebody has asked for it a moment ago and a stream is open; then it is made again now and then,
and its path is told if it became another one. What a stream has not sent yet is a set of paths: a reader that is slow,
or has stopped, gets each once, and costs no memory.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from penstock.console.errors import ConsoleError
from penstock.console.query import Query
from penstock.console.watched import REFUSALS, WatchedCluster
from penstock.protocol.value import Value

ALIVE_S: Final = 40.0
"""A page asks again before that is over."""
MAX_ALIVE: Final = 64
MAX_STREAMS: Final = 64
PAUSE_S: Final = 0.5
VIEW_S: Final = 15.0
"""How long a view may take to make."""
logger = logging.getLogger(__name__)

View = Callable[[WatchedCluster, Query], Awaitable[dict[str, Any]]]


class Body(Value):
    """The bytes of a view, and a name of what is in them."""

    data: bytes
    tag: str
    is_known: bool
    """Whether the cluster answered."""


class Alive(Value):
    """A view that a page shows: `tag` is what pages know of it."""

    name: str
    query: dict[str, str]
    until_s: float
    tag: str


class Stream:
    """The paths that one browser is still to hear of."""

    def __init__(self) -> None:
        self.due: dict[str, None] = {}
        self.news = asyncio.Event()

    def tell(self, path: str) -> None:
        self.due[path] = None
        self.news.set()

    async def next(self, patience_s: float) -> list[str]:
        """Empty when nothing comes for so long."""
        try:
            async with asyncio.timeout(patience_s):
                await self.news.wait()
        except TimeoutError:
            return []
        self.news.clear()
        paths = list(self.due)
        self.due.clear()
        return paths


class Live:
    def __init__(self, watched: WatchedCluster, views: Mapping[str, View]) -> None:
        self._watched = watched
        self._views = views
        self._alive: dict[str, Alive] = {}
        """By path with query."""
        self._streams: dict[Stream, None] = {}

    @property
    def is_watched(self) -> bool:
        return bool(self._streams)

    def open(self) -> Stream:
        """ConsoleError where there are too many."""
        if len(self._streams) >= MAX_STREAMS:
            raise ConsoleError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_STREAMS} pages are open: close some")
        stream = Stream()
        self._streams[stream] = None
        return stream

    def close(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    async def ask(self, path: str, name: str, query: Query) -> Body:
        """`path` is the whole address of the view; it lives on for a while."""
        body = await self._make(name, query)
        self._alive.pop(path, None)
        while len(self._alive) >= MAX_ALIVE:
            del self._alive[next(iter(self._alive))]
        self._alive[path] = Alive(name, dict(query), time.monotonic() + ALIVE_S, body.tag)
        return body

    def tell_all(self) -> None:
        """Something was changed here: every page shall look."""
        for stream in self._streams:
            for path in self._alive:
                stream.tell(path)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(PAUSE_S)
            try:
                if self._streams:
                    await self._look()
            except Exception:
                logger.exception("a view cannot be made")

    async def _look(self) -> None:
        now_s = time.monotonic()
        self._alive = {path: row for path, row in self._alive.items() if row.until_s >= now_s}
        await asyncio.gather(*map(self._look_at, list(self._alive)))

    async def _look_at(self, path: str) -> None:
        before = self._alive[path]
        try:
            body = await self._make(before.name, before.query)
        except ConsoleError:
            return
        if body.tag != before.tag and path in self._alive:
            self._alive[path] = self._alive[path].replace(tag=body.tag)
            for stream in self._streams:
                stream.tell(path)

    async def _make(self, name: str, query: Query) -> Body:
        """What is refused or not answered elsewhere is said in the body. ConsoleError for a wrong question."""
        try:
            async with asyncio.timeout(VIEW_S):
                document, is_known = await self._views[name](self._watched, query), True
        except REFUSALS as error:
            document, is_known = {"error": str(error) or "the cluster has not answered in time"}, False
        except ConsoleError as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            document, is_known = {"error": str(error)}, False
        data = json.dumps(document, separators=(",", ":")).encode()
        return Body(data, hashlib.blake2b(data, digest_size=12).hexdigest(), is_known)
