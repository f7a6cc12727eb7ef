"""Where work goes on while the application's own loop is held up: an event loop in a thread of its own.

What runs there shares nothing with the application's loop but values that are replaced as a whole.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Background(Protocol):
    """A place for coroutines, used from one application's loop."""

    def submit(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        """Run `work` there, beginning at once; cancelling the future cancels it."""

    async def close(self) -> None:
        """Cancel what still runs, and end."""


class BackgroundThread:
    """An event loop in a daemon thread, so that an application that forgets to close does not hang at its end."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, for callers without an event loop; they wait for it, and if they are interrupted, until
        it is cancelled.
        """
        ended = threading.Event()

        async def noted() -> Result:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(noted(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            ended.wait()
            raise

    async def close(self) -> None:
        await self.submit(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SameLoop:
    """The application's own loop, where there are no threads: in a simulation."""

    def __init__(self, name: str) -> None:
        self.name = name

    def submit(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        return asyncio.create_task(work)

    async def close(self) -> None:
        """Callers that wait for work here cancel it."""


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
