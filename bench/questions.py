"""The questions, one function each: it takes how many runs to make and returns its measures.

Each starts a node of its own, warms the page cache by one run that is not counted (the first touch of memory can cost
ten times what a later one does), and takes the CPU time that the operating system accounts to the node's process.
"""

from collections.abc import Callable, Iterator

from bench.compaction import beside_compaction, compaction
from bench.failover import failover
from bench.first_group import first_group
from bench.first_record import first_record_at
from bench.hand_over import hand_over
from bench.hand_over_groups import hand_over_groups
from bench.idle_replicas import idle_replicas
from bench.load import LARGE, ONE_BY_ONE, Load, Settings, produce, start_consuming
from bench.loading import loading
from bench.measure import Budget, Measure, measure, percentile
from bench.neighbours import ATTACKS, TOPIC, pack_records, round_trips_beside_ms
from bench.node import AT_ONCE, penstock_command, running_node, scratch
from bench.process import BrokerProcess, CpuTimes
from bench.ready_cluster import ready_cluster
from bench.replicas import replicas
from bench.replication_modes import replication_modes
from bench.restarts import restarts
from bench.round_trip import REQUESTS_OF, SmallRequests
from bench.scaling import scaling
from bench.standstill import KINDS, standstills
from bench.storage_groups import storage_groups
from bench.topics import create_topic, delete_topic, fill
from bench.work import connectors

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
    with running_node() as node:
        done = list(produced(node, runs, 100_000, 100, ONE_BY_ONE))
    return [
        measure("one record a request, 50 in flight", "requests/s", [load.records_per_s for load, _ in done]),
        measure("user CPU per small produce request", "µs", [cpu.user / 0.1 for _, cpu in done], Budget(25)),
        measure("system CPU per small produce request", "µs", [cpu.system / 0.1 for _, cpu in done]),
    ]


def small_requests_at_once(runs: int) -> list[Measure]:
    """What do a heartbeat cost, and a fetch of one partition that brings one record of 100 B?"""
    count, at_once = 30_000, 50
    found: list[Measure] = []
    with running_node(AT_ONCE) as node:
        requests = SmallRequests(node)
        for kind, bound in (("heartbeat", 9), ("fetch", 18), ("session fetch", 18)):
            used = []
            for _ in range(runs + 1):
                frames = REQUESTS_OF[kind](requests, count)
                before = node.cpu()
                requests.round_trips_ms(frames, at_once)
                used.append((node.cpu() - before).user / count * 1e6)
            found.append(measure(f"user CPU per small {kind}, {at_once} at once", "µs", used[1:], Budget(bound)))
        requests.close()
    return found


def large_batches(runs: int) -> list[Measure]:
    """What do 500 MB of 1000 B records in batches of 1 MB cost, produced and fetched?"""
    with running_node() as node:
        done = {
            ("produce", "produced"): list(produced(node, runs, 500_000, 1000, LARGE)),
            ("fetch", "fetched"): list(fetched(node, runs, 500_000, 1000)),
        }
    return [
        one
        for (kind, past), found in done.items()
        for one in (
            measure(f"{kind}, 1000 B", "MB/s", [load.mb_per_s for load, _ in found]),
            measure(
                f"user CPU per MB {past}", "ms", [cpu.user / load.megabytes * 1e3 for load, cpu in found], Budget(0.5)
            ),
            measure(f"system CPU per MB {past}", "ms", [cpu.system / load.megabytes * 1e3 for load, cpu in found]),
        )
    ]


def records_a_second(runs: int) -> list[Measure]:
    """How many records of 100 B a second does one partition take, offered by one C client?"""
    with running_node() as node:
        done = list(produced(node, runs, 3_000_000, 100, LARGE))
    return [
        measure("produce, 100 B", "records/s", [load.records_per_s for load, _ in done], Budget(1e6, "at least")),
        measure("node's CPU share while it does", "%", [cpu.total / load.seconds * 100 for load, cpu in done]),
    ]


def round_trip(runs: int) -> list[Measure]:
    """How long does one small produce request take on an idle node?"""
    with running_node() as node:
        requests = SmallRequests(node)
        samples = [requests.round_trips_ms(requests.produces(5_000)) for _ in range(runs + 1)][1:]
        requests.close()
    return [
        measure(f"round trip, p{percent}", "ms", [percentile(trips, percent) for trips in samples], Budget(bound))
        for percent, bound in ((50, 0.3), (99, 1.0))
    ]


def many_partitions(runs: int) -> list[Measure]:
    """Does a request cost more where there are 10,000 partitions than where there are 10?"""
    cost: dict[int, list[float]] = {}
    memory: dict[int, float] = {}
    for partitions in (10, 10_000):
        with running_node() as node:
            create_topic(node.address, "others", partitions)
            cost[partitions] = [cpu.total / 0.05 for _, cpu in produced(node, runs, 50_000, 100, ONE_BY_ONE)]
            memory[partitions] = node.resident_mb
    ratios = [many / few for many, few in zip(sorted(cost[10_000]), sorted(cost[10]), strict=True)]
    return [
        *(measure(f"CPU per small request at {count:,} partitions", "µs", used) for count, used in cost.items()),
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
    with scratch() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        fill(node.address, count)
        for stop in [*seconds] * runs:
            node.kill() if stop == "kill -9" else node.stop()
            node = BrokerProcess(penstock_command, directory, {})
            seconds[stop].append(first_record_at(node.address, limit_s=600) - node.started)
            used[stop].append(node.cpu().total)
        node.kill()
    part = count / 50_000
    return [
        one
        for stop in seconds
        for name in [f"start after {stop} with {count:,} partitions"]
        for one in (
            measure(name, "s", seconds[stop], Budget(10 * part)),
            measure(f"{name}, CPU", "s", used[stop], Budget(3 * part)),
        )
    ]


def standstill(runs: int) -> list[Measure]:
    """How long does a group of ten stand still when a member joins, restarts or leaves?"""
    with running_node(AT_ONCE) as node:
        found = {
            kind: [standstills(node.address, f"{kind}-{number}", kind) for number in range(runs)] for kind in KINDS
        }
    return [
        measure(f"{kind} member {event}, {what}", "s", [one[event][index] for one in done])
        for kind, done in found.items()
        for event in done[0]
        for index, what in enumerate(("group without a record", "worst partition"))
    ]


def neighbours(runs: int) -> list[Measure]:
    """How long does a small request take while another connection does its worst?"""
    with running_node() as node:
        for topic in ("trips", TOPIC):
            create_topic(node.address, topic)
        pack_records(node.address)
        found = {
            attack: [percentile(round_trips_beside_ms(node.address, attack, 300), 99) for _ in range(runs)]
            for attack in ATTACKS
        }
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


def produced(
    node: BrokerProcess, runs: int, records: int, size: int, settings: Settings
) -> Iterator[tuple[Load, CpuTimes]]:
    """Produce to a topic of one partition, once to warm up and then `runs` times; the topic of the last run stays."""
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
    """Fetch what the last produce run left, once to warm up and then `runs` times."""
    for number in range(runs + 1):
        before = node.cpu()
        load = start_consuming(node.address, f"produced-{runs}", records, size, {}).result()
        if number > 0:
            yield load, node.cpu() - before
