"""Steps of a round that are made where a core has nothing else to do, so that nobody who wakes up waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from penstock.log.compaction.rounds import Step

LONG_S = 0.25
FEW = 0.1
"""A thread that gets less than this share of a core for a step that takes long finds no idle cores."""


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.thread_time()


def on_idle_cores(steps: Iterator[Step], clocks: Callable[[], tuple[float, float]] = _clocks) -> Iterator[Step]:
    """The steps, from a thread that runs on idle cores alone; from the calling one as soon as there are none.

    The first one loads what the others need, which may take a second of CPU time: the calling thread makes it. On Linux
    a thread that wakes up waits up to 4 ms behind one that is merely nice. But while others keep all cores busy, a
    thread for idle cores gets 0.3 % of one, and without privileges it stays such a thread. `clocks` gives the time and
    the CPU time of the calling thread, in seconds.
    """

    def made() -> tuple[Step | None, bool]:
        began_s, had_s = clocks()
        step = next(steps, None)
        now_s, has_s = clocks()
        took_s = now_s - began_s
        return step, took_s > LONG_S and has_s - had_s < FEW * took_s

    with ThreadPoolExecutor(1, initializer=_leave_busy_cores) as idle:
        step, is_starving = made()[0], False
        while step is not None:
            yield step
            step, is_late = made() if is_starving else idle.submit(made).result()
            is_starving |= is_late


def _leave_busy_cores() -> None:
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
