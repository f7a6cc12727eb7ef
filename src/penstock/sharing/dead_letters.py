"""The records of a share partition that nobody gets again, until each has its dead letter (KIP-1191).

| a record                           | becomes                    | by                                           |
| ---------------------------------- | -------------------------- | -------------------------------------------- |
| ARCHIVING, that being written down | ARCHIVING, due             | `add`, when it is, or was by a leader before |
| ARCHIVING, due                     | ARCHIVING, its letter sent | `take`: its run says BURYING                 |
| ARCHIVING, its letter sent         | ARCHIVED                   | `done`: it is written, or cannot be          |

A leader that takes over in between sends the letter again: it may be there twice, and then says that it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from penstock.protocol.value import Value
from penstock.sharing.failures import Failures
from penstock.sharing.in_flight import SETTLED, InFlight, RecordState, Run, Span

BURYING: Final = -2
"""Of a run: its dead letter is on its way."""


class Cause(Enum):
    """As Kafka says it in a header, which programs may compare."""

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetter(Value):
    """Of records `first` to `last` (inclusive), one for each. `failures` is None where a leader before knew them."""

    first: int
    last: int
    delivery_count: int
    cause: Cause
    failures: Failures | None

    @property
    def may_repeat(self) -> bool:
        """A leader before may have written it."""
        return self.failures is None

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class DeadLetters:
    def __init__(self) -> None:
        self._due: list[Span] = []
        self._sent = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a record whose letter is still to be written."""
        return bool(self._due or self._sent)

    def add(self, run: Run) -> None:
        self._due.append((run.first, run.last))

    def take(self, flight: InFlight, delivery_count_limit: int) -> list[DeadLetter]:
        """Those that are due and in flight still; each is to be reported as done."""
        due, self._due = self._due, []
        letters: list[DeadLetter] = []
        for span in due:
            for run in flight.cut(*span):
                if run.state is RecordState.ARCHIVING and run.writing == SETTLED:
                    run.writing = BURYING
                    cause = _cause(run, delivery_count_limit)
                    letters.append(DeadLetter(run.first, run.last, run.delivery_count, cause, run.failures))
        self._sent += len(letters)
        return letters

    def done(self, letters: Sequence[DeadLetter], flight: InFlight) -> list[Run]:
        """What is in flight still of those records."""
        self._sent -= len(letters)
        runs = [run for it in letters for run in flight.cut(it.first, it.last) if run.writing == BURYING]
        for run in runs:
            run.writing = SETTLED
        return runs


def _cause(run: Run, delivery_count_limit: int) -> Cause:
    if run.failures is None:
        is_rejected = run.delivery_count < delivery_count_limit
    else:
        is_rejected = run.failures.last.is_rejection
    return Cause.REJECTED if is_rejected else Cause.DELIVERED_TOO_OFTEN
