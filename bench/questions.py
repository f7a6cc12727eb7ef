"""The questions, one function each: it takes how many runs to make and returns its measures.

Each starts a node of its own, warms the page cache by one run that is not counted (the first touch of memory can cost
ten times what a later one does), and takes the CPU time that the operating system accounts to the node's process.
"""

import statistics
from collections.abc import Callable, Iterator

from bench.compaction import beside_compaction, compaction
from bench.drills.full_node import fill, node_directory, started
from bench.failover import failover
from bench.first_group import first_group
from bench.hand_over import hand_over
from bench.hand_over_groups import hand_over_groups
from bench.idle_replicas import idle_replicas
from bench.load import LARGE, Load, create_topic, delete_topic, run
from bench.loading import loading
from bench.measure import Budget, Measure, measure
from bench.neighbours import ATTACKS, TOPIC, pack_records, round_trips_beside_ms
from bench.node import penstock_command, running_node
from bench.process import BrokerProcess as Node
from bench.process import CpuTimes
from bench.ready_cluster import ready_cluster
from bench.replicas import replicas
from bench.replication_modes import replication_modes
from bench.restarts import restarts
from bench.round_trip import REQUESTS_OF, SmallRequests
from bench.scaling import scaling
from bench.standstill import KINDS, Standstill, standstills
from bench.storage_groups import storage_groups
from bench.work import connectors

