"""What one part of a node has in the background, tasks and threads, from their start until it stops.

A task that ends is `start`ed, work that goes on for ever is `keep`t: no other way is taken within a node
(`tests/architecture/test_background.py`), so that none ends without a word, and no loop for good. Who stops waits for
what is under way, as it may use files, but not for a disk that hangs: `all_ended` has a limit.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from penstock.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

AGAIN_S: Final = 1.0
"""After so long work begins anew that failed by our own fault."""
ENDS_S: Final = 40.0
"""Work that has not ended so long after somebody began to wait for its end hangs."""

logger = logging.getLogger(__name__)


async def all_ended(working: Iterable[asyncio.Future[Any]]) -> None:
    """Wait until these have ended. Raises KafkaError if something hangs: then files are in use, and are not closed."""
    if under_way := list(working):
        _, left = await asyncio.wait(under_way, timeout=ENDS_S)
        if left:
            names = {one.get_name() if isinstance(one, asyncio.Task) else "threads" for one in left}
            text = f"a disk may hang, not ended within {ENDS_S:g} s: {', '.join(sorted(names))}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)


async def _settle(working: Iterable[asyncio.Future[Any]], timeout_s: float | None) -> None:
    if timeout_s is None:
        await all_ended(working)
    elif under_way := list(working):
        await asyncio.wait(under_way, timeout=timeout_s)


class Tasks:
    """Keeps tasks while they run, as the event loop does not, and logs what ends one but its end or a cancellation."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, object]], name: str) -> asyncio.Task[None]:
        """Work that goes on until it is cancelled: what ends it otherwise is logged, and it begins anew."""
        return self.start(self._again(work, name), name)

    @staticmethod
    async def _again(work: Callable[[], Coroutine[Any, Any, object]], name: str) -> None:
        while True:
            try:
                await work()
                return
            except Exception:
                logger.exception("%s: failed by our own fault, and begins anew in %s s", name, AGAIN_S)
            await asyncio.sleep(AGAIN_S)

    def _done(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: failed by our own fault", task.get_name(), exc_info=error)

    def cancel(self) -> None:
        """Does not wait for their end."""
        for task in self._running:
            task.cancel()

    async def settle(self, timeout_s: float | None = None) -> None:
        """Wait until those that run now have ended, or as long as that; without a time as `all_ended`."""
        await _settle(self._running, timeout_s)

    async def stop(self) -> None:
        self.cancel()
        await self.settle()


class Threads:
    """Work that threads do: it goes on where who waits for it is cancelled, and uses files until it has ended."""

    __slots__ = ("_executor", "_working")

    def __init__(self, executor: Executor | None = None) -> None:
        """Those of a log directory, or by default those that all parts of a node share."""
        self._executor = executor
        self._working: dict[asyncio.Future[Any], None] = {}

    def begin(self, work: Callable[..., T], *args: object) -> asyncio.Future[T]:
        future = asyncio.get_running_loop().run_in_executor(self._executor, work, *args)
        self._working[future] = None
        future.add_done_callback(self._working.pop)
        return future

    async def do(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.shield(self.begin(work, *args))

    async def settle(self, timeout_s: float | None = None) -> None:
        """As `Tasks.settle`."""
        await _settle(self._working, timeout_s)
