"""How many bytes a second replication may take where it is throttled (KIP-73): counted over windows, as Kafka does.

What has passed is always counted, and a caller learns before the next step whether it was too much. So one step
may overshoot, and the pause behind it makes up for that. The rate is that of all windows which are remembered; the
first one counts as a whole, so that a burst at the beginning may take what a window allows.
"""

from collections import deque
from typing import Final

UNLIMITED: Final = 2**63 - 1
"""The default of Kafka's keys: no limit."""


class _Window:
    __slots__ = ("count", "last_ms", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = self.last_ms = start_ms
        self.count = 0


class ReplicationQuota:
    """`bytes_per_s` may change at any time; `windows` of `window_ms` are remembered."""

    __slots__ = ("_remembered_ms", "_window_ms", "_windows", "bytes_per_s")

    def __init__(self, *, windows: int, window_ms: int, bytes_per_s: int = UNLIMITED) -> None:
        self.bytes_per_s = bytes_per_s
        self._window_ms = window_ms
        self._remembered_ms = windows * window_ms
        self._windows: deque[_Window] = deque()

    def record(self, count: int, now_ms: int) -> None:
        self._forget_old(now_ms)
        if not self._windows or now_ms - self._windows[-1].start_ms >= self._window_ms:
            self._windows.append(_Window(now_ms))
        window = self._windows[-1]
        window.count += count
        window.last_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        if self.bytes_per_s == UNLIMITED:
            return False
        count, elapsed_ms = self._measure(now_ms)
        return count * 1000 > self.bytes_per_s * max(elapsed_ms, self._window_ms)

    def wait_ms(self, now_ms: int) -> int:
        """0 if something may pass at once."""
        if not self.is_exceeded(now_ms):
            return 0
        count, elapsed_ms = self._measure(now_ms)
        if not self.bytes_per_s:
            return self._remembered_ms
        return min(-(-count * 1000 // self.bytes_per_s) - elapsed_ms, self._remembered_ms)

    def _measure(self, now_ms: int) -> tuple[int, int]:
        """The bytes of all windows, and the time since the first of them began."""
        self._forget_old(now_ms)
        begun_ms = self._windows[0].start_ms if self._windows else now_ms
        return sum(window.count for window in self._windows), now_ms - begun_ms

    def _forget_old(self, now_ms: int) -> None:
        windows = self._windows
        if windows and windows[-1].last_ms > now_ms:  # the clock was set back
            windows.clear()
        while windows and now_ms - windows[0].last_ms >= self._remembered_ms:
            windows.popleft()
