"""The drills: each is a function that takes the number of rounds and returns what it measured."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.balance import balanced_again
from bench.drills.creations import Creations, delete, flaws, topics_of
from bench.drills.curves import curves
from bench.drills.full_node import measured as full_node_measured
from bench.drills.hand_overs import killed_in_hand_overs
from bench.drills.moves import lost_data, moved_partitions
from bench.drills.replication import DrillError, killed_nodes, paused_leader, rolling_restart
from bench.drills.spark_cluster import spark_cluster_killed
from bench.drills.stale_write import REFUSALS, StaleWrite
from bench.drills.storage_groups import killed_groups, paused_group_leader
from bench.drills.workers import workers_with_tasks
from bench.measure import Budget, Measure, measure
from penstock.testing import Cluster

FETCH_TIMEOUT_S = 2.0
KAFKA_DEFAULTS = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.fetch.timeout.ms": f"{FETCH_TIMEOUT_S * 1000:.0f}",
    "controller.quorum.request.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
"""A cluster for tests elects faster; here the time-outs are those of an installation."""

TOPICS = 1000
FEW, MANY = 100, 10_000
TOPICS_PER_REQUEST = 500
SNAPSHOT_BYTES = 1_000_000
SECONDS_FOR_A_NODE = 60.0
PLOT = Path(__file__).parents[2] / "docs" / "performance" / "partitions.svg"


def killed_controller(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of the active controller under a stream of 1,000 topic creations, again and again in one cluster."""
    took, repeated = [], 0
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in range(rounds):
            with Creations(cluster.bootstrap_servers, f"round-{number}", TOPICS) as creations:
                creations.wait_for(TOPICS // 4)
                victim = cluster.wait_for_controller()
                begun = time.monotonic()
                cluster.node(victim).kill()
                successor = cluster.wait_for_controller(other_than=victim)
                took.append(time.monotonic() - begun)
                creations.finish()
                cluster.node(victim).start()
                _expect_no_flaws(cluster, creations.names)
                repeated += creations.repeated
                delete(cluster.bootstrap_servers, creations.names)
                say(f"round {number + 1}: {victim} killed, {successor} leads after {took[-1]:.2f} s, nothing is lost")
    return [
        measure("next controller after kill -9", "s", took, Budget(2 * FETCH_TIMEOUT_S)),
        measure("longest of all rounds", "s", [max(took)], Budget(2 * FETCH_TIMEOUT_S)),
        measure("creations that had to be repeated, a round", "", [repeated / rounds]),
    ]


def all_at_once(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of all three nodes at once under a stream of creations: what was acknowledged is there afterwards."""
    took = []
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in range(rounds):
            with Creations(cluster.bootstrap_servers, f"round-{number}", TOPICS) as creations:
                creations.wait_for(TOPICS // 2)
                cluster.kill()
                begun = time.monotonic()
                cluster.start()
                took.append(time.monotonic() - begun)
                creations.finish()
                _expect_no_flaws(cluster, creations.names)
                say(f"round {number + 1}: all three killed, they serve again after {took[-1]:.2f} s, nothing is lost")
    return [measure("all killed at once, until all serve again", "s", took)]


def many_topics(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """Fail-over and restart with 100 and with 10,000 topics of one partition, and the memory that they take."""
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    resident: dict[int, float] = {}
    with Cluster(
        nodes=3,
        process=True,
        config=KAFKA_DEFAULTS | {"metadata.log.max.record.bytes.between.snapshots": str(SNAPSHOT_BYTES)},
    ) as cluster:
        there = 0
        for count in (FEW, MANY):
            _create(cluster, there, count)
            there = count
            resident[count] = _resident_mb(cluster)
            for number in range(rounds):
                found[count].append(_failed_over(cluster))
                say(f"{count:,} topics, round {number + 1}: a topic was created {found[count][-1]:.2f} s after kill -9")
        cluster.stop()
        begun = time.monotonic()
        cluster.start()
        restart_s = time.monotonic() - begun
        say(f"{MANY:,} topics: all three serve {restart_s:.2f} s after a stop")
    few, many = (measure(f"fail-over with {count:,} topics", "s", found[count]) for count in (FEW, MANY))
    return [
        few,
        many,
        measure("ratio of the medians", "", [many.median / few.median], Budget(1.5)),
        measure(f"restart of all with {MANY:,} topics", "s", [restart_s], Budget(10)),
        measure("memory per partition, a node", "KB", [(resident[MANY] - resident[FEW]) * 1000 / (MANY - FEW)]),
    ]


def paused_controller(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of the active controller past an election, then SIGCONT: it refuses what it is told to write."""
    took = []
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in range(rounds):
            with Creations(cluster.bootstrap_servers, f"round-{number}", TOPICS) as creations:
                creations.wait_for(TOPICS // 4)
                victim = cluster.node(cluster.wait_for_controller())
                stale = StaleWrite(victim, f"stale-{number}")
                victim.pause()
                stale.send()
                successor = cluster.wait_for_controller(other_than=victim.id)
                victim.resume()
                begun = time.monotonic()
                code = stale.answer()
                took.append(time.monotonic() - begun)
                if code not in REFUSALS:
                    raise DrillError(f"{victim.id} was deposed by {successor} and answers a write with {code.name}")
                creations.finish()
                _expect_no_flaws(cluster, creations.names)
                if stale.topic in topics_of(cluster.bootstrap_servers):
                    raise DrillError(f"{stale.topic}, which was refused with {code.name}, is there")
                delete(cluster.bootstrap_servers, creations.names)
                say(f"round {number + 1}: {victim.id} refused a write with {code.name} {took[-1]:.3f} s after SIGCONT")
    return [measure("a deposed controller refuses a write after SIGCONT", "s", took)]


def full_node(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """1,000, 10,000 and 100,000 partitions on one node: made, started clean and after kill -9, fail-over, memory."""
    found = full_node_measured(rounds, say, KAFKA_DEFAULTS)
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in found:
        count, _, what = one.name.partition(" partitions on one node: ")
        lines.setdefault(f"{what}, {one.unit}", []).append((float(count.replace(",", "")), one.median))
    PLOT.write_text(curves("Partitions on one node", lines))
    say(f"plotted in {PLOT.relative_to(PLOT.parents[2])}")
    return found


def leaders_balanced_again(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """Two of three brokers restart and the third leads all: balanced by itself, and no client hears of it."""
    return balanced_again(rounds, say, KAFKA_DEFAULTS)


def hand_overs_killed(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 in the middle of hand-overs: of who takes over, of who gives, of the active controller; all heals."""
    return killed_in_hand_overs(rounds, say, KAFKA_DEFAULTS)


def storage_groups_killed(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of all replicas of a storage group at once, under load: nothing acknowledged is lost or twice."""
    return killed_groups(rounds, say, KAFKA_DEFAULTS)


def storage_group_paused(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of a storage group's leader past its lease, then SIGCONT: it takes nothing and answers no reader."""
    return paused_group_leader(rounds, say, KAFKA_DEFAULTS)


DRILLS: dict[str, tuple[Callable[[int, Callable[[str], None]], list[Measure]], int]] = {
    "killed-controller": (killed_controller, 20),
    "all-at-once": (all_at_once, 5),
    "many-topics": (many_topics, 5),
    "paused-controller": (paused_controller, 3),
    "full-node": (full_node, 1),
    "killed-nodes": (killed_nodes, 100),
    "rolling-restart": (rolling_restart, 10),
    "paused-leader": (paused_leader, 3),
    "lost-data": (lost_data, 1),
    "moved-partitions": (moved_partitions, 3),
    "balanced-again": (leaders_balanced_again, 10),
    "hand-overs": (hand_overs_killed, 5),
    "storage-groups": (storage_groups_killed, 10),
    "storage-group-paused": (storage_group_paused, 3),
    "workers": (workers_with_tasks, 3),
    "spark-cluster": (spark_cluster_killed, 3),
}
"""Each with its rounds, unless the command line says otherwise."""


def _expect_no_flaws(cluster: Cluster, names: list[str]) -> None:
    """Every node gets a moment to learn the last records; then all topics have to be there, whole."""
    addresses = [node.address for node in cluster.nodes if node.address is not None]
    deadline = time.monotonic() + SECONDS_FOR_A_NODE
    while found := flaws(addresses, names):
        if time.monotonic() > deadline:
            raise DrillError("; ".join(found[:10]))
        time.sleep(0.1)


def _create(cluster: Cluster, first: int, end: int) -> None:
    """Topics of one partition, many with one request."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for begin in range(first, end, TOPICS_PER_REQUEST):
        names = [f"topic-{number}" for number in range(begin, min(end, begin + TOPICS_PER_REQUEST))]
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
        for future in client.create_topics(topics, operation_timeout=60, request_timeout=60).values():
            future.result()


def _failed_over(cluster: Cluster) -> float:
    """Kill the active controller; seconds until somebody creates a topic; then the node comes back."""
    victim = cluster.wait_for_controller()
    others = ",".join(node.address for node in cluster.nodes if node.id != victim and node.address is not None)
    cluster.node(victim).kill()
    begun = time.monotonic()
    with Creations(others, f"after-{victim}-{time.time_ns()}", 1) as creation:
        creation.finish()
    took = time.monotonic() - begun
    cluster.node(victim).start()
    delete(others, creation.names)
    return took


def _resident_mb(cluster: Cluster) -> float:
    """The largest of the nodes: that is the active controller, which keeps an image of its own."""
    return max(psutil.Process(node.pid).memory_info().rss for node in cluster.nodes) / 1e6
