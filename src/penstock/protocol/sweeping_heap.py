"""A heap of which much is outdated before it comes up: deadlines that were put off, whatever was due for what is gone.

What no longer counts cannot be taken out of the middle of a heap, and would be kept until its time, with all that it
leads to: a partition that is deleted may have been due in days. So with each entry that is pushed some old ones are
looked at, as by a collector with two spaces, and those that no longer count go. Beside those that count two thirds as
many more are kept, or a hundred, at most.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])
FEW: Final = 100
"""So many entries are not looked at."""
LOOKS: Final = 4
"""For each entry that is pushed: while all were looked at once, a quarter as many have come."""


class SweepingHeap(Generic[Entry]):
    """Entries are compared as tuples; no two are equal. `counts` says whether one still does."""

    __slots__ = ("_counts", "_heap", "_old")

    def __init__(self, counts: Callable[[Entry], bool]) -> None:
        self._counts = counts
        self._heap: list[Entry] = []
        self._old: list[Entry] = []
        """Another heap: entries that are still to be looked at."""

    def push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, entry)
        if not self._old and len(self._heap) > FEW:
            self._heap, self._old = self._old, self._heap
        for _ in range(min(len(self._old), LOOKS)):
            old = self._old.pop()  # without its last entry a heap is one
            if self._counts(old):
                heapq.heappush(self._heap, old)

    @property
    def first(self) -> Entry | None:
        """It may no longer count."""
        heap = self._earlier()
        return heap[0] if heap else None

    def pop(self) -> Entry:
        """The first, where there is one."""
        return heapq.heappop(self._earlier())

    def clear(self) -> None:
        self._heap.clear()
        self._old.clear()

    def __len__(self) -> int:
        """With those that no longer count."""
        return len(self._heap) + len(self._old)

    def __iter__(self) -> Iterator[Entry]:
        """All, in no order."""
        yield from self._heap
        yield from self._old

    def _earlier(self) -> list[Entry]:
        return self._old if self._old and not (self._heap and self._heap[0] < self._old[0]) else self._heap
