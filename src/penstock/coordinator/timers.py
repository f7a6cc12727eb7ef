"""Many deadlines, of which the earliest is known: a heap whose outdated entries are dropped when they come up.

Putting a deadline off, as each heartbeat does, is one assignment: the heap keeps the earlier time and looks again then.
Timers that are off would be kept until then, with all that they are about, and who joins a group and goes has one of
five minutes. So with each timer that is queued some old entries are looked at, as by a collector with two spaces, and
those of timers that are off go. While as many timers are on, they are two thirds more, or a hundred, at most.
"""

import heapq
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 100
"""Of thousands of members that fall silent together, so many are seen to before the event loop does something else."""

FEW: Final = 100
"""So many entries are not looked at."""
LOOKS: Final = 4
"""For each timer that is queued: while all were looked at once, a quarter as many have come."""

Entry = tuple[int, int, "Timer"]


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


def _is_over(_: int) -> None: ...


class Timers:
    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._old: list[Entry] = []
        """Another heap: entries that are still to be looked at."""
        self._sequence = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._push(timer, deadline_ms)
            self._look_at_old()

    def next_ms(self) -> int | None:
        """At the latest: where very many deadlines were put off, an earlier time at which nothing is due."""
        for _ in range(AT_ONCE):
            heap = self._earlier()
            if not heap:
                return None
            timer = heap[0][2]
            if heap[0][0] == timer.queued_ms == timer.deadline_ms:
                break
            self._settle_top(heap)
        heap = self._earlier()
        return heap[0][0] if heap else None

    def fire_due(self, now_ms: int) -> None:
        """The earliest fires first; timers that this sets for now fire as well. Beyond `AT_ONCE` they are due still."""
        for _ in range(AT_ONCE):
            heap = self._earlier()
            if not heap or heap[0][0] > now_ms:
                return
            timer = heap[0][2]
            if heap[0][0] == timer.queued_ms == timer.deadline_ms:
                heapq.heappop(heap)
                timer.deadline_ms = timer.queued_ms = None
                timer.fire(*timer.of, now_ms)
            else:
                self._settle_top(heap)

    def end(self) -> None:
        """None fires any more, nor leads to what it is about, which would keep both."""
        for _, _, timer in (*self._heap, *self._old):
            timer.fire, timer.of, timer.deadline_ms, timer.queued_ms = _is_over, (), None, None
        self._heap, self._old = [], []

    def _earlier(self) -> list[Entry]:
        """The heap with the earliest entry."""
        return self._old if self._old and not (self._heap and self._heap[0] < self._old[0]) else self._heap

    def _settle_top(self, heap: list[Entry]) -> None:
        """It is not what its timer wants: queue the timer at its deadline."""
        queued_ms, _, timer = heapq.heappop(heap)
        if queued_ms == timer.queued_ms:
            timer.queued_ms = None
            if timer.deadline_ms is not None:
                self._push(timer, timer.deadline_ms)

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        self._sequence += 1
        timer.queued_ms = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))

    def _look_at_old(self) -> None:
        if not self._old and len(self._heap) > FEW:
            self._heap, self._old = self._old, self._heap
        for _ in range(min(len(self._old), LOOKS)):
            entry = self._old.pop()  # without its last entry a heap is one
            queued_ms, _, timer = entry
            if queued_ms != timer.queued_ms:
                continue
            if timer.deadline_ms is None:
                timer.queued_ms = None
            else:
                heapq.heappush(self._heap, entry)