ONE_RECORD_A_REQUEST = {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight.requests.per.connection": 50}
Question = Callable[[int], list[Measure]]


def boot(runs: int) -> list[Measure]:
    """How long until a new node answers, and what memory does it hold then? How long until three are ready?"""
    seconds, megabytes = [], []
    for _ in range(runs + 1):
        with running_node() as node:
            seconds.append(node.boot_s)
            megabytes.append(node.resident_mb)
    return [
        measure("boot to the first answer", "s", seconds[1:], Budget(1.0)),
        measure("resident memory, idle", "MB", megabytes[1:], Budget(60)),
        *ready_cluster(runs),
    ]


def small_requests(runs: int) -> list[Measure]:
    """What does a produce request with one record of 100 B cost?"""
    records = 100_000
    with running_node() as node:
        done = list(produce_runs(node, runs, records=records, size=100, **ONE_RECORD_A_REQUEST))
    return [
        measure("one record a request, 50 in flight", "requests/s", [load.records_per_s for load, _ in done]),
        measure("user CPU per small produce request", "µs", [cpu.user / records * 1e6 for _, cpu in done], Budget(25)),
        measure("system CPU per small produce request", "µs", [cpu.system / records * 1e6 for _, cpu in done]),
    ]


def small_requests_at_once(runs: int) -> list[Measure]:
    """What do a heartbeat cost, and a fetch of one partition that brings one record of 100 B?"""
    count, at_once = 30_000, 50
    found: list[Measure] = []
    with running_node(group_initial_rebalance_delay_ms="0") as node:
        requests = SmallRequests(node)
        for kind, bound in (("heartbeat", 9), ("fetch", 18), ("session fetch", 18)):
            used = []
            for _ in range(runs + 1):
                frames = REQUESTS_OF[kind](requests, count)
                before = node.cpu()
                requests.round_trips_ms(frames, at_once)
                used.append(node.cpu_since(before).user / count * 1e6)
            found.append(measure(f"user CPU per small {kind}, {at_once} at once", "µs", used[1:], Budget(bound)))
        requests.close()
    return found


def large_batches(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost, produced and fetched?"""
    records, size = 500_000, 1000
    megabytes = records * size / 1e6
    with running_node() as node:
        done = list(produce_runs(node, runs, records=records, size=size, **LARGE))
        fetched = list(fetch_runs(node, runs, records=records, size=size))
    return [
        measure("produce, 1000 B", "MB/s", [load.mb_per_s for load, _ in done]),
        measure("user CPU per MB produced", "ms", [cpu.user / megabytes * 1e3 for _, cpu in done], Budget(0.5)),
        measure("system CPU per MB produced", "ms", [cpu.system / megabytes * 1e3 for _, cpu in done]),
        measure("fetch, 1000 B", "MB/s", [load.mb_per_s for load, _ in fetched]),
        measure("user CPU per MB fetched", "ms", [cpu.user / megabytes * 1e3 for _, cpu in fetched], Budget(0.5)),
        measure("system CPU per MB fetched", "ms", [cpu.system / megabytes * 1e3 for _, cpu in fetched]),
    ]


def records_a_second(runs: int) -> list[Measure]:
    """How many records of 100 B a second does one partition take, offered by one C client?"""
    with running_node() as node:
        done = list(produce_runs(node, runs, records=3_000_000, size=100, **LARGE))
    return [
        measure("produce, 100 B", "records/s", [load.records_per_s for load, _ in done], Budget(1e6, "at least")),
        measure("node's CPU share while it does", "%", [share_percent(load, cpu) for load, cpu in done]),
    ]


def round_trip(runs: int) -> list[Measure]:
    """How long does one small produce request take on an idle node?"""
    with running_node() as node:
        requests = SmallRequests(node)
        samples = [sorted(requests.round_trips_ms(requests.produces(5_000))) for _ in range(runs + 1)][1:]
        requests.close()
    return [
        measure("round trip, p50", "ms", [statistics.median(trips) for trips in samples], Budget(0.3)),
        measure("round trip, p99", "ms", [trips[len(trips) * 99 // 100] for trips in samples], Budget(1.0)),
    ]


def many_partitions(runs: int) -> list[Measure]:
    """Does a request cost more where there are 10,000 partitions than where there are 10?"""
    records = 50_000
    cost: dict[int, list[float]] = {}
    memory: dict[int, float] = {}
    for partitions in (10, 10_000):
        with running_node() as node:
            create_topic(node.address, "others", partitions)
            done = list(produce_runs(node, runs, records=records, size=100, **ONE_RECORD_A_REQUEST))
            cost[partitions] = [(cpu.user + cpu.system) / records * 1e6 for _, cpu in done]
            memory[partitions] = node.resident_mb
    ratios = [many / few for many, few in zip(sorted(cost[10_000]), sorted(cost[10]), strict=True)]
    return [
        measure("CPU per small request at 10 partitions", "µs", cost[10]),
        measure("CPU per small request at 10,000 partitions", "µs", cost[10_000]),
        measure("their ratio", "", ratios, Budget(1.2)),
        measure("resident memory with 10,000 partitions", "MB", [memory[10_000]]),
    ]


def start(runs: int) -> list[Measure]:
    """How long does a node with very many empty partitions take to start, and what does that cost?"""
    return [one for count in (20_000, 50_000) for one in starts_with(count, runs)]


def starts_with(count: int, runs: int) -> list[Measure]:
    """Starts after kill -9 and after a clean stop, in turns."""
    seconds: dict[str, list[float]] = {"kill -9": [], "a clean stop": []}
    used: dict[str, list[float]] = {stop: [] for stop in seconds}
    with node_directory() as directory:
        node = Node(penstock_command, directory, {})
        fill(node.address, count)
        for stop in [*seconds] * runs:
            node.kill() if stop == "kill -9" else node.stop()
            node, took_s = started(directory)
            seconds[stop].append(took_s)
            used[stop].append(node.cpu().total)
        node.kill()
    return [
        one
        for stop in seconds
        for one in (
            measure(f"start after {stop} with {count:,} partitions", "s", seconds[stop], Budget(10 * count / 50_000)),
            measure(f"start after {stop} with {count:,} partitions, CPU", "s", used[stop], Budget(3 * count / 50_000)),
        )
    ]


def standstill(runs: int) -> list[Measure]:
    """How long does a group of ten stand still when a member joins, restarts or leaves?"""
    found: dict[tuple[str, str], list[Standstill]] = {}
    with running_node(group_initial_rebalance_delay_ms="0") as node:
        for kind in KINDS:
            for number in range(runs):
                for event, figures in standstills(node.address, f"{kind}-{number}", kind).items():
                    found.setdefault((kind, event), []).append(figures)
    return [
        one
        for (kind, event), figures in found.items()
        for one in (
            measure(f"{kind} member {event}, group without a record", "s", [each.group_s for each in figures]),
            measure(f"{kind} member {event}, worst partition", "s", [each.partition_s for each in figures]),
        )
    ]


def neighbours(runs: int) -> list[Measure]:
    """How long does a small request take while another connection does its worst?"""
    found: dict[str, list[float]] = {}
    with running_node() as node:
        for topic in ("trips", TOPIC):
            create_topic(node.address, topic)
        pack_records(node.port)
        for attack in ATTACKS:
            for _ in range(runs):
                trips = round_trips_beside_ms(node.port, attack, 300)
                found.setdefault(attack, []).append(trips[len(trips) * 99 // 100])
    return [measure(f"round trip beside {attack}, p99", "ms", p99, Budget(20)) for attack, p99 in found.items()]


QUESTIONS: dict[str, Question] = {
    "boot": boot,
    "small-requests": small_requests,
    "at-once": small_requests_at_once,
    "large-batches": large_batches,
    "records": records_a_second,
    "round-trip": round_trip,
    "partitions": many_partitions,
    "neighbours": neighbours,
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


def produce_runs(
    node: Node, runs: int, *, records: int, size: int, **settings: str | int
) -> Iterator[tuple[Load, CpuTimes]]:
    """Produce to a topic of one partition, once to warm up and then `runs` times; the topic of the last run stays."""
    for number in range(runs + 1):
        topic = f"produced-{number}"
        create_topic(node.address, topic)
        before = node.cpu()
        load = run("produce", node.address, topic, records=records, size=size, **settings)
        used = node.cpu_since(before)
        if number < runs:
            delete_topic(node.address, topic)
        if number > 0:
            yield load, used


def fetch_runs(node: Node, runs: int, *, records: int, size: int) -> Iterator[tuple[Load, CpuTimes]]:
    """Fetch what the last produce run left, once to warm up and then `runs` times."""
    for number in range(runs + 1):
        before = node.cpu()
        load = run("consume", node.address, f"produced-{runs}", records=records, size=size)
        if number > 0:
            yield load, node.cpu_since(before)


def share_percent(load: Load, cpu: CpuTimes) -> float:
    """The share of one core that the node used while the load ran."""
    return (cpu.user + cpu.system) / load.seconds * 100
