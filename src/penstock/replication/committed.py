"""How much of a partition is committed, as this replica knows, how much its own log keeps, and who waits for more.

Both outlive the roles of the replica: a new leader starts from what it knew as a follower.
"""

from collections.abc import Sequence

from penstock.replication.waits import NOBODY, Waiter, Waits


class Committed:
    """`high_watermark`: every in-sync replica has the records before it. It goes back only where the log is cut.

    `waits` are for the high watermark.
    """

    __slots__ = ("high_watermark", "waits")

    def __init__(self, high_watermark: int = 0) -> None:
        self.high_watermark = high_watermark
        self.waits = Waits()

    def advance(self, high_watermark: int) -> Sequence[Waiter]:
        """Returns the waiters that are due."""
        if high_watermark <= self.high_watermark:
            return NOBODY
        self.high_watermark = high_watermark
        return NOBODY if high_watermark < self.waits.next_offset else self.waits.take_due(high_watermark)

    def cut_to(self, log_end_offset: int) -> None:
        self.high_watermark = min(self.high_watermark, log_end_offset)


class Kept:
    """`offset`: before it the replica's own log keeps all as well as `flush.messages` wants it (`kept_offset`). It goes
    back with a log that is cut. `waits` are for it. `is_stuck`: the disk has no room for the flush, or hangs, and
    nobody knows when it keeps more.
    """

    __slots__ = ("is_stuck", "offset", "waits")

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.waits = Waits()
        self.is_stuck = False
