"""How much of a partition is committed, as this replica knows, and who waits for more.

It outlives the roles of the replica: a new leader starts from what it knew as a follower.
"""

from collections.abc import Sequence

from penstock.replication.waits import NOBODY, Waiter, Waits


class Committed:
    """`high_watermark`: every in-sync replica has the records before it. It goes back only where the log is cut.

    `first_unstable_offset` is that of the oldest open transaction, None if none is open; `waits` are for the high
    watermark.
    """

    __slots__ = ("first_unstable_offset", "high_watermark", "waits")

    def __init__(self, high_watermark: int = 0) -> None:
        self.high_watermark = high_watermark
        self.first_unstable_offset: int | None = None
        self.waits = Waits()

    @property
    def last_stable_offset(self) -> int:
        """The offset before which no transaction is open; at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def advance(self, high_watermark: int) -> Sequence[Waiter]:
        """Returns the waiters that are due."""
        if high_watermark <= self.high_watermark:
            return NOBODY
        self.high_watermark = high_watermark
        return NOBODY if high_watermark < self.waits.next_offset else self.waits.take_due(high_watermark)

    def cut_to(self, log_end_offset: int) -> None:
        self.high_watermark = min(self.high_watermark, log_end_offset)
