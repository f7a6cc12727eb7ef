"""Who waits for an offset: an ordered queue, from which an event takes those who are due and touches nobody else."""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

Waiter = Callable[[], None]
"""What the shell calls when a wait is over. A machine hands it back and never calls it."""
Wait = tuple[int, int, Waiter]
"""The offset, a number that no other wait of the queue has, and the waiter."""

NEVER = 1 << 63
"""Behind every offset."""
NOBODY: Sequence[Waiter] = ()
_NONE: list[Wait] = []
"""Stays empty. A partition has three queues, and of most partitions nobody ever waits in them: they have no list."""


class Waits:
    """Ordered by offset; costs log n each. No wait is due before the number is at `next_offset`."""

    __slots__ = ("_number", "_waits", "next_offset")

    def __init__(self) -> None:
        self._waits = _NONE
        self._number = 0
        self.next_offset = NEVER

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, offset: int, waiter: Waiter) -> Wait:
        """Due once the number is at `offset` or past it; the result is for `cancel`."""
        self._number += 1
        wait = offset, self._number, waiter
        if self._waits is _NONE:
            self._waits = []
        insort(self._waits, wait)  # the number decides before waiters would be compared
        self._note_next()
        return wait

    def cancel(self, wait: Wait) -> None:
        """The wait may be over already."""
        at = bisect_left(self._waits, wait[:2])
        if at < len(self._waits) and self._waits[at] is wait:
            del self._waits[at]
            self._note_next()

    def take_due(self, reached: int) -> Sequence[Waiter]:
        """Removes the waiters for `reached` or less, and returns them in order."""
        if reached < self.next_offset:
            return NOBODY
        waits = self._waits
        end = bisect_left(waits, (reached + 1,))
        due = [waiter for _, _, waiter in waits[:end]]
        del waits[:end]
        self._note_next()
        return due

    def take_all(self) -> Sequence[Waiter]:
        due = [waiter for _, _, waiter in self._waits]
        self._waits.clear()
        self._note_next()
        return due

    def _note_next(self) -> None:
        self.next_offset = self._waits[0][0] if self._waits else NEVER
