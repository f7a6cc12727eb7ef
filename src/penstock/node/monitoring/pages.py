"""Pages that cost something to make are made once for all who ask, and told again for a while.

However often and by however many a page is asked for, the node spends at most a tenth of its time on it: a page is told
again for nine times as long as it took to make. On a small node that is a few milliseconds.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.node.serving.slices import to_its_end

AGAIN: Final = 9
"""A page is told again for so many times the time that it took to make."""
LEVEL: Final = 1
"""A faster compression makes a page 9 % of its size, the default one 6 %, in four times the time."""
GZIP_WINDOW: Final = 31


class Pages:
    """`make` is told whether the page is to be OpenMetrics."""

    def __init__(self, make: Callable[[bool], Awaitable[bytes]], clock_s: Callable[[], float]) -> None:
        self._make = make
        self._clock_s = clock_s
        self._made: dict[tuple[bool, bool], tuple[float, asyncio.Future[bytes]]] = {}
        """By form: until when it is told again, and the page, which may be under way."""

    async def page(self, *, is_open: bool, is_packed: bool) -> bytes:
        form = is_open, is_packed
        until_s, page = self._made.get(form, (-1.0, None))
        if page is None or (page.done() and self._clock_s() >= until_s):
            page = asyncio.ensure_future(self._packed(is_open) if is_packed else self._make(is_open))
            self._made[form] = until_s, page
            began_s = self._clock_s()
            page.add_done_callback(lambda made: self._is_made(form, made, began_s))
        return await asyncio.shield(page)

    def _is_made(self, form: tuple[bool, bool], page: asyncio.Future[bytes], began_s: float) -> None:
        if page.cancelled() or page.exception() is not None:
            self._made.pop(form, None)
            return
        now_s = self._clock_s()
        self._made[form] = now_s + AGAIN * (now_s - began_s), page

    async def _packed(self, is_open: bool) -> bytes:
        plain = await self.page(is_open=is_open, is_packed=False)
        loop = asyncio.get_running_loop()
        return await to_its_end(loop.run_in_executor(None, lambda: zlib.compress(plain, LEVEL, GZIP_WINDOW)))
