"""How far a source is, written to the worker's topic as well where its connector has one of its own (as in KIP-618).

A connector that no longer names a topic of its own goes on there. Its task does not wait for that, and a copy that
fails comes with the next one: what counts is in the connector's topic.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from penstock.work.connect.api import Changes, Position
from penstock.work.connect.runtime.records import partition_name

SETTLING_S: Final = 5.0
logger = logging.getLogger(__name__)


class OffsetCopies:
    """One write is under way; the last offset of each partition that came meanwhile is in the next one."""

    def __init__(self, write: Callable[[str, Changes], Coroutine[Any, Any, None]]) -> None:
        """`write` is the worker's, by connector."""
        self._write = write
        self._waiting: dict[tuple[str, str], tuple[Position, Position | None]] = {}
        self._writing: asyncio.Task[None] | None = None

    def take(self, connector: str, offsets: Changes) -> None:
        self._waiting |= {(connector, partition_name(one[0])): one for one in offsets}
        if offsets and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def settle(self, limit_s: float = SETTLING_S) -> None:
        """Wait until all is written. What is not by then is given up: nothing of it may come behind a later change."""
        if self._writing is None:
            return
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.shield(self._writing)
        except TimeoutError:
            logger.warning("how far a source is was not copied to the worker's topic within %g s", limit_s)
        finally:
            self._writing.cancel()
            self._writing, self._waiting = None, {}

    async def _write_all(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting, {}
            try:
                await asyncio.gather(*(self._write(connector, [one]) for (connector, _), one in taken.items()))
            except Exception as error:
                logger.warning("how far a source is was not copied to the worker's topic: %s", error)
