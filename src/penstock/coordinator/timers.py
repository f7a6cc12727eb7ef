"""Many deadlines, of which the earliest is known: a heap whose outdated entries are dropped when they come up.

Putting a deadline off, as each heartbeat does, is one assignment: the heap keeps the earlier time and looks again then.
"""

import heapq
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 100
"""Of thousands of members that fall silent together, so many are seen to before the event loop does something else."""


class Timer:
    """Calls `fire(*of, now_ms)` at `deadline_ms`, None while it is off; its holder may assign a later time, or None.

    Each member has one, so what it is about is kept without a `partial`.
    """

    __slots__ = ("deadline_ms", "fire", "of", "queued_ms")

    def __init__(self, fire: Callable[..., None], *of: object) -> None:
        self.fire = fire
        self.of = of
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._push(timer, deadline_ms)

    def next_ms(self) -> int | None:
        """At the latest: where very many deadlines were put off, an earlier time at which nothing is due."""
        for _ in range(AT_ONCE):
            if not self._heap:
                return None
            timer = self._heap[0][2]
            if self._heap[0][0] == timer.queued_ms == timer.deadline_ms:
                break
            self._settle_top()
        return self._heap[0][0] if self._heap else None

    def fire_due(self, now_ms: int) -> None:
        """The earliest fires first; timers that this sets for now fire as well. Beyond `AT_ONCE` they are due still."""
        for _ in range(AT_ONCE):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            timer = self._heap[0][2]
            if self._heap[0][0] == timer.queued_ms == timer.deadline_ms:
                heapq.heappop(self._heap)
                timer.deadline_ms = timer.queued_ms = None
                timer.fire(*timer.of, now_ms)
            else:
                self._settle_top()

    def _settle_top(self) -> None:
        """It is not what its timer wants: queue the timer at its deadline."""
        queued_ms, _, timer = heapq.heappop(self._heap)
        if queued_ms == timer.queued_ms:
            timer.queued_ms = None
            if timer.deadline_ms is not None:
                self._push(timer, timer.deadline_ms)

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        self._sequence += 1
        timer.queued_ms = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))
