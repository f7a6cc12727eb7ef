"""Leases: a right that ends by itself, counted by who holds it and by who gave it, each on a clock of its own.

A holder asks for its right again and again. A granter that answers yes promises to give it to no other for
a while. The two have no moment in common, but their messages are in order: a request is sent before it is got.

| who | counts from | and for | and until then |
| --- | --- | --- | --- |
| the granter | the moment at which it got the request | the length | gives the right to no other |
| the holder | the moment at which it sent the request that was answered | what is left of it by `HELD` | acts |

So the holder's count ends first, however long messages take, and whether answers arrive or not: a request whose answer
is lost only makes the granter wait for longer. A holder that counted from the answer would act for longer than it may.

This holds while each clock goes at most `MAX_DRIFT` too fast or too slowly, and never stands still. Times are numbers
of one unit, whichever; only the clock of one's own is ever looked at.
"""

import math
from typing import Final

MAX_DRIFT: Final = 0.03
"""By how much of the true time a clock may go wrong. Those of computers drift by some millionths of it."""


def held(max_drift: float) -> float:
    """The part of a length that a holder may count: its clock may be slow, and the granter's fast."""
    return (1 - max_drift) / (1 + max_drift)


HELD: Final = held(MAX_DRIFT)


class Holder:
    """It holds nothing before a request was answered."""

    __slots__ = ("_length", "granted", "until")

    def __init__(self, granted: float, max_drift: float = MAX_DRIFT) -> None:
        self.granted = granted
        """The length that the granter counts."""
        self._length = granted * held(max_drift)
        self.until = -math.inf
        """Infinitely long ago while nothing is held."""

    def renewed(self, asked: float) -> None:
        """`asked` is when the answered request was sent. An answer that comes late takes nothing back."""
        self.until = max(self.until, asked + self._length)

    def given_up(self) -> None:
        self.until = -math.inf

    def holds(self, now: float) -> bool:
        return now < self.until


class Granter:
    """One that does not know what was granted before begins with `granted`."""

    __slots__ = ("_length", "until")

    def __init__(self, length: float) -> None:
        self._length = length
        self.until = -math.inf
        """When another may have it."""

    def granted(self, now: float) -> None:
        """A request is answered with yes, or may have been."""
        self.until = max(self.until, now + self._length)

    def released(self) -> None:
        self.until = -math.inf

    def ends_by(self, until: float) -> None:
        """The holder has said that it acts no longer than until then."""
        self.until = min(self.until, until)

    def is_over(self, now: float) -> bool:
        """Whether the holder acts no more, whatever it knows."""
        return now >= self.until
