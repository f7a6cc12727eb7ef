"""Work that comes again and again for all log directories, done by threads of each one's disk."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.log.directories.log_directory import LogDirectory
from penstock.log.directories.log_roots import LogRoots
from penstock.node.environment.tasks import all_ended

logger = logging.getLogger(__name__)

WAITS_S: Final = 10.0
"""What takes longer is no longer waited for: its disk may hang."""


class EachDisk:
    """A disk that hangs holds up no other one: it is passed by until its work has ended."""

    def __init__(self, roots: LogRoots, waits_s: float = WAITS_S) -> None:
        self._roots = roots
        self._waits_s = waits_s
        self._under_way: dict[LogDirectory, asyncio.Future[None]] = {}

    async def do(self, work: Callable[[LogDirectory], None]) -> set[LogDirectory]:
        """Those for which it has not ended yet, or was not begun. Raises KafkaError if it failed for another."""
        loop, begun, left = asyncio.get_running_loop(), dict[asyncio.Future[None], LogDirectory](), set(self._under_way)
        for directory in self._roots.online:
            if directory not in left:
                future = self._under_way[directory] = loop.run_in_executor(directory.threads, work, directory)
                future.add_done_callback(partial(self._ended, directory))
                begun[future] = directory
        try:
            if begun:
                await asyncio.wait(begun, timeout=self._waits_s)
        finally:
            late = [future for future in begun if not future.done()]
            for future in late:
                future.add_done_callback(_tell)
        problems = [error for future in begun if future.done() and (error := future.exception()) is not None]
        if problems:
            raise problems.pop()
        return left.union(begun[future] for future in late)

    def _ended(self, directory: LogDirectory, _: asyncio.Future[None]) -> None:
        del self._under_way[directory]

    async def settle(self) -> None:
        """Wait until what is under way has ended. Raises KafkaError if a disk hangs."""
        await all_ended(self._under_way.values())


def _tell(future: asyncio.Future[None]) -> None:
    """Nobody waits for it any more."""
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("work for a log directory that took long failed: %s", error)
