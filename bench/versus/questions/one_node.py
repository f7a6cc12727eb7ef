"""P4 to P9, P13, P14, P21: latency, groups, boot and memory, Spark, compaction, each with one node of a system."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from tests.bars.small_batches import CASES, CROWDED, TOPICS, ages

from bench.child import Child
from bench.compaction import TOPIC, DirtyLog, dirty_log
from bench.load import LARGE, produce
from bench.process import AT_ONCE, BrokerProcess, running, running_node, scratch
from bench.standstill import EVENTS, KINDS, standstills
from bench.topics import create_topic, delete_topic, fill
from bench.versus.clients import group_times_s, latencies_ms, round_trips_ms
from bench.versus.kafka import fetch
from bench.versus.questions.throughput import SMALL, small_requests
from bench.versus.systems import (
    COMMANDS,
    MB,
    Effort,
    Figure,
    Line,
    Sample,
    Samples,
    both,
    compared,
    lines_of,
    sample_of,
)
from bench.wire import first_record_at
from penstock.pipeline.session import spark_session

AGES = (Figure("p50", "ms", "lower"), Figure("p99", "ms", "lower"), Figure("p99.9", "ms", "lower", bar=None))
SIZE, COUNT, SECONDS = 100, 500_000, 4.0
SHARES = (10, 50)
END_TO_END = 250_000
"""Records a second that the clients can make and take on the cores that the broker leaves them: a higher rate would
measure the clients.
"""

ANSWERS = (
    Figure("p50", "ms", "lower"),
    Figure("p99", "ms", "lower"),
    Figure("CPU µs/request", "µs", "lower"),
    Figure("requests/s", "requests/s", "higher", bar=None),
)
CLIENTS, RATE = 200, 50


def end_to_end(effort: Effort) -> list[Line]:
    """P4: how long from a producer's call to a consumer's, at 10 % and 50 % of the rate that both systems can take?"""
    with both() as brokers:
        top = _peak(brokers, effort.records(COUNT))
        effort.say(f"P4 peak: {top:,} records/s")
        cases = {f"{share} % of the peak": partial(_aged, rate=top * share // 100) for share in SHARES}
        return compared(effort, "P4", AGES, brokers, cases)


def _peak(brokers: dict[str, BrokerProcess], records: int) -> int:
    """Records a second without any pause, of the slower system: both then get the same load."""
    rates = []
    for broker in brokers.values():
        create_topic(broker.address, "peak")
        loads = [produce(broker.address, "peak", records, SIZE, {"linger.ms": 0}) for _ in range(3)]
        rates.append(max(load.records_per_s for load in loads))
    return int(min(*rates, END_TO_END))


def _aged(broker: BrokerProcess, number: int, *, rate: int) -> Sample:
    topic = f"steady-{rate}-{number}"
    create_topic(broker.address, topic)
    figures = latencies_ms(broker.address, topic, rate=rate, size=SIZE, seconds=SECONDS)
    delete_topic(broker.address, topic)
    return sample_of(AGES, *figures)


def many_connections(effort: Effort) -> list[Line]:
    """P5: 200 connections, each with 50 small produce requests a second: how fast are they answered, at what cost?"""
    with both() as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "crowd", 12)
        return compared(effort, "P5", ANSWERS, brokers, {"": _answered})


def _answered(broker: BrokerProcess, number: int) -> Sample:
    before = broker.cpu()
    p50, p99, rate = round_trips_ms(broker.address, "crowd", clients=CLIENTS, rate=RATE, seconds=SECONDS)
    used = (broker.cpu() - before).total
    return sample_of(ANSWERS, p50, p99, used * 1e6 / (rate * SECONDS), rate)


FORMED = (
    Figure("first join to stable", "s", "lower"),
    Figure("one leaves, to stable", "s", "lower"),
    Figure("CPU s", "s", "lower"),
)
MEMBERS = 100
STILL = tuple(
    Figure(f"{event}: {what}", "s", "lower") for event in EVENTS for what in ("no record at all", "worst partition")
)


def hundred_members(effort: Effort) -> list[Line]:
    """P8: how long does a group of 100 members take to form, and to find itself again when one leaves?

    The only setting is that both let a group form at once.
    """
    with both(AT_ONCE) as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "shared", MEMBERS)
        return compared(effort, "P8", FORMED, brokers, {"": _formed})


def _formed(broker: BrokerProcess, number: int) -> Sample:
    before = broker.cpu()
    joined, left = Child(group_times_s, broker.address, "shared", f"group-{number}", MEMBERS).result()
    return sample_of(FORMED, joined, left, (broker.cpu() - before).total)


def standing_still(effort: Effort) -> list[Line]:
    """P13: how long does a group of ten stand still when a member joins, restarts or leaves, by the kind of member?"""
    with both(AT_ONCE) as brokers:
        return compared(effort, "P13", STILL, brokers, {kind: partial(_stood_still, kind) for kind in KINDS})


def _stood_still(kind: str, broker: BrokerProcess, number: int) -> Sample:
    found = standstills(broker.address, f"{kind}-{number}", kind)
    return sample_of(STILL, *(seconds for event in EVENTS for seconds in found[event]))


EMPTY = (
    Figure("boot to the first record", "s", "lower", bar=4.0),
    Figure("memory, idle", "MB", "lower", bar=5.0),
    Figure("memory, after 400 MB", "MB", "lower", bar=5.0),
)
BULK_COUNT, BULK_SIZE = 400_000, 1000
FULL = (Figure("boot to the first record", "s", "lower"), Figure("memory, idle", "MB", "lower"))
FULL_PARTITIONS, IN_FLIGHT, REQUESTS = 10_000, 50, 50_000


def boot(effort: Effort) -> list[Line]:
    """P6: how long from the start of the process to the first produced record, and how much memory does it hold?

    Each system runs alone.
    """
    work = partial(_booted, records=effort.records(BULK_COUNT))
    return compared(effort, "P6", EMPTY, {name: name for name in COMMANDS}, {"": work})


def _booted(system: str, _: int, *, records: int) -> Sample:
    """A boot on an empty directory (formatting is not counted), a look at the idle broker, one at the busy one."""
    with scratch() as directory, running(COMMANDS[system], directory / system) as broker:
        seconds = first_record_at(broker.address) - broker.started
        time.sleep(2)
        idle = broker.resident_mb
        create_topic(broker.address, "bulk")
        produce(broker.address, "bulk", records, BULK_SIZE, LARGE)
        return sample_of(EMPTY, seconds, idle, broker.resident_mb)


def full_node(effort: Effort) -> list[Line]:
    """P7: 10,000 partitions on one node: how long does it boot, what memory does it hold, what do small requests cost?

    Each system runs alone but for the small requests.
    """
    with scratch() as directory:
        for name, command in COMMANDS.items():
            with running(command, directory / name) as broker:
                fill(broker.address, FULL_PARTITIONS)
                first_record_at(broker.address)  # the partitions are there when one more can be
        boot = {"boot of a full node": partial(_booted_full, directory=directory)}
        boots = compared(effort, "P7", FULL, {name: name for name in COMMANDS}, boot)
        first, second = COMMANDS
        with running(COMMANDS[first], directory / first) as one, running(COMMANDS[second], directory / second) as other:
            for broker in (one, other):
                first_record_at(broker.address)
            work = partial(small_requests, records=effort.records(REQUESTS), in_flight=IN_FLIGHT)
            return boots + compared(effort, "P7", SMALL, {first: one, second: other}, {"50 in flight": work})


def _booted_full(system: str, _: int, *, directory: Path) -> Sample:
    with running(COMMANDS[system], directory / system) as broker:
        return sample_of(FULL, first_record_at(broker.address) - broker.started, broker.resident_mb)


SPARK_SIZES, SPARK_COUNT = (100, 1000), 5_000_000
SPARK_PARTITIONS = 2
SPARK_LIMIT_S = 1800
READS = [Figure(name, "records/s", "higher", bar=1.5) for name in ("count", "parquet")]


def spark(effort: Effort) -> list[Line]:
    lines = []
    with scratch() as directory, running_node() as broker:
        for size in SPARK_SIZES:
            records, topic = effort.records(SPARK_COUNT), f"spark-{size}"
            create_topic(broker.address, topic, SPARK_PARTITIONS)
            produce(broker.address, topic, records, size, LARGE)
            samples = Child(reads, broker.address, topic, records, effort.pairs, directory).result(SPARK_LIMIT_S)
            lines += lines_of(f"{size} B", READS, samples)
    return lines


COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
FORMATS = ("kafka", "penstock")


def reads(address: str, topic: str, records: int, pairs: int, folder: Path) -> Samples:
    """Records a second of each format, into a count and into Parquet."""
    spark = spark_session("versus", master="local[2]", config={"spark.jars": _jars()}, log_file=folder / "spark.log")
    found = _frame(spark, "kafka", address, topic).count()
    if found != records:
        raise RuntimeError(f"the topic has {found} records, not {records}")
    rates: Samples = {name: [] for name in FORMATS}
    for number in range(pairs + 1):
        for name in FORMATS:
            table, path = _frame(spark, name, address, topic), str(folder / name)
            # A count of the bare frame would let Spark leave the records' fields out: count what has a value.
            counted = _seconds_of(table.where("value is not null").count)
            written = _seconds_of(lambda table=table, path=path: table.write.mode("overwrite").parquet(path))  # type: ignore[misc]
            if number:
                rates[name].append({"count": records / counted, "parquet": records / written})
    spark.stop()
    return rates


def _jars() -> str:
    return ",".join(map(str, fetch("spark")))


def _frame(spark: SparkSession, name: str, address: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic}
    return spark.read.format(name).options(**options).load().select(*COLUMNS)


def _seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def small_batches(effort: Effort) -> list[Line]:
    """P21: how long after their acknowledgement has a micro-batch with 100 records ended, or is its output read?"""
    lines = []
    with scratch() as directory, running_node() as broker:
        for cases in (CASES, CROWDED):
            wanted = {case: small for case, small in cases.items() if effort.case in f"P21 {case}"}
            if wanted and cases is CROWDED:
                fill(broker.address, TOPICS, per_topic=1)
            measured = (_jars(), broker.address, wanted, effort.pairs, effort.scale, directory)
            for case, samples in Child(ages, *measured).result(SPARK_LIMIT_S).items() if wanted else ():
                lines += lines_of(case, AGES[:2], samples)
                for name, number in product(samples, range(effort.pairs)):
                    effort.show(case, name, number + 1, samples[name][number])
    return lines


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
