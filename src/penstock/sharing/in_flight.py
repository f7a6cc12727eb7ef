"""The records between a share partition's beginning and its end: by batch, in runs of records that share one state.

A batch is what was acquired together, and begins as one run. A run is split where records of it go different ways.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Final

from penstock.sharing.failures import Failures

Span = tuple[int, int]
"""The first and the last offset (inclusive)."""

NO_MEMBER: Final = ""
SETTLED: Final = 0
"""Of a run: nothing of it is being written down."""
HELD: Final = -1
"""Of a run that is AVAILABLE: nothing of it is being written down, and nobody gets it yet."""


class RecordState(IntEnum):
    """As share coordinators write it down."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


@dataclass(slots=True)
class Run:
    """Records `first` to `last` (inclusive).

    While the write with the number `writing` is on its way, the run was acquired by `member`, is not any more, and is
    that again if the write fails. What comes back goes out again at `held_until_ms`.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member: str = NO_MEMBER
    locked_until_ms: int = 0
    writing: int = SETTLED
    held_until_ms: int = 0
    failures: Failures | None = None
    """Kept where the record may become a dead letter."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.writing == SETTLED

    @property
    def is_finished(self) -> bool:
        """Nobody gets these records again."""
        return self.state.is_terminal and self.writing == SETTLED

    def unlock(self) -> None:
        self.member, self.locked_until_ms = NO_MEMBER, 0


class Batch:
    """`size` is the number of records that were acquired together; those before the partition's beginning are gone."""

    __slots__ = ("first", "is_gap", "last", "runs", "size")

    def __init__(self, runs: list[Run], *, is_gap: bool = False) -> None:
        """`is_gap`: nobody has had these records yet, and what lies behind them was acquired before."""
        self.first, self.last = runs[0].first, runs[-1].last
        self.size = self.last - self.first + 1
        self.runs = runs
        self.is_gap = is_gap

    def cut(self, first: int, last: int) -> list[Run]:
        """The runs of records `first` to `last`; those that reach beyond are split."""
        runs = self.runs
        begin = self._split(max(first, self.first))
        end = self._split(last + 1) if last < self.last else len(runs)
        return runs[begin:end]

    def within(self, first: int, last: int) -> list[Run]:
        """The same with runs that may reach beyond."""
        begin = bisect_left(self.runs, first, key=_LAST)
        end = bisect_right(self.runs, last, key=_FIRST)
        return self.runs[begin:end]

    def _split(self, offset: int) -> int:
        """Have a run begin there; its place in the list."""
        at = bisect_right(self.runs, offset, key=_FIRST) - 1
        run = self.runs[at]
        if run.first == offset:
            return at
        tail = Run(offset, *_ALL_BUT_FIRST(run))
        run.last = offset - 1
        self.runs.insert(at + 1, tail)
        return at + 1

    def begin_at(self, offset: int) -> list[Run]:
        """Let go what lies before; the runs that are gone."""
        end = self._split(offset)
        gone = self.runs[:end]
        del self.runs[:end]
        self.first = offset
        return gone


_ALL_BUT_FIRST: Final = attrgetter(*(field.name for field in fields(Run)[1:]))
_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class InFlight:
    """Batches in the order of their offsets, which do not overlap; there may be holes between them."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[Batch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    def add(self, batch: Batch) -> None:
        self._batches.insert(bisect_left(self._batches, batch.first, key=_FIRST), batch)

    def take_out(self, first: int, last: int) -> None:
        """Records `first` to `last`, all of one batch, are part of it no more; what is left of it becomes two."""
        at = bisect_left(self._batches, first, key=_LAST)
        batch = self._batches.pop(at)
        batch.cut(first, last)
        before = [run for run in batch.runs if run.last < first]
        behind = [run for run in batch.runs if run.first > last]
        self._batches[at:at] = [Batch(left, is_gap=batch.is_gap) for left in (before, behind) if left]

    def between(self, first: int, last: int) -> list[Batch]:
        """The batches that have some of these records."""
        begin = bisect_left(self._batches, first, key=_LAST)
        end = bisect_right(self._batches, last, key=_FIRST)
        return self._batches[begin:end]

    def reach(self, last: int) -> Span | None:
        """The first record of all, and the last of the batch that begins at `last` or before; None without one."""
        end = bisect_right(self._batches, last, key=_FIRST)
        return (self._batches[0].first, self._batches[end - 1].last) if end else None

    def cut(self, first: int, last: int) -> Iterator[Run]:
        """The runs of records `first` to `last`, as `Batch.cut`."""
        for batch in self.between(first, last):
            yield from batch.cut(first, last)

    def runs_from(self, offset: int) -> Iterator[Run]:
        for at in range(bisect_left(self._batches, offset, key=_LAST), len(self._batches)):
            batch = self._batches[at]
            yield from batch.runs if batch.first >= offset else batch.within(offset, batch.last)

    def runs(self) -> Iterator[Run]:
        for batch in self._batches:
            yield from batch.runs

    def begin_at(self, offset: int) -> list[Run]:
        """Let go what lies before; the runs that are gone."""
        end = bisect_left(self._batches, offset, key=_LAST)
        gone = [run for batch in self._batches[:end] for run in batch.runs]
        del self._batches[:end]
        if self._batches and self._batches[0].first < offset:
            gone += self._batches[0].begin_at(offset)
        return gone
