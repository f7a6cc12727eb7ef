"""The time of the consensus core: it begins with the wall clock's, and never jumps.

So control records and the descriptions of replicas have timestamps that people can read. By default it counts by the
event loop's clock. Where leaders hold leases it must count by another one: the event loop's stands still while the
machine sleeps, and no other voter waits for that.
"""

import asyncio
from collections.abc import Callable

from penstock.node.environment.event_loop import loop_ms


class QuorumClock:
    """Give it what it counts by, or None for the event loop's time; then start it."""

    def __init__(self, wall_clock_ms: Callable[[], int], elapsed_s: Callable[[], float] | None) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._elapsed_s = elapsed_s
        self._began_ms = 0

    def start(self) -> None:
        """Show what the wall clock shows now, and go on without it."""
        self._began_ms = self._wall_clock_ms() - self._elapsed_ms()

    def now_ms(self) -> int:
        """What it shows."""
        return self._began_ms + self._elapsed_ms()

    def timer_s(self, time_ms: int) -> float:
        """The event loop's time for a timer that is due when this clock shows that time."""
        if self._elapsed_s is None:
            return (time_ms - self._began_ms) / 1000
        return asyncio.get_running_loop().time() + (time_ms - self.now_ms()) / 1000

    def _elapsed_ms(self) -> int:
        if self._elapsed_s is None:
            return loop_ms(asyncio.get_running_loop())
        return int(self._elapsed_s() * 1000)
