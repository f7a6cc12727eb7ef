"""P17 to P19: positions in transactions, records acknowledged one by one, a group that the coordinator assigns."""

from collections.abc import Mapping
from functools import partial

from bench.child import Child
from bench.load import LARGE, LARGE_FETCHES, produce, start_consuming
from bench.process import BrokerProcess, said_by
from bench.topics import GROUP, create_topic, delete_topic, set_config
from bench.versus.kafka import java_command
from bench.versus.members import life
from bench.versus.systems import (
    Effort,
    Figure,
    Line,
    Sample,
    ThreeNodes,
    both,
    compared,
    sample_of,
    three_of_each,
)
from bench.versus.taking import share, transform

COMMITTED = (
    Figure("records/s", "records/s", "higher"),
    Figure("commit p50", "ms", "lower"),
    Figure("commit p99", "ms", "lower"),
    Figure("CPU µs/record, all nodes", "µs", "lower"),
)
READ = (Figure("MB/s", "MB/s", "higher"), Figure("CPU ms/MB, all nodes", "ms", "lower"))
SOURCE, PARTITIONS, SIZE = "orders", 6, 100
EACH_100_MS, ONE = 0.1, 0.0
TRANSACTIONS: Mapping[str, tuple[float, int]] = {
    "transactions of 100 ms": (EACH_100_MS, 300_000),
    "one record a transaction": (ONE, 1_000),
}
"""(seconds between commits, records)"""
READ_COMMITTED = 500_000


def transactions(effort: Effort) -> list[Line]:
    """P17: three nodes; a topic is read, each record written to another, positions in the same transactions; then
    what was written in transactions is read by who wants committed records alone.
    """
    with three_of_each() as systems:
        for nodes in systems.values():
            create_topic(nodes.address, SOURCE, PARTITIONS, 3)
            produce(nodes.address, SOURCE, effort.records(READ_COMMITTED), SIZE, LARGE)
        cases = {
            case: partial(_transformed, case, every_s, effort.records(records))
            for case, (every_s, records) in TRANSACTIONS.items()
        }
        lines = compared(effort, "P17", COMMITTED, systems, cases)
        read = {"read_committed": partial(_read, effort.records(READ_COMMITTED))}
        return lines + compared(effort, "P17", READ, systems, read)


def _transformed(case: str, every_s: float, records: int, nodes: ThreeNodes, number: int) -> Sample:
    target = f"{case.replace(' ', '-')}-{number}"
    create_topic(nodes.address, target, PARTITIONS, 3)
    before = nodes.cpu_s()
    figures = Child(transform, nodes.address, SOURCE, target, target, records, every_s).result()
    used = nodes.cpu_s() - before
    delete_topic(nodes.address, target)
    return sample_of(COMMITTED, *figures, used * 1e6 / records)


def _read(records: int, nodes: ThreeNodes, number: int) -> Sample:
    """The warm-up writes what all turns read."""
    topic = "settled"
    if number == 0:
        create_topic(nodes.address, topic, PARTITIONS, 3)
        Child(transform, nodes.address, SOURCE, topic, topic, records, EACH_100_MS).result()
    settings = {**LARGE_FETCHES, "isolation.level": "read_committed"}
    before = nodes.cpu_s()
    load = start_consuming(nodes.address, topic, records, SIZE, settings, range(PARTITIONS)).result()
    return sample_of(READ, load.mb_per_s, (nodes.cpu_s() - before) * 1e3 / load.megabytes)


SHARED = (
    Figure("records/s of the first nine tenths", "records/s", "higher"),
    Figure("acknowledgement p50", "ms", "lower"),
    Figure("acknowledgement p99", "ms", "lower"),
    Figure("CPU µs/record", "µs", "lower"),
)
MANY = (Figure("records/s", "records/s", "higher"), SHARED[-1])
Asked = BrokerProcess | ThreeNodes
SIZES, SHARED_RECORDS = (100, 1000), 200_000
THREADS, MANY_RECORDS = 16, 1_000_000
KEYS = 1_000
TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"


def shared(effort: Effort) -> list[Line]:
    """P18: one node, and three with three replicas; a topic of six partitions is worked off by a share group that
    accepts each record.

    Many members are Java's: so many of librdkafka's preview in one process hang, against Kafka too.
    """
    lines: list[Line] = []
    for where, systems in (("", both), (", three nodes", three_of_each)):
        one = {f"{size} B, 1 member{where}": partial(_shared, size, effort.records(SHARED_RECORDS)) for size in SIZES}
        many = {
            f"{size} B, {THREADS} members{where}": partial(_divided, size, effort.records(MANY_RECORDS))
            for size in SIZES
        }
        if any(effort.case in f"P18 {case}" for case in (*one, *many)):
            with systems() as asked:
                lines += compared(effort, "P18", SHARED, asked, one) + compared(effort, "P18", MANY, asked, many)
    return lines


def _shared(size: int, records: int, broker: Asked, number: int) -> Sample:
    name = _jobs(broker, f"jobs-{size}-{number}", size, records)
    before = broker.cpu_s()
    figures = Child(share, broker.address, name, name, records).result()
    used = broker.cpu_s() - before
    delete_topic(broker.address, name)
    return sample_of(SHARED, *figures, used * 1e6 / records)


def _divided(size: int, records: int, broker: Asked, number: int) -> Sample:
    """The rate counts from the members' start."""
    name = _jobs(broker, f"jobs-{size}-{THREADS}-{number}", size, records)
    words = {"bootstrap-server": broker.address, "topic": name, "group": name, "messages": records, "threads": THREADS}
    options = [word for key, value in words.items() for word in (f"--{key}", str(value))]
    before = broker.cpu_s()
    said = said_by([*java_command("kafka-tools", TOOL, "-Xmx512m"), *options, "--timeout", "60000"])
    used = broker.cpu_s() - before
    delete_topic(broker.address, name)
    heads, figures = (line.split(", ") for line in said.strip().splitlines()[:2])
    return sample_of(MANY, float(dict(zip(heads, figures, strict=True))["nMsg.sec"]), used * 1e6 / records)


def _jobs(broker: Asked, name: str, size: int, records: int) -> str:
    create_topic(broker.address, name, PARTITIONS, broker.count)
    set_config(broker.address, name, "share.auto.offset.reset", "earliest", of=GROUP)
    produce(broker.address, name, records, size, LARGE, keys=KEYS)  # without keys one partition may have nearly all
    return name


LIVED = (
    Figure("first join to stable", "s", "lower"),
    Figure("one more, to stable", "s", "lower"),
    Figure("one less, to stable", "s", "lower"),
    Figure("CPU of heartbeats", "%", "lower", own=1.5),
)
MEMBERS, EACH, STILL_S = 1_000, 2, 20.0


def assigned(effort: Effort) -> list[Line]:
    """P19: 1,000 members of the consumer protocol join at once, a connection each; then one more comes, and goes."""
    with both() as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "shared", EACH * MEMBERS)
        return compared(effort, "P19", LIVED, brokers, {"1,000 members, 2,000 partitions": _lived})


def _lived(broker: BrokerProcess, number: int) -> Sample:
    figures = Child(
        life, broker.address, broker.pid, "shared", f"lived-{number}", MEMBERS, EACH * MEMBERS, STILL_S
    ).result()
    return sample_of(LIVED, *figures)
