"""The questions, one function each: it takes how many runs to make and returns its measures.

Each starts a node of its own, warms the page cache by one run that is not counted (the first touch of memory can cost
ten times what a later one does), and takes the CPU time that the operating system accounts to the node's process.
"""

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final

from bench.compaction import beside_compaction, compaction
from bench.hand_over import hand_over, hand_over_groups, restarts
from bench.load import LARGE, ONE_BY_ONE, Load, Settings, produce, start_consuming
from bench.measure import Budget, Figures, Measure, percentile
from bench.process import AT_ONCE, BrokerProcess, CpuTimes, penstock_command, running_node, scratch
from bench.replication import failover, first_group, idle_replicas, ready_cluster, replicas, replication_modes, scaling
from bench.rights import rights
from bench.round_trip import ATTACKS, PACKED, REQUESTS_OF, SmallRequests, pack_records, round_trips_beside_ms
from bench.standstill import KINDS, standstills
from bench.storage_groups import storage_groups
from bench.topics import create_topic, delete_topic, fill
from bench.wire import Wire, first_record_at, framed
from bench.work import connectors
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest
from penstock.testing.quorum_view import wait_until

Question = Callable[[int], list[Measure]]


def boot(runs: int) -> list[Measure]:
    """How long until a new node answers, and what memory does it hold then? How long until three are ready?"""
    figures = Figures()
    for _ in figures.runs(runs):
        with running_node() as node:
            figures.add("boot to the first answer", "s", node.boot_s, Budget(1.0))
            figures.add("resident memory, idle", "MB", node.resident_mb, Budget(60))
    return figures.measures() + ready_cluster(runs)


def small_requests(runs: int) -> list[Measure]:
    """What does a produce request with one record of 100 B cost?"""
    figures = Figures()
    with running_node() as node:
        for load, cpu in produced(node, runs, 100_000, 100, ONE_BY_ONE):
            per_request = 1e6 / load.records
            figures.add("one record a request, 50 in flight", "requests/s", load.records_per_s)
            figures.add("user CPU per small produce request", "µs", cpu.user * per_request, Budget(25))
            figures.add("system CPU per small produce request", "µs", cpu.system * per_request)
    return figures.measures()


def small_requests_at_once(runs: int) -> list[Measure]:
    """What do a heartbeat cost, and a fetch of one partition that brings one record of 100 B?"""
    count, at_once, figures = 30_000, 50, Figures()
    with running_node(AT_ONCE) as node:
        requests = SmallRequests(node)
        for kind, bound in (("heartbeat", 9), ("fetch", 18), ("session fetch", 18)):
            for _ in figures.runs(runs):
                frames = REQUESTS_OF[kind](requests, count)
                before = node.cpu()
                requests.round_trips_ms(frames, at_once)
                used = (node.cpu() - before).user / count * 1e6
                figures.add(f"user CPU per small {kind}, {at_once} at once", "µs", used, Budget(bound))
        requests.close()
    return figures.measures()


