"""What a node stands on: chance, the disk, the clock, and how it takes an address. A simulation brings its own.

Everything else that it needs of the outside world, timers, connections and threads, it gets from the event loop.
"""

import time
from collections.abc import Callable
from functools import partial
from random import Random, SystemRandom
from time import perf_counter_ns
from typing import Any

from penstock.log.disk import Disk
from penstock.node.environment.cleaning_process import CleaningProcess, RoundRunner
from penstock.node.serving.server import BoundListener
from penstock.protocol.value import Value, fresh


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


elapsed_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds since the machine was started, its sleep included where the system can tell that. Each request asks."""


class SimulatedTls(Value):
    """`make_context` is called with settings and a key, as those of `tls/contexts.py` are; `clock_s` measures turns."""

    make_context: Callable[[Any, Any], Any]
    clock_s: Callable[[], float]


class Environment(Value, kw_only=True):
    """By default the real ones. `bind` is called as `BoundListener` is, and gives something that does as much."""

    random: Random = fresh(SystemRandom)
    disk: Disk = fresh(Disk)
    now_ms: Callable[[], int] = wall_clock_ms
    elapsed_s: Callable[[], float] = elapsed_s
    """Goes steadily, also while the machine sleeps, whose leases run on meanwhile; the event loop's time stands still
    then."""
    clock_ns: Callable[[], int] = perf_counter_ns
    """Measures turns of connections and how long requests take: two reads for each request."""
    bind: Callable[..., BoundListener] = BoundListener
    run_rounds: Callable[[Disk], RoundRunner] = CleaningProcess
    """What compacts: a process of its own."""
    tls: SimulatedTls | None = None
    """In place of OpenSSL."""
    max_open_segments: int | None = None
    """How many segment files may be open at a time; None for as many as the process may have."""
