"""One timer of the event loop for the earliest of many deadlines; and turns, where many have work at the same time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable


def nobody() -> None: ...


class Alarm:
    """Calls `ring` when the earliest time is there to which it was set.

    A deadline that was put off needs no new timer: `ring` finds that nothing is due, and sets the alarm again.
    """

    __slots__ = ("_due_ms", "_now_ms", "_ring", "_timer")

    def __init__(self, ring: Callable[[], None], now_ms: Callable[[], int]) -> None:
        """`now_ms` is the clock by which it is set."""
        self._ring = ring
        self._now_ms = now_ms
        self._due_ms = 0
        self._timer: asyncio.Handle | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, due_ms: int) -> None:
        """Ring then, if it is not set to an earlier time; what is due now comes in the loop's next turn."""
        if self._timer is not None:
            if self._due_ms <= due_ms:
                return
            self._timer.cancel()
        self._due_ms = due_ms
        loop, wait_ms = asyncio.get_running_loop(), due_ms - self._now_ms()
        rings = self._rings
        self._timer = loop.call_soon(rings) if wait_ms <= 0 else loop.call_later(wait_ms / 1000, rings)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """It rings no more, and does not lead to who has it."""
        self.cancel()
        self._ring = nobody

    def _rings(self) -> None:
        self._timer = None
        self._ring()


class Turns:
    """Of many that have a step to do one does it in each turn of the event loop, in the order in which they came."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._steps = OrderedDict[Callable[[], None], None]()
        self._is_taking = False

    def add(self, step: Callable[[], None]) -> None:
        """Do it once, also if it is added again before."""
        self._steps[step] = None
        if not self._is_taking:
            self._is_taking = True
            asyncio.get_running_loop().call_soon(self._take)

    def discard(self, step: Callable[[], None]) -> None:
        self._steps.pop(step, None)

    def _take(self) -> None:
        if not self._steps:
            self._is_taking = False
            return
        asyncio.get_running_loop().call_soon(self._take)
        step, _ = self._steps.popitem(last=False)
        step()
