"""P14: how fast does the cleaner of each system compact a copy of the same segments, and what does it cost?"""

import time
from contextlib import ExitStack
from functools import partial

import psutil

from bench.compaction import TOPIC, DirtyLog, dirty_log
from bench.node import running, scratch
from bench.process import BrokerProcess
from bench.versus.systems import COMMANDS, MB, Effort, Figure, Line, Sample, compared, sample_of

FIGURES = (Figure("MB/s", "MB/s", "higher", bar=0.5), Figure("CPU ms/MB", "ms", "lower", bar=0.5))
SIZES = (100, 1000)
MEGABYTES = 500
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
LIMIT_S = 300.0
LOOK_S = 0.005
QUIET_S = 1.0
"""For other work of a broker, after its start and after a round."""


def compacted(effort: Effort) -> list[Line]:
    """Both brokers run all the time, the one that is not asked is idle."""
    lines = []
    topics = [f"{TOPIC}-{number}" for number in range(effort.pairs + 1)]
    megabytes = max(20, round(MEGABYTES * effort.scale))
    for size in SIZES:
        with dirty_log(megabytes, size) as log, scratch() as directory, ExitStack() as stack:
            for name, command in COMMANDS.items():
                log.give(command, directory / name, topics)
            brokers = {
                name: stack.enter_context(running(command, directory / name, SETTINGS))
                for name, command in COMMANDS.items()
            }
            lines += compared(effort, "P14", FIGURES, brokers, {f"{size} B": partial(_compacted, log=log)})
    return lines


def _compacted(broker: BrokerProcess, number: int, *, log: DirtyLog) -> Sample:
    """One round: from its being allowed to its mark in the checkpoint."""
    topic = f"{TOPIC}-{number}"
    log.read_in(broker, topic)
    time.sleep(QUIET_S)
    used, began_s = _cpu_s(broker), time.perf_counter()
    log.let_clean(broker, topic)
    while not log.is_clean(broker, topic):
        if time.perf_counter() - began_s > LIMIT_S:
            raise RuntimeError(f"{topic} was not compacted within {LIMIT_S:g} s")
        time.sleep(LOOK_S)
    took_s, megabytes = time.perf_counter() - began_s, log.size_bytes / MB
    time.sleep(QUIET_S)
    return sample_of(FIGURES, megabytes / took_s, (_cpu_s(broker) - used) * 1e3 / megabytes)


def _cpu_s(broker: BrokerProcess) -> float:
    """CPU seconds of a broker and of its child processes, ended ones as well."""
    main = psutil.Process(broker.pid)
    own = main.cpu_times()
    children = [child.cpu_times() for child in main.children(recursive=True)]
    ended = float(own.children_user + own.children_system)
    return ended + sum(float(one.user + one.system) for one in (own, *children))
