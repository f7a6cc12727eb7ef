"""Calls into code that others wrote: coroutine functions on the event loop, all others in a thread of the task's own.

A call that never returns holds up its own task only: the thread is a daemon, which a worker that ends leaves behind. A
long call is reported while it lasts.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

LONG_S: Final = 60.0


class Calls:
    """One call of a task at a time; used within one event loop."""

    def __init__(self, name: str, on_long: Callable[[str], None] | None = None) -> None:
        """`on_long` is told which method has not returned for LONG_S, and "" when it has after all."""
        self._on_long = on_long
        self._thread = _Thread(name)

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


class _Thread(Executor):
    """Does one thing after the other in a daemon thread, which begins with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put((future, partial(fn, *args, **kwargs)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Never waits: what is under way may never end."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as raised:
                future.set_exception(_carried(raised))


def _carried(raised: BaseException) -> Exception:
    """What no future can carry, or would end the worker (SystemExit), comes back as another error."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(f"a task raised {raised!r}")
