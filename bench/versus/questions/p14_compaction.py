"""P14: how fast does the cleaner of each system compact a copy of the same segments, and what does it cost?"""

import time
from contextlib import ExitStack
from functools import partial

import psutil

from bench.dirty_log import TOPIC, DirtyLog, cleaned_to, dirty_log, let_clean
from bench.load import run
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import COMMANDS, MB, Effort, Sample, in_turn, running, scratch

TITLE = "Compaction: one cleaner thread on a copy of the same segments, each key ten times, batches of 16 KB"
RATE = Figure("MB/s", "MB/s", "higher", bar=0.5)
CPU = Figure("CPU ms/MB", "ms", "lower", bar=0.5)
FIGURES = (RATE, CPU)
SIZES = (100, 1000)
MEGABYTES = 500
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
LIMIT_S = 300.0
LOOK_S = 0.005
QUIET_S = 1.0
"""For what a broker does besides, after its start and after a round."""


def cpu_s(broker: BrokerProcess) -> float:
    """CPU seconds of a broker and of the processes that it has started, those that ended as well."""
    main = psutil.Process(broker.process.pid)
    own = main.cpu_times()
    children = [child.cpu_times() for child in main.children(recursive=True)]
    ended = float(own.children_user + own.children_system)
    return ended + sum(float(one.user + one.system) for one in (own, *children))


def compact(broker: BrokerProcess, number: int, *, log: DirtyLog) -> Sample:
    """One round: from its being allowed to its mark in the checkpoint."""
    topic = f"{TOPIC}-{number}"
    run("produce", broker.address, topic, records=1, size=100, keys=1)  # so that the log is read in
    time.sleep(QUIET_S)
    used, began_s = cpu_s(broker), time.perf_counter()
    let_clean(broker.address, topic)
    while cleaned_to(broker, topic) < log.end_offset:
        if time.perf_counter() - began_s > LIMIT_S:
            raise RuntimeError(f"{topic} was not compacted within {LIMIT_S:g} s")
        time.sleep(LOOK_S)
    took_s, megabytes = time.perf_counter() - began_s, log.size_bytes / MB
    time.sleep(QUIET_S)
    return {RATE.name: megabytes / took_s, CPU.name: (cpu_s(broker) - used) * 1e3 / megabytes}


def ask(effort: Effort) -> list[Line]:
    """Ask; the brokers of both systems are there all the time, and the one that is not asked is idle."""
    lines = []
    topics = [f"{TOPIC}-{number}" for number in range(effort.pairs + 1)]
    for size in SIZES:
        megabytes = max(20, round(MEGABYTES * effort.scale))
        with dirty_log(megabytes, size) as log, scratch() as directory, ExitStack() as stack:
            for name, command in COMMANDS.items():
                log.give(command, directory / name, topics)
            brokers = {name: stack.enter_context(running(name, directory / name, SETTINGS)) for name in COMMANDS}
            case = f"{size} B"
            turn = partial(compact, log=log)
            lines += lines_of(case, FIGURES, in_turn(effort, f"P14 {case}", brokers, turn))
    return lines
