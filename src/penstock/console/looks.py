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
        """Errors are those of the look; the next who asks looks again."""
        known = self._found.pop(key, None)
        if known is not None:
            self._found[key] = known
            if self._now_s() < known[0]:
                return cast("Result", known[1])
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._look(key, look, fresh_s))
        return cast("Result", await asyncio.shield(task))

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
        finally:
            self._under_way.pop(key, None)
        now_s = self._now_s()
        self._found.pop(key, None)
        self._found[key] = now_s + max(fresh_s, min((now_s - began_s) * REST_FOR, LONGEST_REST_S)), found
        while len(self._found) > MAX_LOOKS:
            del self._found[next(iter(self._found))]
        return found
