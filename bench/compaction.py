"""What compaction costs, with and without the compiled kernels, and what clients of the node feel of it."""

import time
from collections.abc import Callable
from typing import Final

from bench.child import Child
from bench.dirty_log import TOPIC, DirtyLog, dirty_log
from bench.measure import Budget, Measure, measure, percentile
from bench.node import AT_ONCE, penstock_command, running, scratch
from bench.one_round import KINDS, one_round
from bench.process import BrokerProcess
from bench.round_trip import REQUESTS_OF, SmallRequests

MEGABYTES: Final = 100
BUDGETS: Final = {("compiled", 100): 70, ("compiled", 1000): 150, ("plain", 100): 7, ("plain", 1000): 60}
"""MB in a second of CPU time."""
BESIDE_MEGABYTES: Final = 1000
BESIDE_SIZE: Final = 1000
PAUSE_S: Final = 0.003
QUIET_S: Final = 3.0
"""About as long as a round takes."""
ROUNDS: Final = 6
"""In a run: the p99 of one round would be its three longest trips."""
LOOK_EACH: Final = 20
LIMIT_S: Final = 120.0
REQUESTS: Final = ("produce", "fetch", "heartbeat")
Trips = dict[str, list[float]]
"""Round trips in milliseconds, by kind of request."""


def compaction(runs: int) -> list[Measure]:
    """How many MB does a round of compaction read in a second of CPU time? Each key was written ten times."""
    found = []
    for size in (100, 1000):
        with dirty_log(MEGABYTES, size) as log:
            for kind in KINDS:
                rates = [Child(one_round, log.directory, kind).result() for _ in range(runs + 1)][1:]
                budget = Budget(BUDGETS[kind, size], "at least")
                found.append(measure(f"compaction, records of {size} B, {kind}", "MB per CPU s", rates, budget))
    return found


def beside_compaction(runs: int) -> list[Measure]:
    """What do produce, fetch and heartbeats feel while 1 GB is compacted, several times in a run?"""
    ratios: Trips = {kind: [] for kind in REQUESTS}
    late: list[float] = []
    topics = [f"{TOPIC}-{number}" for number in range(runs * ROUNDS)]
    with scratch() as directory, dirty_log(BESIDE_MEGABYTES, BESIDE_SIZE) as log:
        log.give(penstock_command, directory, topics)
        settings = {"log.cleaner.backoff.ms": "100", **AT_ONCE}
        with running(penstock_command, directory, settings) as node:
            requests = SmallRequests(node)
            _trips(requests, _after(QUIET_S))
            for first in range(0, len(topics), ROUNDS):
                without, beside = _rounds(node, requests, topics[first : first + ROUNDS], log)
                for kind in REQUESTS:
                    ratios[kind].append(percentile(beside[kind], 99) / percentile(without[kind], 99))
                late.append(max(beside["heartbeat"]))
    return [
        *(
            measure(f"{kind} beside the compaction of 1 GB, p99 to that without", "×", found, Budget(1.5))
            for kind, found in ratios.items()
        ),
        measure("longest heartbeat beside the compaction of 1 GB", "ms", late, Budget(100)),
    ]


def _rounds(node: BrokerProcess, requests: SmallRequests, topics: list[str], log: DirtyLog) -> tuple[Trips, Trips]:
    """All round trips without compaction, and beside it: taking turns, as the machine itself is not always the same."""
    without: Trips = {kind: [] for kind in REQUESTS}
    beside: Trips = {kind: [] for kind in REQUESTS}
    for topic in topics:
        log.read_in(node, topic)
        quiet = _trips(requests, _after(QUIET_S))
        log.let_clean(node, topic)
        busy = _trips(requests, lambda topic=topic: log.is_clean(node, topic))  # type: ignore[misc]
        for kind in REQUESTS:
            without[kind] += quiet[kind]
            beside[kind] += busy[kind]
    return without, beside


def _trips(requests: SmallRequests, is_over: Callable[[], bool]) -> Trips:
    """Round trips, a few hundred a second, until it is over."""
    frames = {kind: REQUESTS_OF[kind](requests, 1) for kind in REQUESTS}
    found: Trips = {kind: [] for kind in REQUESTS}
    limit_s = time.perf_counter() + LIMIT_S
    while not is_over():
        if time.perf_counter() > limit_s:
            raise RuntimeError(f"compaction did not end within {LIMIT_S:g} s")
        for _ in range(LOOK_EACH):
            for kind, one in frames.items():
                time.sleep(PAUSE_S)
                found[kind] += requests.round_trips_ms(one)
    return found


def _after(seconds: float) -> Callable[[], bool]:
    end_s = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end_s
