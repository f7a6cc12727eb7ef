"""Pauses the deliveries of a share partition of which too many records die, as a service behind it may be dead.

| state   | becomes | when                                                                                             |
| ------- | ------- | ------------------------------------------------------------------------------------------------ |
| closed  | open    | more died than `rate` a minute allows                                                            |
| open    | probing | the pause is over: as long as it takes until half a minute's are allowed again, within limits    |
| probing | closed  | a record is accepted                                                                             |
| probing | open    | as from closed                                                                                   |
| any     | closed  | another rate is set                                                                              |

It starts closed. While it is open nothing is delivered; while it probes, a few records in each `PROBE_MS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from penstock.sharing.acquiring import Acquired, Demand
from penstock.sharing.values import NO_RATE

MINUTE_MS: Final = 60_000
SHORTEST_PAUSE_MS: Final = 30_000
LONGEST_PAUSE_MS: Final = 600_000
PROBE_MS: Final = 30_000
PROBES: Final = 10
"""With each probe goes this part of what may die in a minute, one record at least."""


class State(Enum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """`next_ms` is when `pass_time` has something to do; `never_ms` while that is never."""

    def __init__(self, never_ms: int) -> None:
        self.state = State.CLOSED
        self.next_ms = never_ms
        self._never_ms = never_ms
        self._rate = NO_RATE
        self._debt = 0.0
        """Records that died, less those that were allowed since."""
        self._as_of_ms = 0
        self._probes = 0
        """What may still be delivered while it probes."""

    def set_rate(self, rate: int) -> None:
        """Records in a minute, or NO_RATE."""
        if rate != self._rate:
            self._rate = rate
            self._debt = 0.0
            self._close()

    def _close(self) -> None:
        self.state, self.next_ms = State.CLOSED, self._never_ms

    def pause_ms(self, now_ms: int) -> int:
        """How long nothing is delivered yet; 0 while it probes, -1 while it is closed."""
        if self.state is State.OPEN:
            return max(self.next_ms - now_ms, 1)
        return 0 if self.state is State.PROBING else -1

    def allowed(self, records: int) -> int:
        """How many of these may be delivered now."""
        if self.state is State.CLOSED:
            return records
        return min(records, self._probes) if self.state is State.PROBING else 0

    def limited(self, demand: Demand, records: int) -> tuple[Demand, int]:
        """The demand, and how many of the records may be delivered; while it probes not one more than these."""
        if self.state is State.CLOSED:
            return demand, records
        return demand.replace(is_record_limit=True), self.allowed(records)

    def delivered(self, acquired: Sequence[Acquired]) -> None:
        if self.state is State.PROBING:
            self._probes = max(self._probes - sum(last - first + 1 for first, last, _ in acquired), 0)

    def died(self, records: int, now_ms: int) -> None:
        if self._rate == NO_RATE or not records:
            return
        passed = max(now_ms - self._as_of_ms, 0) / MINUTE_MS
        self._debt = max(self._debt - passed * self._rate, 0) + records
        self._as_of_ms = now_ms
        if self._debt > self._rate:
            pause_ms = int((self._debt / self._rate - 0.5) * MINUTE_MS)
            self.state = State.OPEN
            self.next_ms = now_ms + min(max(pause_ms, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS)

    def accepted(self) -> None:
        """A record. While it is open that says nothing: it was delivered before."""
        if self.state is State.PROBING:
            self._close()

    def pass_time(self, now_ms: int) -> None:
        if now_ms >= self.next_ms:
            self.state = State.PROBING
            self._probes = max(self._rate // PROBES, 1)
            self.next_ms = now_ms + PROBE_MS
