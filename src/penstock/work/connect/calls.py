"""Calls into code that others wrote: coroutine functions on the event loop, all others in a thread of the task's own.

A call that never returns holds up its own task only: the thread is a daemon, which a worker that ends leaves behind. A
long call is reported while it lasts.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

LONG_S: Final = 60.0
_Job = tuple[asyncio.Future[Any], Callable[[], Any]]


class Calls:
    """One call of a task at a time; used within one event loop."""

    def __init__(self, name: str, on_long: Callable[[str], None] | None = None) -> None:
        """`on_long` is told which method has not returned for LONG_S, and "" when it has after all."""
        self._name = name
        self._on_long = on_long
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

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
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((future, lambda: method(*arguments)))
        return await future

    def close(self) -> None:
        """End the thread after the call that is under way."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            try:
                outcome, error = work(), None
            except BaseException as raised:
                outcome, error = None, raised
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, outcome, error)
            except RuntimeError:
                return  # the loop is closed: no caller waits


def _settle(future: asyncio.Future[Any], outcome: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(outcome)
    elif isinstance(error, Exception):
        future.set_exception(error)
    else:  # SystemExit and its like must not end the worker
        future.set_exception(RuntimeError(f"a task raised {error!r}"))
