"""What compaction costs, with and without the compiled kernels, and what clients of the node feel of it."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from bench.child import Child
from bench.dirty_log import TOPIC, DirtyLog, cleaned_to, dirty_log, let_clean
from bench.load import run
from bench.measure import Budget, Measure, measure
from bench.node import penstock_command
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
KINDS: Final = ("produce", "fetch", "heartbeat")
SETTINGS: Final = {"log.cleaner.backoff.ms": "100", "group.initial.rebalance.delay.ms": "0"}
Trips = dict[str, list[float]]
"""Round trips in milliseconds, by kind."""


def compaction(runs: int) -> list[Measure]:
    """How many MB does a round of compaction read in a second of CPU time? Each key was written ten times."""
    found = []
    for size in (100, 1000):
        with dirty_log(MEGABYTES, size) as log:
            for kind in ("compiled", "plain"):
                done = [_round(log, kind) for _ in range(runs + 1)][1:]
                rates = [one["mb"] / one["cpu_s"] for one in done]
                budget = Budget(BUDGETS[kind, size], "at least")
                found.append(measure(f"compaction, records of {size} B, {kind}", "MB per CPU s", rates, budget))
    return found


def _round(log: DirtyLog, kind: str) -> dict[str, float]:
    found: dict[str, float] = Child("bench.one_round", log.directory, kind).result()
    return found


def beside_compaction(runs: int) -> list[Measure]:
    """What do produce, fetch and heartbeats feel while 1 GB is compacted, several times in a run?"""
    ratios: dict[str, list[float]] = {kind: [] for kind in KINDS}
    late: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        dirty_log(BESIDE_MEGABYTES, BESIDE_SIZE) as log,
    ):
        topics = [f"{TOPIC}-{number}" for number in range(runs * ROUNDS)]
        log.give(penstock_command, Path(directory), topics)
        node = BrokerProcess(penstock_command, Path(directory), SETTINGS)
        try:
            requests = SmallRequests(node)
            _trips(requests, _after(QUIET_S))
            for first in range(0, len(topics), ROUNDS):
                without, beside = _rounds(node, requests, topics[first : first + ROUNDS], log)
                for kind in KINDS:
                    ratios[kind].append(_p99(beside[kind]) / _p99(without[kind]))
                late.append(max(beside["heartbeat"]))
        finally:
            node.stop()
    return [
        *(
            measure(f"{kind} beside the compaction of 1 GB, p99 to that without", "×", ratios[kind], Budget(1.5))
            for kind in KINDS
        ),
        measure("longest heartbeat beside the compaction of 1 GB", "ms", late, Budget(100)),
    ]


def _rounds(node: BrokerProcess, requests: SmallRequests, topics: list[str], log: DirtyLog) -> tuple[Trips, Trips]:
    """All round trips without compaction, and beside it: taking turns, as the machine itself is not always the same."""
    without: Trips = {kind: [] for kind in KINDS}
    beside: Trips = {kind: [] for kind in KINDS}
    for topic in topics:
        run("produce", node.address, topic, records=1, size=100, keys=1)  # so that the log is read in
        quiet = _trips(requests, _after(QUIET_S))
        let_clean(node.address, topic)
        busy = _trips(requests, partial(_is_clean, node, topic, log))
        for kind in KINDS:
            without[kind] += quiet[kind]
            beside[kind] += busy[kind]
    return without, beside


def _trips(requests: SmallRequests, is_over: Callable[[], bool]) -> Trips:
    """Round trips, a few hundred a second, until it is over."""
    frames = {kind: REQUESTS_OF[kind](requests, 1) for kind in KINDS}
    found: Trips = {kind: [] for kind in KINDS}
    limit_s = time.perf_counter() + LIMIT_S
    while not is_over():
        if time.perf_counter() > limit_s:
            raise RuntimeError(f"compaction did not end within {LIMIT_S:g} s")
        for _ in range(LOOK_EACH):
            for kind, one in frames.items():
                time.sleep(PAUSE_S)
                found[kind] += requests.round_trips_ms(one)
    return found


def _is_clean(node: BrokerProcess, topic: str, log: DirtyLog) -> bool:
    return cleaned_to(node, topic) >= log.end_offset


def _after(seconds: float) -> Callable[[], bool]:
    end_s = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end_s


def _p99(trips: list[float]) -> float:
    return sorted(trips)[len(trips) * 99 // 100]
