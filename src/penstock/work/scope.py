"""Work in the background that its owner can end: asyncio itself forgets tasks that nothing refers to."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

logger = logging.getLogger(__name__)


class Scope:
    """Nobody waits for its tasks: one that fails is logged."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(tuple(self._tasks))

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s has failed", task.get_name(), exc_info=error)

    async def stop(self) -> None:
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)
