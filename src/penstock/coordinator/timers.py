"""Many deadlines, of which the earliest is known: a heap whose outdated entries are dropped, at the latest when due.

Putting a deadline off, as each heartbeat does, is one assignment: the heap keeps the earlier time and looks again then.
Who joins a group and goes has a timer of five minutes, which is off when he goes: the heap sweeps it away.
"""

from collections.abc import Callable
from typing import Final

from penstock.protocol.sweeping_heap import SweepingHeap

AT_ONCE: Final = 100
"""Of thousands of members that fall silent together, so many are seen to before the event loop does something else."""

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


def _is_queued(entry: Entry) -> bool:
    """A timer that is off is queued no longer."""
    queued_ms, _, timer = entry
    if queued_ms != timer.queued_ms:
        return False
    if timer.deadline_ms is None:
        timer.queued_ms = None
    return timer.deadline_ms is not None


class Timers:
    def __init__(self) -> None:
        self._heap = SweepingHeap[Entry](_is_queued)
        self._sequence = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._push(timer, deadline_ms)

    def next_ms(self) -> int | None:
        """At the latest: where very many deadlines were put off, an earlier time at which nothing is due."""
        for _ in range(AT_ONCE):
            first = self._heap.first
            if first is None:
                return None
            if first[0] == first[2].queued_ms == first[2].deadline_ms:
                return first[0]
            self._settle_first()
        first = self._heap.first
        return None if first is None else first[0]

    def fire_due(self, now_ms: int) -> None:
        """The earliest fires first; timers that this sets for now fire as well. Beyond `AT_ONCE` they are due still."""
        for _ in range(AT_ONCE):
            first = self._heap.first
            if first is None or first[0] > now_ms:
                return
            timer = first[2]
            if first[0] == timer.queued_ms == timer.deadline_ms:
                self._heap.pop()
                timer.deadline_ms = timer.queued_ms = None
                timer.fire(*timer.of, now_ms)
            else:
                self._settle_first()

    def end(self) -> None:
        """None fires any more, nor leads to what it is about, which would keep both."""
        for _, _, timer in self._heap:
            timer.fire, timer.of, timer.deadline_ms, timer.queued_ms = _is_over, (), None, None
        self._heap.clear()

    def _settle_first(self) -> None:
        """It is not what its timer wants: queue the timer at its deadline."""
        queued_ms, _, timer = self._heap.pop()
        if queued_ms == timer.queued_ms:
            timer.queued_ms = None
            if timer.deadline_ms is not None:
                self._push(timer, timer.deadline_ms)

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        self._sequence += 1
        timer.queued_ms = deadline_ms
        self._heap.push((deadline_ms, self._sequence, timer))
