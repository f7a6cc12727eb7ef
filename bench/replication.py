"""What replicas, nodes and clusters cost and bring, and what acks=all costs on three nodes by the way of replication.

Producers wait for each answer before they send the next batch, which has one record of 1 KB. Leaders are all on one
node, for a storage group has one. The three nodes and their clients share the machine and its disk.
"""

import asyncio
import contextlib
import os
import statistics
import time
from itertools import product
from typing import Final

from rich.console import Console

from bench.child import Child
from bench.load import LARGE, ONE_BY_ONE, Settings, produce
from bench.measure import Budget, Figures, Measure, measure, percentile
from bench.process import AS_INSTALLED, CpuTimes, cpu_of
from bench.shares import held_to
from bench.topics import batches, create_topic, delete_topic, end_of, fill, leaders_of
from bench.versus.questions.three_nodes import ERRORS, FEW, GROWTH, HELD_UP, LOST, MANY, TWICE, VICTIMS, ask_one
from bench.versus.systems import NODES, PENSTOCK, Effort, three_nodes
from bench.wire import produce_frame
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

LEADER, FOLLOWER = 1, 2
RECORDS, SIZE = 500_000, 1000
LIMIT_S: Final = 120.0
SHARE: Final = 0.2
"""Of one processor: three nodes and the client fit on two."""
RECORDS_A_NODE: Final = 20_000
SPREAD: Final[Settings] = {**ONE_BY_ONE, "sticky.partitioning.linger.ms": 0}
CASES: Final = ((1, 1), (1, 6), (2, 6), (3, 6))
"""Nodes, and partitions on them."""


