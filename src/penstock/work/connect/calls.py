"""Calls into code that others wrote: coroutine functions on the event loop, all others in a thread of the task's own.

A call that never returns holds up its own task only: the thread is a daemon, which a worker that ends leaves behind. A
long call is reported while it lasts.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

from penstock.client.daemon_thread import DaemonThread

LONG_S: Final = 60.0


class Calls:
    """One call of a task at a time; used within one event loop."""

    def __init__(self, name: str, on_long: Callable[[str], None] | None = None) -> None:
        """`on_long` is told which method has not returned for LONG_S, and "" when it has after all."""
        self._on_long = on_long
        self._thread = DaemonThread(name)

    async def call(self, method: Callable[..., Any], *arguments: object) -> Any:
        if self._on_long is None:
            return await self._called(method, *arguments)
        is_long = False

        def tell(on_long: Callable[[str], None]) -> None:
            nonlocal is_long
            is_long = True
            on_long(getattr(method, "__name__", "a call"))

        telling = asyncio.get_running_loop().call_later(LONG_S, tell, self._on_long)
        try:
            return await self._called(method, *arguments)
        finally:
            telling.cancel()
            if is_long:
                self._on_long("")

    async def _called(self, method: Callable[..., Any], *arguments: object) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, method, *arguments)

    def close(self) -> None:
        """End the thread after the call that is under way."""
        self._thread.shutdown()


async def called_apart(name: str, method: Callable[..., Any], *arguments: object) -> Any:
    """One such call: what needs a plugin's class may load it, which takes seconds or does not end."""
    calls = Calls(name)
    try:
        return await calls.call(method, *arguments)
    finally:
        calls.close()


class SharedCalls:
    """Calls apart, by names: who asks while one is under way waits for that one. So what hangs has one thread."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    async def call(self, name: str, method: Callable[..., Any], *arguments: object) -> Any:
        if name not in self._under_way:
            task = asyncio.create_task(called_apart(name, method, *arguments), name=name)
            self._under_way[name] = task
            task.add_done_callback(lambda _: self._under_way.pop(name))
        return await asyncio.shield(self._under_way[name])