def large_batches(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost, produced and fetched?"""
    figures = Figures()
    with running_node() as node:
        for kind, past, done in (
            ("produce", "produced", produced(node, runs, 500_000, 1000, LARGE)),
            ("fetch", "fetched", fetched(node, runs, 500_000, 1000)),
        ):
            for load, cpu in done:
                per_mb = 1e3 / load.megabytes
                figures.add(f"{kind}, 1000 B", "MB/s", load.mb_per_s)
                figures.add(f"user CPU per MB {past}", "ms", cpu.user * per_mb, Budget(0.5))
                figures.add(f"system CPU per MB {past}", "ms", cpu.system * per_mb)
    return figures.measures()


def records_a_second(runs: int) -> list[Measure]:
    """How many records of 100 B a second does one partition take, offered by one C client?"""
    figures = Figures()
    with running_node() as node:
        for load, cpu in produced(node, runs, 3_000_000, 100, LARGE):
            figures.add("produce, 100 B", "records/s", load.records_per_s, Budget(1e6, "at least"))
            figures.add("node's CPU share while it does", "%", cpu.total / load.seconds * 100)
    return figures.measures()


def round_trip(runs: int) -> list[Measure]:
    """How long does one small produce request take on an idle node?"""
    figures = Figures()
    with running_node() as node:
        requests = SmallRequests(node)
        for _ in figures.runs(runs):
            trips = requests.round_trips_ms(requests.produces(5_000))
            for percent, bound in ((50, 0.3), (99, 1.0)):
                figures.add(f"round trip, p{percent}", "ms", percentile(trips, percent), Budget(bound))
        requests.close()
    return figures.measures()


def many_partitions(runs: int) -> list[Measure]:
    """Does a request cost more where there are 10,000 partitions than where there are 10?"""
    cost: list[list[float]] = []
    figures = Figures()
    for partitions in (10, 10_000):
        with running_node() as node:
            create_topic(node.address, "others", partitions)
            done = produced(node, runs, 50_000, 100, ONE_BY_ONE)
            cost.append(sorted(cpu.total / load.records * 1e6 for load, cpu in done))
            for used in cost[-1]:
                figures.add(f"CPU per small request at {partitions:,} partitions", "µs", used)
            memory = node.resident_mb
    for few, many in zip(*cost, strict=True):
        figures.add("their ratio", "", many / few, Budget(1.2))
    figures.add("resident memory with 10,000 partitions", "MB", memory)
    return figures.measures()


def start(runs: int) -> list[Measure]:
    """How long does a node with very many empty partitions take to start, and what does that cost?"""
    return [one for count in (20_000, 50_000) for one in starts_with(count, runs)]


def starts_with(count: int, runs: int) -> list[Measure]:
    figures, part = Figures(), count / 50_000
    with scratch() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        fill(node.address, count)
        for stop in ["kill -9", "a clean stop"] * runs:
            node.kill() if stop == "kill -9" else node.stop()
            node = BrokerProcess(penstock_command, directory, {})
            name, seconds = f"start after {stop} with {count:,} partitions", first_record_at(node.address, limit_s=600)
            figures.add(name, "s", seconds - node.started, Budget(10 * part))
            figures.add(f"{name}, CPU", "s", node.cpu().total, Budget(3 * part))
        node.kill()
    return figures.measures()


def standstill(runs: int) -> list[Measure]:
    """How long does a group of ten stand still when a member joins, restarts or leaves?"""
    figures = Figures()
    with running_node(AT_ONCE) as node:
        for kind, number in product(KINDS, range(runs)):
            for event, found in standstills(node.address, f"{kind}-{number}", kind).items():
                figures.add(f"{kind} member {event}, group without a record", "s", found.group_s)
                figures.add(f"{kind} member {event}, worst partition", "s", found.partition_s)
    return figures.measures()


def neighbours(runs: int) -> list[Measure]:
    """How long does a small request take while another connection does its worst?"""
    figures = Figures()
    with running_node() as node:
        for topic in ("trips", PACKED):
            create_topic(node.address, topic)
        pack_records(node.address)
        for attack, _ in product(ATTACKS, range(runs)):
            p99 = percentile(round_trips_beside_ms(node.address, attack, 300), 99)
            figures.add(f"round trip beside {attack}, p99", "ms", p99, Budget(20))
    return figures.measures()


def produced(
    node: BrokerProcess, runs: int, records: int, size: int, settings: Settings
) -> Iterator[tuple[Load, CpuTimes]]:
    """To a topic of one partition, once to warm up and then `runs` times; the topic of the last run stays."""
    for number in range(runs + 1):
        topic = f"produced-{number}"
        create_topic(node.address, topic)
        before = node.cpu()
        load = produce(node.address, topic, records, size, settings)
        used = node.cpu() - before
        if number < runs:
            delete_topic(node.address, topic)
        if number > 0:
            yield load, used


def fetched(node: BrokerProcess, runs: int, records: int, size: int) -> Iterator[tuple[Load, CpuTimes]]:
    """From the last produce run, once to warm up and then `runs` times."""
    for number in range(runs + 1):
        before = node.cpu()
        load = start_consuming(node.address, f"produced-{runs}", records, size, {}).result()
        if number > 0:
            yield load, node.cpu() - before


GROUPS: Final = 1_000
PARTITIONS: Final = 100
TIMES: Final = 100
"""How often each group commits its offset in all partitions: ten million commits."""
TOPIC: Final = "read"
COMMIT_VERSION, FETCH_VERSION = 7, 7
FRAMES_AT_ONCE: Final = 50
LIMIT_S: Final = 60.0


def loading(runs: int) -> list[Measure]:
    """How long is it from the start of a process until all groups have been told what they committed?"""
    figures = Figures()
    name = f"start until {GROUPS:,} groups are served, {GROUPS * PARTITIONS * TIMES:,} commits behind them"
    with scratch() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        create_topic(node.address, TOPIC, PARTITIONS)
        _commit_all(node)
        for _ in figures.runs(runs):
            node.stop()
            node = BrokerProcess(penstock_command, directory, {})
            _ask_all(node)
            seconds = time.perf_counter() - node.started
            figures.add(name, "s", seconds, Budget(3))
            figures.add(f"{name}, CPU", "s", node.cpu().total)
        node.stop()
    return figures.measures()


def _commit_all(node: BrokerProcess) -> None:
    with Wire(node.address) as wire:
        _until_served(wire, _name(0))
        for number in range(TIMES):
            frame = _commit(_name(0), number)
            for first in range(0, GROUPS, FRAMES_AT_ONCE):
                names = [_name(group) for group in range(first, first + FRAMES_AT_ONCE)]
                frames = [frame.replace(_name(0).encode(), name.encode()) for name in names]
                wire.round_trip_ms(b"".join(frames), FRAMES_AT_ONCE)


def _ask_all(node: BrokerProcess) -> None:
    with Wire(node.address) as wire:
        for group in range(GROUPS):
            found = _until_served(wire, _name(group))
            offsets = {one.partition_index: one.committed_offset for topic in found.topics for one in topic.partitions}
            if offsets != {index: _offset(index, TIMES - 1) for index in range(PARTITIONS)}:
                raise RuntimeError(f"{_name(group)} has lost what it committed: {offsets}")


def _until_served(wire: Wire, group: str) -> Any:
    def look() -> Any:
        found = wire.ask(OffsetFetchRequest(group_id=group, topics=None), FETCH_VERSION)
        return found if found.error_code == ErrorCode.NONE else None

    return wait_until(look, LIMIT_S, f"{group} is served")


def _commit(group: str, number: int) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=_offset(index, number))
        for index in range(PARTITIONS)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return framed(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)


def _name(group: int) -> str:
    return f"group-{group:03}"


def _offset(index: int, number: int) -> int:
    return 1_000_000 * index + 1_000 * number


QUESTIONS: dict[str, Question] = {
    "boot": boot,
    "small-requests": small_requests,
    "at-once": small_requests_at_once,
    "large-batches": large_batches,
    "records": records_a_second,
    "round-trip": round_trip,
    "partitions": many_partitions,
    "neighbours": neighbours,
    "rights": rights,
    "start": start,
    "loading": loading,
    "standstill": standstill,
    "scaling": scaling,
    "replicas": replicas,
    "idle-replicas": idle_replicas,
    "failover": failover,
    "handover": hand_over,
    "handover-groups": hand_over_groups,
    "restarts": restarts,
    "first-group": first_group,
    "compaction": compaction,
    "beside-compaction": beside_compaction,
    "storage-groups": storage_groups,
    "replication-modes": replication_modes,
    "work": connectors,
}
