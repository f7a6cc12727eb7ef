"""What compaction costs, with and without the compiled kernels, and what clients of the node feel of it.

A compacted topic full of old values has segments that are compacted again and again by the system under measurement.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.child import Child
from bench.load import Settings, produce
from bench.measure import Budget, Figures, Measure, measure, percentile
from bench.process import AT_ONCE, BrokerProcess, Command, penstock_command, running, scratch
from bench.round_trip import REQUESTS_OF, SmallRequests
from bench.topics import active_offset, cleaned_to, create_topic, segments, set_config
from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.compiled_keys import CompiledKeys
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Summary
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_SUFFIX
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.node.serving.slices import at_once
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.records import Record, encode_batch

TOPIC: Final = "table"
TIMES_WRITTEN: Final = 10
"""How often each key is written, in the mean."""
SEGMENTS: Final = 10
DIRTY_SHARE: Final = "min.cleanable.dirty.ratio"
NEVER, ALWAYS = "1.0", "0.0"
"""Shares of a log that must be dirty."""
BATCHES: Final[Settings] = {"linger.ms": 20, "batch.size": 16_384}
"""As large as a producer of Kafka makes them."""


class DirtyLog:
    """The closed segments of one partition. Those before `end_offset`, of `size_bytes`, may be compacted."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        size = str(megabytes * 1_000_000 // SEGMENTS)
        self.settings = {"cleanup.policy": "compact", "segment.bytes": size, DIRTY_SHARE: NEVER}

    @property
    def end_offset(self) -> int:
        return active_offset(self.directory)

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in segments(self.directory)[:-1])

    def give(self, command: Command, directory: Path, topics: Sequence[str]) -> None:
        """A broker makes topics in its directory; then these segments replace their empty ones.

        Closed segments are never written to, so that all topics share them; the other files are copied.
        """
        with running(command, directory) as broker:
            for topic in topics:
                create_topic(broker.address, topic, config=self.settings)
        closed = segments(self.directory)[:-1]
        for topic in topics:
            target = directory / "data" / f"{topic}-0"
            for old in target.glob("0*"):
                old.unlink()
            for path in self.directory.glob("0*"):
                put = os.link if path in closed else shutil.copy2
                put(path, target / path.name)
        os.sync()  # so that writing it does not disturb the measurement

    def read_in(self, broker: BrokerProcess, topic: str) -> None:
        """The broker reads what it was given when one more record comes."""
        produce(broker.address, topic, 1, 100, {}, keys=1)

    def let_clean(self, broker: BrokerProcess, topic: str) -> None:
        """From now on any dirty byte is enough for a round."""
        set_config(broker.address, topic, DIRTY_SHARE, ALWAYS)

    def is_clean(self, broker: BrokerProcess, topic: str) -> bool:
        return cleaned_to(broker.directory / "data" / f"{topic}-0") >= self.end_offset


@contextmanager
def dirty_log(megabytes: int, size: int) -> Iterator[DirtyLog]:
    with scratch() as directory:
        log = DirtyLog(directory / "data" / f"{TOPIC}-0", megabytes)
        records = megabytes * 1_000_000 // size
        with running(penstock_command, directory) as node:
            create_topic(node.address, TOPIC, config=log.settings)
            produce(node.address, TOPIC, records, size, BATCHES, keys=records // TIMES_WRITTEN)
        yield log


KINDS: Final[dict[str, Callable[[int, float], Keys]]] = {"compiled": CompiledKeys, "plain": PlainKeys}


def one_round(directory: Path, kind: str) -> float:
    """MB read in a second of CPU time."""
    disk, now_ms = Disk(), int(time.time() * 1000)
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = PartitionLog(OpenFiles(disk, 10), Removals(disk), str(directory), "table", 0, config, is_clean=True)
    log.load()
    work, _ = at_once(prepare(log, look_at(log, log.log_end_offset, now_ms), Buffers(), now_ms))
    _warm(KINDS[kind](1 << 20, 0.9))
    keys = KINDS[kind](work.dedupe_bytes, work.load_factor)
    cpu_s = time.process_time()
    megabytes = sum(step.bytes_read for step in run_round(work, keys, disk) if isinstance(step, Summary)) / 1e6
    cpu_s = time.process_time() - cpu_s
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink()
    return megabytes / cpu_s


def _warm(keys: Keys) -> None:
    batch = memoryview(encode_batch([Record(0, 0, b"key", b"value")]))
    header = read_header(batch, 0)
    keys.index(batch[HEADER_SIZE:], header, 0)
    keys.keep(batch[HEADER_SIZE:], header, 0, drops_tombstones=False)


MEGABYTES: Final = 100
BUDGETS: Final = {("compiled", 100): 70, ("plain", 100): 7, ("compiled", 1000): 150, ("plain", 1000): 60}
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
"""In milliseconds, by kind of request."""


def compaction(runs: int) -> list[Measure]:
    """How many MB does a round of compaction read in a second of CPU time? Each key was written ten times."""
    found = []
    for (kind, size), bound in BUDGETS.items():
        with dirty_log(MEGABYTES, size) as log:
            rates = [Child(one_round, log.directory, kind).result() for _ in range(runs + 1)][1:]
            name, budget = f"compaction, records of {size} B, {kind}", Budget(bound, "at least")
            found.append(measure(name, "MB per CPU s", rates, budget))
    return found


def beside_compaction(runs: int) -> list[Measure]:
    """What do produce, fetch and heartbeats feel while 1 GB is compacted, several times in a run?"""
    figures = Figures()
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
                    ratio = percentile(beside[kind], 99) / percentile(without[kind], 99)
                    figures.add(f"{kind} beside the compaction of 1 GB, p99 to that without", "×", ratio, Budget(1.5))
                late = max(beside["heartbeat"])
                figures.add("longest heartbeat beside the compaction of 1 GB", "ms", late, Budget(100))
    return figures.measures()


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
    """A few hundred a second."""
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
