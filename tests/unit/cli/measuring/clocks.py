"""A clock for the commands that measure: it goes on when a test says so."""

import time
from types import SimpleNamespace

from tests.stand_in import stand_in


class Clock:
    """All clocks of the module `time` in one."""

    def __init__(self, now_s: float = 0.0, step_s: float = 0.0) -> None:
        self.now_s = now_s
        self.step_s = step_s
        """So much later it is at each look."""

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    @property
    def module(self) -> SimpleNamespace:
        return stand_in(time, time=self, monotonic=self, perf_counter=self)
