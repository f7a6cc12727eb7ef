"""Whether a broker's process has ended, as seen by its listener: a machine of one registration.

A process that is killed closes its listener with it, and its host refuses connections from then on. One that hangs
takes them, a host that is gone answers nothing, and a listener that was never reached refuses for reasons of its own: a
firewall, an address that means something elsewhere. So these prove nothing.

| | what is known |
| --- | --- |
| connected | it lives: what was refused before does not count |
| refused, and it was reached before | it may have ended; it has, if it goes on to refuse for `patience_ms` |
| no answer, or anything else | nothing |
"""

from typing import Final

QUICK_S: Final = 0.1
SLOW_S: Final = 1.0


class Probe:
    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._was_reached = False
        self._refused_since_ms: int | None = None
        self._first_pause_s = QUICK_S
        self.has_ended = False

    @property
    def pause_s(self) -> float:
        """Until it is tried again. A broker that has just registered listens soon; a firewall refuses for ever."""
        return self._first_pause_s if self._refused_since_ms is None else QUICK_S

    def connected(self) -> None:
        self._was_reached = True
        self._refused_since_ms = None
        self.has_ended = False

    def refused(self, now_ms: int) -> None:
        if self._was_reached:
            if self._refused_since_ms is None:
                self._refused_since_ms = now_ms
            self.has_ended = now_ms - self._refused_since_ms >= self._patience_ms
        self._first_pause_s = min(2 * self._first_pause_s, SLOW_S)

    def unanswered(self) -> None:
        self._refused_since_ms = None
        self._first_pause_s = SLOW_S

    def told(self) -> None:
        """The controller knows. If it is wrong, and the broker is back, another proof needs another connection."""
        self._was_reached = self.has_ended = False
        self._refused_since_ms = None