def replicas(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost a follower, and its leader beyond producing them?"""
    figures, per_mb = Figures(), 1e3 / (RECORDS * SIZE / 1e6)
    with Cluster(brokers=2, controllers=1, process=True) as cluster:
        for number in figures.runs(runs):
            alone, _ = _used(cluster, f"alone-{number}", [LEADER])
            leader, follower = _used(cluster, f"copied-{number}", [LEADER, FOLLOWER])
            beyond = leader - alone
            figures.add("user CPU per MB on a follower", "ms", follower.user * per_mb, Budget(0.35))
            figures.add("system CPU per MB on a follower", "ms", follower.system * per_mb)
            figures.add("user CPU per MB on its leader, beyond produce", "ms", beyond.user * per_mb, Budget(0.25))
            figures.add("system CPU per MB on its leader, beyond produce", "ms", beyond.system * per_mb)
    return figures.measures()


def _used(cluster: Cluster, topic: str, places: list[int]) -> list[CpuTimes]:
    """CPU seconds of the leader and of the follower from the first record until all have all of them."""
    address = cluster.bootstrap_servers
    create_topic(address, topic, config={"min.insync.replicas": "1"}, places=[places])
    pids = [cluster.node(node).pid for node in (LEADER, FOLLOWER)]
    before = [cpu_of(pid) for pid in pids]
    produce(address, topic, RECORDS, SIZE, LARGE)
    end = end_of(address, topic)
    wait_until(lambda: end() >= RECORDS or None, LIMIT_S, f"{topic} is committed")
    used = [cpu_of(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
    delete_topic(address, topic)
    return used


def scaling(runs: int) -> list[Measure]:
    """What do more partitions and more nodes bring, where each node has the same share of a processor?"""
    rates = {case: sorted(_rates(*case, runs)) for case in CASES}
    _, one, two, three = rates.values()
    figures = Figures()
    for (nodes, partitions), found in rates.items():
        name = f"{nodes} node{'s' * (nodes > 1)}, {partitions} partition{'s' * (partitions > 1)}, at {SHARE:.0%} each"
        for rate in found:
            figures.add(name, "requests/s", rate)
    gained = [(two, "two nodes by one, six partitions", 1.5), (three, "three nodes by one, six partitions", 2.2)]
    return figures.measures() + [
        measure(name, "", [more / few for more, few in zip(many, one, strict=True)], Budget(bound, "at least"))
        for many, name, bound in gained
    ]


def _rates(nodes: int, partitions: int, runs: int) -> list[float]:
    """Requests a second, after a warm-up run."""
    found: list[float] = []
    with Cluster(nodes=nodes, process=True) as cluster:
        address = cluster.bootstrap_servers
        pids = [node.pid for node in cluster.nodes if node.pid is not None]
        for number in range(runs + 1):
            create_topic(address, f"scaling-{number}", partitions)
            with held_to(SHARE, pids):
                load = produce(address, f"scaling-{number}", RECORDS_A_NODE * nodes, 100, SPREAD)
            found.append(load.records_per_s)
    return found[1:]


SECONDS: Final = 2.0
BEFORE_S: Final = 0.5
"""How long the load runs before it counts."""
VALUE: Final = os.urandom(1000)
LOADS: Final = ((1, 1), (1, 12), (12, 12), (12, 100))
"""Topics, and producers."""
MODES: Final[dict[str, dict[str, str]]] = {
    "ISR": {"min.insync.replicas": "2"},
    "ISR, flush.messages=1": {"min.insync.replicas": "2", "flush.messages": "1"},
    "consensus": {"replication.mode": "consensus", "storage.group": "0"},
}
CONSENSUS: Final = "consensus"
LINGERS_MS: Final = (0, 2, 10)
LINGERING: Final = (12, 12)
TAKEN_LIMIT_S: Final = 60.0
LOOK_S: Final = 0.05


def replication_modes(runs: int) -> list[Measure]:
    """How many batches with acks=all do three nodes take, and how long does each wait, by how they are replicated?"""
    figures = Figures()
    for linger_ms in LINGERS_MS:
        with Cluster(nodes=3, process=True, config={"propose.linger.ms": str(linger_ms)}) as cluster:
            for mode, load in product(MODES, LOADS) if not linger_ms else [(CONSENSUS, LINGERING)]:
                topics, producers = load
                name = f"{mode}, {topics} topics, {producers} producers" + f", linger {linger_ms} ms" * (linger_ms > 0)
                for waits, per_proposal in _loads(cluster, mode, load, runs):
                    figures.add(name, "batches/s", len(waits) / SECONDS)
                    figures.add(f"{name}, p50", "ms", statistics.median(waits) * 1e3)
                    figures.add(f"{name}, p99", "ms", percentile(waits, 99) * 1e3)
                    if mode == CONSENSUS:
                        figures.add(f"{name}, batches in a proposal", "", per_proposal)
    return figures.measures()


Load = tuple[list[float], float]
"""The wait of each batch, in seconds; and the records of a proposal, for consensus."""


def _loads(cluster: Cluster, mode: str, load: tuple[int, int], runs: int) -> list[Load]:
    (count, producers), config = load, MODES[mode]
    names = [f"{mode.partition(',')[0].lower()}-{len(config)}-{count}-{producers}-{index}" for index in range(count)]
    for name in names:
        create_topic(cluster.bootstrap_servers, name, 1, 3, config, places=() if mode == CONSENSUS else [[1, 2, 3]])
    address = wait_until(lambda: _leader(cluster, names), TAKEN_LIMIT_S, "a leader of all topics")
    frames = [produce_frame(names[index % count], VALUE, acks=-1) for index in range(producers)]
    return [asyncio.run(_load(cluster, address, frames)) for _ in range(runs)]


def _leader(cluster: Cluster, names: list[str]) -> str | None:
    leaders = {leaders_of(cluster.bootstrap_servers, name).get(0, -1) for name in names}
    return None if -1 in leaders or len(leaders) > 1 else cluster.node(leaders.pop()).address


async def _load(cluster: Cluster, address: str, frames: list[bytes]) -> Load:
    await asyncio.gather(*(_until_taken(address, frame) for frame in frames))
    before, waits = _proposed(cluster), list[tuple[float, float]]()
    begun = time.perf_counter()
    ends = begun + BEFORE_S + SECONDS
    await asyncio.gather(*(_produce(address, frame, ends, waits) for frame in frames))
    counted = [took for at, took in waits if begun + BEFORE_S <= at < ends]
    entries, proposals = (after - earlier for after, earlier in zip(_proposed(cluster), before, strict=True))
    return counted, entries / max(proposals, 1)


async def _produce(address: str, frame: bytes, ends: float, waits: list[tuple[float, float]]) -> None:
    """One batch after the other; when each was answered, and how long it took."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    at = time.perf_counter()
    while at < ends:
        code = await _ask(reader, writer, frame)
        if code is not ErrorCode.NONE:
            raise RuntimeError(f"a batch was refused: {code.name}")
        at, since = time.perf_counter(), at
        waits.append((at, at - since))
    writer.close()


async def _until_taken(address: str, frame: bytes) -> None:
    """A topic is not there at once, and comes into its group a moment later."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(TAKEN_LIMIT_S):
        while await _ask(reader, writer, frame) is not ErrorCode.NONE:
            await asyncio.sleep(LOOK_S)
    writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> ErrorCode:
    """The error of the only partition: it stands behind the topic's name, a count and an index."""
    writer.write(frame)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    end_of_name = 6 + answer[6]
    return ErrorCode(int.from_bytes(answer[end_of_name + 5 : end_of_name + 7], "big", signed=True))


def _proposed(cluster: Cluster) -> tuple[int, int]:
    """Records and batches in the log of the storage group, on the disk of a node."""
    counts = []
    with contextlib.suppress(IndexError, ValueError):
        for header, _ in batches(cluster.nodes[0].directory / "__storage_group-0"):
            if not header.is_control:
                counts.append(header.record_count)
    return sum(counts), len(counts)


PARTITIONS: Final = 12
SOON: Final = ProducerSettings(retry_backoff_ms=5, retry_backoff_max_ms=5)
"""How soon a client asks again that is told to wait."""
IDLE: Final = 10_000
LOOKED_AT_S: Final = 10.0


def ready_cluster(runs: int) -> list[Measure]:
    """How long until a cluster of three for tests has started, and all its topics are replicated?"""
    found = [Child(_ready).result() for _ in range(runs + 1)][1:]
    started_s, replicated_s, used_s = zip(*found, strict=True)
    return [
        measure("Cluster(nodes=3) has started", "s", started_s),
        measure("Cluster(nodes=3) is ready, every topic replicated", "s", replicated_s, Budget(2.0)),
        measure("Cluster(nodes=3) is ready, CPU", "s", used_s),
    ]


def _ready() -> tuple[float, float, float]:
    """Seconds until it has started, seconds until all is replicated, and the CPU time of that: nodes are threads here.

    A topic is created, a record acknowledged by all replicas, and a group's offset committed, so that
    `__consumer_offsets` exists as well; then each partition has all nodes in sync.
    """
    begun_s, used_s = time.perf_counter(), time.process_time()
    with Cluster(nodes=len(NODES)) as cluster:
        started_s = time.perf_counter() - begun_s
        asyncio.run(_wait_until_replicated(cluster.bootstrap_servers))
        return started_s, time.perf_counter() - begun_s, time.process_time() - used_s


async def _wait_until_replicated(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.topics.create(NewTopic(name="first", partitions=PARTITIONS))
        await producer.send_and_wait("first", b"x")
        await admin.groups.set_offsets("group", {TopicPartition("first", 0): OffsetAndMetadata(0)})
        while True:
            topics = await admin.topics.describe()
            in_sync = [len(one.isr) for topic in topics for one in topic.partitions.values()]
            if len(topics) == 2 and min(in_sync) == len(NODES):
                return
            await asyncio.sleep(0.005)


def first_group(runs: int) -> list[Measure]:
    """How long after a topic was asked for is its first record acknowledged, where a storage group begins with it?"""
    with Cluster(nodes=3, process=True, config=AS_INSTALLED) as cluster:
        return asyncio.run(_first_records(cluster.bootstrap_servers, runs))


async def _first_records(bootstrap: str, runs: int) -> list[Measure]:
    figures = Figures()
    async with Admin(bootstrap) as admin, Producer(bootstrap, SOON) as producer:
        for number in figures.runs(runs):
            configs = {"replication.mode": "consensus", "storage.group": str(number)}
            begun_s = time.perf_counter()
            await admin.topics.create(NewTopic(name=f"topic-{number}", replication_factor=3, configs=configs))
            made_s = time.perf_counter()
            await producer.send_and_wait(f"topic-{number}", b"x")
            acknowledged_s = time.perf_counter()
            figures.add("until the topic is made, with its group", "ms", (made_s - begun_s) * 1000)
            figures.add("until its first record is acknowledged", "ms", (acknowledged_s - begun_s) * 1000)
            await asyncio.sleep(1)
    return figures.measures()


def idle_replicas(runs: int) -> list[Measure]:
    """What does a node use that holds 10,000 partitions of three replicas each, which nobody writes to?"""
    figures, name = Figures(), f"a node that holds {IDLE:,} idle replicas"
    with three_nodes(PENSTOCK) as nodes:
        fill(nodes.address, IDLE, len(NODES), waits=True)
        brokers = nodes.brokers.values()
        for _ in figures.runs(runs):
            before, begun = [broker.cpu() for broker in brokers], time.perf_counter()
            time.sleep(LOOKED_AT_S)
            seconds = time.perf_counter() - begun
            used = max((broker.cpu() - earlier).total for broker, earlier in zip(brokers, before, strict=True))
            most = max(broker.resident_mb for broker in brokers)
            figures.add(f"CPU of {name}: that which uses most", "%", used / seconds * 100, Budget(4.0))
            figures.add(f"resident memory of {name}: that which has most", "MB", most, Budget(90.0))
    return figures.measures()


def failover(runs: int) -> list[Measure]:
    """How long is a producer held up when a leader, or the active controller, is killed: 100 and 10,000 partitions?"""
    effort = Effort(runs, 1.0, Console())
    found = {count: ask_one(effort, PENSTOCK, count) for count in (FEW, MANY)}
    measures: list[Measure] = []
    for victim in VICTIMS:
        waits = {count: [sample[HELD_UP.name] for sample in samples[victim]] for count, samples in found.items()}
        name = f"{victim} killed"
        measures += [measure(f"producer held up, {name}, {count:,} partitions", "s", waits[count]) for count in waits]
        growth = [many / few for few, many in zip(waits[FEW], waits[MANY], strict=True)]
        bound = Budget(GROWTH.own or 0)
        measures.append(measure(f"with many partitions, of that with few, {name}", "×", growth, bound))
    rounds = [sample for samples in found.values() for of_victim in samples.values() for sample in of_victim]
    for figure in (ERRORS, LOST, TWICE):
        name = f"{figure.name}, {len(rounds)} kills"
        measures.append(measure(name, "", [sum(one[figure.name] for one in rounds)], Budget(0)))
    return measures
