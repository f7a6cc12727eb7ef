"""Whether this process has slept through its session, and may not act on what it knew before.

A controller that hears nothing of a broker for `broker.session.timeout.ms` has others lead what it led. A broker that
hangs for so long (its process was stopped, its machine was) finds requests in its sockets before it learns of that, and
would acknowledge records with acks=1 that the new leader never sees.

A broker that was awake all the time goes on, also while no controller answers: then nobody else can lead.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class BrokerSession:
    """It is asked before anything is accepted that only a leader accepts. `clock_s` never goes back."""

    __slots__ = ("_clock_s", "_timeout_s", "_until_s")

    def __init__(self, timeout_ms: int, clock_s: Callable[[], float]) -> None:
        self._timeout_s = timeout_ms / 1000
        self._clock_s = clock_s
        self._until_s = math.inf

    @property
    def is_over(self) -> bool:
        """Whether no heartbeat went out for the length of a session, and none was answered since."""
        return self._clock_s() > self._until_s

    def asks(self) -> float:
        """A heartbeat goes out. Who is awake is so for another while; returns the time."""
        now_s = self._clock_s()
        if now_s <= self._until_s:
            self._until_s = now_s + self._timeout_s
        return now_s

    def is_let_in(self, asked_s: float) -> None:
        """A heartbeat of that time was answered: the controller counts on this broker, which knows what it decided."""
        self._until_s = max(self._until_s, asked_s + self._timeout_s)
