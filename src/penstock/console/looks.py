"""What was asked of a cluster a moment ago is not asked again: whatever pages there are, brokers pay little.

A look is good for `fresh_s`, and for fifty times as long as it took: so one kind of look has a broker busy for 2 % of
the time at most, however large the cluster is. Who asks while a look is under way gets its result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar, cast

Result = TypeVar("Result")
REST_FOR: Final = 50
"""For so many times its own duration a look is not repeated,"""
LONGEST_REST_S: Final = 120.0
"""but never for longer."""
PATIENCE_S: Final = 0.15
"""So long a new look is waited for before the old one has to do."""
MAX_LOOKS: Final = 512
"""Those that were asked for longest ago are forgotten."""


class Looks:
    """`now_s` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._found: dict[Hashable, tuple[float, Any]] = {}
        """Until when it is good, and what it is."""
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    async def at(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float = 2.0) -> Result:
        """Errors are those of the look. One that takes long is waited for only where nothing is known from before."""
        is_fresh, known = self._known(key)
        if is_fresh:
            return cast("Result", known[0])
        task = self._begin(key, look, fresh_s)
        if known and not await _ends_soon(task):
            return cast("Result", known[0])
        return cast("Result", await asyncio.shield(task))

    async def soon(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float = 2.0) -> Result | None:
        """The same, but None where a look takes long, or fails: who needs more than this alone asks again later."""
        is_fresh, known = self._known(key)
        if not is_fresh:
            task = self._begin(key, look, fresh_s)
            if await _ends_soon(task):
                return None if task.exception() else cast("Result", task.result())
        return cast("Result", known[0]) if known else None

    def _known(self, key: Hashable) -> tuple[bool, tuple[Any, ...]]:
        """Whether it is still good; and what is known in a tuple, empty where nothing is."""
        known = self._found.pop(key, None)
        if known is None:
            return False, ()
        self._found[key] = known  # asked for last
        return self._now_s() < known[0], (known[1],)

    def _begin(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float) -> asyncio.Task[Any]:
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._look(key, look, fresh_s))
        return task

    def forget(self) -> None:
        """Something was changed."""
        self._found.clear()

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float) -> Result:
        began_s = self._now_s()
        try:
            found = await look()
        except BaseException:
            self._found.pop(key, None)  # who asks next is to hear why
            raise
        finally:
            self._under_way.pop(key, None)
        now_s = self._now_s()
        self._found.pop(key, None)
        self._found[key] = now_s + max(fresh_s, min((now_s - began_s) * REST_FOR, LONGEST_REST_S)), found
        while len(self._found) > MAX_LOOKS:
            del self._found[next(iter(self._found))]
        return found


async def _ends_soon(task: asyncio.Task[Any]) -> bool:
    """A failure that nobody waits for is no news: the next who asks looks again."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
    return bool(done)
