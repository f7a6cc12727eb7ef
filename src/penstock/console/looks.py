"""What was asked of a cluster a moment ago is not asked again: whatever pages there are, brokers pay little.

A look is good for `fresh_s`, for as long as it took, and for a hundred times the work that it was: the time of the
processor that this process took meanwhile, which brokers take about as much of. One that waits, for a node that is gone
or a busy machine, is no work; what others do here meanwhile counts up to twice the work of the look before. Where it is
much work, that is doubled, and times the number of such looks that somebody asks for: so all of them together take
0.5 % of a processor, however large the cluster is. Who asks while a look is under way gets its result.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final, NamedTuple, TypeVar, cast

Result = TypeVar("Result")
FRESH_S: Final = 1.0
"""With the pause between two looks at what pages show (`serving/live.py`), a change is told within two seconds."""
REST_FOR: Final = 100
"""For so many times its own work a look is not repeated,"""
LONGEST_REST_S: Final = 300.0
"""but never for longer."""
LONGEST_WAIT_S: Final = 30.0
"""For so long one that waited rests as well: who does not answer is not asked all the time."""
A_WHILE_S: Final = 0.05
"""Looks that are so much work share in their time."""
GROWS: Final = 2
"""A look is taken for so many times the work of the one before at most."""
UNASKED_S: Final = 60.0
"""What has been old for so long nobody asks for."""
PATIENCE_S: Final = 0.15
"""So long a new look is waited for before the old one has to do."""
LONG_S: Final = 1.0
"""What takes so long, work or not, is shown as it was while it is looked at anew after a change."""
MAX_LOOKS: Final = 512
"""Those that were asked for longest ago are forgotten."""


class Entry(NamedTuple):
    """What was found, until when it is good, how long it took, what work that was, and when it began; in seconds."""

    until_s: float
    found: Any
    took_s: float
    work_s: float
    began_s: float


Used = dict[Hashable, Entry | None]
"""What something was made of; None for what was not good then."""
_used: Final = ContextVar[Used | None]("used", default=None)


class Looks:
    """`now_s` is a clock that never goes back, `worked_s` one of the processor."""

    def __init__(self, now_s: Callable[[], float], worked_s: Callable[[], float] = time.process_time) -> None:
        self._now_s = now_s
        self._worked_s = worked_s
        self._found: dict[Hashable, Entry] = {}
        self._under_way: dict[Hashable, tuple[int, asyncio.Task[Any]]] = {}
        """Since which change, and the look."""
        self._changes = 0

    async def at(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float = FRESH_S) -> Result:
        """Errors are those of the look. One that takes long is waited for only where nothing is known from before."""
        is_fresh, known = self._known(key)
        self._note(key, is_good=is_fresh)
        if is_fresh:
            return cast("Result", known[0])
        asked = self._changes
        begun, task = self._begin(key, look, fresh_s)
        if known and not await _ends_soon(task):
            return cast("Result", known[0])
        found = await asyncio.shield(task)
        if begun < asked:  # it may have seen what was there before the change
            found = await asyncio.shield(self._begin(key, look, fresh_s)[1])
        self._note(key, is_good=True)
        return cast("Result", found)

    async def soon(
        self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float = FRESH_S
    ) -> Result | None:
        """The same, but None where a look takes long, or fails: who needs more than this alone asks again later."""
        is_fresh, known = self._known(key)
        self._note(key, is_good=is_fresh)
        if not is_fresh:
            _, task = self._begin(key, look, fresh_s)
            if await _ends_soon(task):
                self._note(key, is_good=True)
                return None if task.exception() else cast("Result", task.result())
        return cast("Result", known[0]) if known else None

    @contextmanager
    def noting(self) -> Iterator[Used]:
        """Has what is looked at within."""
        used: Used = {}
        token = _used.set(used)
        try:
            yield used
        finally:
            _used.reset(token)

    def are_good(self, used: Used) -> bool:
        """Whether what was made of these would be the same now, as nothing of it is to be looked at anew."""
        now_s = self._now_s()
        return bool(used) and all(
            entry is not None and entry is self._found.get(key) and now_s < entry.until_s for key, entry in used.items()
        )

    def _note(self, key: Hashable, *, is_good: bool) -> None:
        if (used := _used.get()) is not None:
            used[key] = self._found.get(key) if is_good else None

    def knows(self, key: Hashable) -> bool:
        """Whether anything was found, be it old."""
        return key in self._found

    def is_slow(self, key: Hashable) -> bool:
        """Whether it was much work, or is long in coming; of what was never looked at it is not known."""
        known = self._found.get(key)
        return known is not None and (known.work_s >= A_WHILE_S or known.took_s >= LONG_S)

    def began_s(self, key: Hashable) -> float | None:
        """When the look began that what is known comes from."""
        known = self._found.get(key)
        return None if known is None else known.began_s

    def age_s(self, key: Hashable) -> float:
        """Of what is known: since that look began."""
        began_s = self.began_s(key)
        return 0.0 if began_s is None else self._now_s() - began_s

    def _known(self, key: Hashable) -> tuple[bool, tuple[Any, ...]]:
        """Whether it is still good; and what is known in a tuple, empty where nothing is."""
        known = self._found.pop(key, None)
        if known is None:
            return False, ()
        self._found[key] = known  # asked for last
        return self._now_s() < known.until_s, (known.found,)

    def _begin(
        self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float
    ) -> tuple[int, asyncio.Task[Any]]:
        if key not in self._under_way:
            self._under_way[key] = self._changes, asyncio.create_task(self._look(key, look, fresh_s))
        return self._under_way[key]

    def forget(self) -> None:
        """Something was changed: all is to be looked at anew. What takes long has to do until then."""
        self._changes += 1
        self._found = {
            key: entry._replace(until_s=-inf) for key, entry in self._found.items() if entry.took_s >= LONG_S
        }

    async def close(self) -> None:
        tasks = [task for _, task in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, key: Hashable, look: Callable[[], Awaitable[Result]], fresh_s: float) -> Result:
        _used.set(None)  # what this asks for in turn is part of it
        began_s, worked_s, changes = self._now_s(), self._worked_s(), self._changes
        before = self._found.get(key)
        try:
            found = await look()
        except BaseException:
            self._found.pop(key, None)  # who asks next is to hear why
            raise
        finally:
            self._under_way.pop(key, None)
        now_s, work_s = self._now_s(), self._worked_s() - worked_s
        if before is not None:
            work_s = min(work_s, max(GROWS * before.work_s, A_WHILE_S / GROWS))
        self._found.pop(key, None)
        took_s = now_s - began_s
        rest_s = max(fresh_s, min(took_s, LONGEST_WAIT_S), self._rest_s(work_s)) if changes == self._changes else -inf
        self._found[key] = Entry(now_s + rest_s, found, took_s, work_s, began_s)
        while len(self._found) > MAX_LOOKS:
            del self._found[next(iter(self._found))]
        return found

    def _rest_s(self, work_s: float) -> float:
        if work_s < A_WHILE_S:
            return work_s * REST_FOR
        asked_since_s = self._now_s() - UNASKED_S
        others = sum(one.work_s >= A_WHILE_S and one.until_s >= asked_since_s for one in self._found.values())
        return min(work_s * REST_FOR * 2 * (1 + others), LONGEST_REST_S)


async def _ends_soon(task: asyncio.Task[Any]) -> bool:
    """A failure that nobody waits for is no news: the next who asks looks again."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
    return bool(done)
