"""Produces and reads of a partition are linearizable, if there is one order of them all that agrees with the time.

Each has its place: a produce its offset, and a read the end of the log that it saw. So the order is known, and what is
left to check is that none stands before what was over when it began: such a produce would have been put between records
that were there, and such a read is stale. Who asks takes `reached` with him.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.values import TopicPartition


class LogEnds:
    """How far somebody has been told that partitions go; `violated` is told of an answer that goes less far."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._ends: dict[TopicPartition, int] = {}
        self.reads = 0
        """So many reads were answered."""

    def reached(self, where: TopicPartition) -> int:
        """Where the partition ends at least."""
        return self._ends.get(where, 0)

    def produced(self, where: TopicPartition, offset: int, before: int) -> None:
        """A record has got this offset; `before` was reached when it was sent."""
        if offset < before:
            self._violated(f"{where}: a record was sent when the log went to {before}, and was put at {offset}")
        self.goes_to(where, offset + 1)

    def read(self, who: str, where: TopicPartition, end: int, before: int) -> None:
        """Somebody answered that the partition ends there; `before` was reached when he was asked."""
        self.reads += 1
        if end < before:
            self._violated(f"{who} answered that {where} ends at {end}, after somebody knew of {before}")
        self.goes_to(where, end)

    def goes_to(self, where: TopicPartition, end: int) -> None:
        """Somebody was told so."""
        self._ends[where] = max(end, self.reached(where))
