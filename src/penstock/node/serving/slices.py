"""Long answers in slices: whoever asks for much waits for it, and nobody else does.

A long answer is a generator. Between two steps of at most half a millisecond it yields None; work that cannot be cut,
but needs nothing of the node, it yields as a function without arguments, which runs in a thread and whose result (or
error) comes back. All long answers of a node share one `asyncio.Lock`, so however many there are, one slice runs at a
time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Any]
Steps = Generator[Work | None, Any, T]

STEPS_AT_ONCE = 4
"""Steps of one slice: two milliseconds at the most."""


def in_slices(steps: Steps[T], lock: asyncio.Lock) -> T | Awaitable[T]:
    """The result, at once if the first slice brings it."""
    work: Work | None = None
    try:
        for _ in range(STEPS_AT_ONCE):
            work = next(steps)
            if work is not None:
                break
    except StopIteration as stop:
        result: T = stop.value
        return result
    return _go_on(steps, work, lock)


async def _go_on(steps: Steps[T], work: Work | None, lock: asyncio.Lock) -> T:
    loop = asyncio.get_running_loop()
    while True:
        failure: Exception | None = None
        found: Any = None
        if work is not None:
            try:
                found = await loop.run_in_executor(None, work)
            except Exception as error:
                failure = error
        async with lock:
            await asyncio.sleep(0)
            try:
                work = steps.send(found) if failure is None else steps.throw(failure)
                for _ in range(STEPS_AT_ONCE - 1):
                    if work is not None:
                        break
                    work = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
