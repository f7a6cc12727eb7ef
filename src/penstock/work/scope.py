"""Work in the background that its owner can end: asyncio itself forgets tasks that nothing refers to."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any


class Scope:
    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(tuple(self._tasks))

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def stop(self) -> None:
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)
