"""Records of one held batch that wait, as they lie in it, until the first of them is due before long.

To put a record where its time is takes ten times as long as to read when it is due. A new leader, who has to read of
millions before it delivers, puts off the former for all but a few.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from penstock.replication.delayed.near import NEVER_MS

FEWEST: Final = 50
"""Records of a run: it takes some 300 bytes besides the 8 of each."""


class Run:
    """Entries at one offset after the other, from `first` on."""

    __slots__ = ("first", "times")

    def __init__(self, times: Sequence[int], first: int) -> None:
        self.first, self.times = first, array("q", times)

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """When each is due, and where it waits."""
        return zip(self.times, count(self.first), strict=False)

    def offsets(self) -> range:
        return range(self.first, self.first + len(self.times))

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """The last ones."""
        begin = max(len(self.times) - most, 0)
        taken = list(zip(self.times[begin:], count(self.first + begin), strict=False))
        del self.times[begin:]
        return taken


class Runs:
    """Those of a partition; each lies behind all that came before."""

    __slots__ = ("_firsts", "_order", "_runs")

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self._firsts: list[int] = []
        """The keys of these, in order."""
        self._order: list[tuple[int, int]] = []
        """A heap: when the first of a run is due, and the run's key; also of runs that are gone."""

    def add(self, times: Sequence[int], first: int, first_ms: int) -> None:
        """The first of them is due then."""
        self._runs[first] = Run(times, first)
        self._firsts.append(first)
        heapq.heappush(self._order, (first_ms, first))

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def __contains__(self, waited_at: int) -> bool:
        at = bisect_right(self._firsts, waited_at) - 1
        return at >= 0 and waited_at in self._runs[self._firsts[at]].offsets()

    @property
    def next_due_ms(self) -> int:
        """NEVER_MS if there is none."""
        while self._order and self._order[0][1] not in self._runs:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else NEVER_MS

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """Of the run of which a record is due before all others: when each is due, and where it waits."""
        _, first = heapq.heappop(self._order)
        run = self._runs[first]
        taken = run.take_some(most)
        if run.times:
            heapq.heappush(self._order, (min(run.times), first))
        else:
            self.discard(run)
        return taken

    def discard(self, run: Run) -> None:
        """It may be gone already."""
        if self._runs.pop(run.first, None) is not None:
            del self._firsts[bisect_left(self._firsts, run.first)]
