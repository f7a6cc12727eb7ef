"""Drills of replicated topics under real clients: nodes are killed, restarted, paused, lose data and give them away."""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bench.drills.traffic import ELECTION_S, KAFKA_DEFAULTS, KNOWN_S, TOPIC, Drill, DrillError, Traffic, under_traffic
from bench.load import Settings, produce
from bench.measure import Budget
from bench.process import said_by
from bench.round_trip import stale_record, stale_requests
from bench.topics import batches, create_topic, leaders_of, wait_in_sync, wait_led_without
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

AS_STARTED: Final = KAFKA_DEFAULTS | {"group.initial.rebalance.delay.ms": "3000", "offsets.topic.num.partitions": "50"}
"""As in `penstock start`."""
BY_CONSENSUS: Final = {"replication.mode": "consensus"}
CHECKED_EVERY: Final = 10
"""Rounds after which the history so far is looked at."""
TAIL: Final = 5
ANSWERED_S: Final = 0.3
"""Requests to a node that does not sleep are answered by then."""


def killed_nodes(drill: Drill) -> None:
    """kill -9 of each of three nodes in turn under producers with acks=all and a group: nothing is lost or twice."""
    name, bound = "kill -9 of a node: longest wait of a record", Budget(KNOWN_S + ELECTION_S)
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        for number in drill.rounds():
            victim = cluster.nodes[number % 3].id
            role = " the active controller" if cluster.wait_for_controller() == victim else ""
            traffic.begin_round()
            begun = time.monotonic()
            cluster.kill(victim)
            wait_in_sync(cluster.bootstrap_servers, TOPIC, 2)
            led = time.monotonic() - begun
            traffic.wait_for_more()
            cluster.node(victim).start()
            wait_in_sync(cluster.bootstrap_servers, TOPIC, 3)
            traffic.wait_for_more()
            drill.add(name, "s", traffic.longest_s, bound)
            waits = ", ".join(f"{client} {took:.1f} s" for client, took in traffic.seen.longest_s.items())
            drill.say(f"{victim}{role} killed, led anew after {led:.1f} s, {waits}")
            traffic.expect_no_error()
            if number % CHECKED_EVERY == CHECKED_EVERY - 1:
                traffic.expect_no_anomaly(but=("unseen write",))
    drill.add("longest of all rounds", "s", drill.most(name), bound)
    drill.add("records acknowledged and read", "", traffic.seen.acknowledged)


def rolling_restart(drill: Drill) -> None:
    """SIGTERM and a new start of each of three nodes in turn under load: no client is given an error."""
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        for _ in drill.rounds():
            traffic.begin_round()
            for node in cluster.nodes:
                node.restart()
                wait_in_sync(cluster.bootstrap_servers, TOPIC, 3)
                traffic.wait_for_more()
            held_up = drill.add("rolling restart: longest wait of a record", "s", traffic.longest_s)
            drill.say(f"all restarted, a record waited for {held_up:.2f} s at most")
            traffic.expect_no_error(coordinator_may_fail=False)
    drill.add("records acknowledged and read", "", traffic.seen.acknowledged)


def paused_leader(drill: Drill) -> None:
    """SIGSTOP of a leader past its session, then SIGCONT: it refuses records and readers, cuts its log, catches up."""
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        address = cluster.bootstrap_servers
        for number in drill.rounds():
            victim = leaders_of(address, TOPIC)[0]
            waiting = _Waiting(cluster, victim, number)
            tail = _pause_with_a_tail(cluster, victim, number)
            waiting.send()
            wait_in_sync(address, TOPIC, 2)
            traffic.wait_for_more()
            cluster.resume(victim)
            begun = time.monotonic()
            told = waiting.refusals(traffic)
            traffic.seen.refused(tail)
            wait_in_sync(others_than(cluster, victim), TOPIC, 3)  # it may not have heard that it is out
            took = drill.add("a paused leader is in sync again after SIGCONT", "s", time.monotonic() - begun)
            drill.say(f"{victim} went on and said {told}; in sync again after {took:.1f} s")
            _expect_cut(cluster, victim, tail)
            traffic.wait_for_more()
            traffic.expect_no_error()


def killed_groups(drill: Drill) -> None:
    """kill -9 of all replicas of a storage group at once, under load: nothing acknowledged is lost or twice."""
    name = "storage group, all killed at once"
    with under_traffic(topic=BY_CONSENSUS, nodes=3, config=KAFKA_DEFAULTS) as (cluster, traffic):
        for _ in drill.rounds():
            traffic.wait_for_more()
            traffic.begin_round()
            cluster.kill()
            begun = time.monotonic()
            cluster.start()
            serving = drill.add(f"{name}: until all serve again", "s", time.monotonic() - begun)
            traffic.wait_for_more()
            traffic.expect_no_error()
            held_up = drill.add(f"{name}: longest wait of a record", "s", traffic.longest_s)
            traffic.expect_no_anomaly(but=("unseen write",))
            drill.say(f"they serve again after {serving:.2f} s, a record waited for {held_up:.2f} s at most")
    drill.add("storage group: records acknowledged and read", "", traffic.seen.acknowledged)


def paused_group_leader(drill: Drill) -> None:
    """SIGSTOP of a storage group's leader past its lease, then SIGCONT: it takes nothing and answers no reader."""
    name = "storage group, leader paused"
    with under_traffic(topic=BY_CONSENSUS, nodes=3, config=KAFKA_DEFAULTS) as (cluster, traffic):
        for number in drill.rounds():
            victim = leaders_of(cluster.bootstrap_servers, TOPIC)[0]
            waiting = _Waiting(cluster, victim, number)
            cluster.pause(victim)
            begun = time.monotonic()
            waiting.send()
            others = others_than(cluster, victim)
            wait_led_without(others, TOPIC, victim)
            led = drill.add(f"{name}: until another one leads", "s", time.monotonic() - begun)
            successor = leaders_of(others, TOPIC)[0]
            traffic.wait_for_more()
            cluster.resume(victim)
            begun = time.monotonic()
            told = waiting.refusals(traffic)
            drill.add(f"{name}: it refuses what waited, after SIGCONT", "s", time.monotonic() - begun)
            drill.say(f"{successor} leads after {led:.1f} s; {victim} went on and said {told}")
            traffic.wait_for_more()
            traffic.expect_no_error()
    drill.add(f"{name}: records acknowledged and read", "", traffic.seen.acknowledged)


def others_than(cluster: Cluster, node_id: int) -> str:
    return ",".join(str(node.address) for node in cluster.nodes if node.id != node_id)


class _Waiting:
    """Requests and records that wait for a sleeping leader, and must be refused."""

    def __init__(self, cluster: Cluster, leader: int, number: int) -> None:
        self._leader = leader
        self._values = {acks: b"stale-%d-%d" % (number, acks) for acks in (-1, 1)}
        self._requests = stale_requests(str(cluster.node(leader).address), TOPIC, self._values)

    def send(self) -> None:
        for one in self._requests.values():
            one.send()

    def refusals(self, traffic: Traffic) -> str:
        answers = {what: one.answer() for what, one in self._requests.items()}
        traffic.seen.refused(self._values.values())
        told = ", ".join(f"{what} {code.name}" for what, code in answers.items())
        if ErrorCode.NONE in answers.values():
            raise DrillError(f"{self._leader} answered as a leader that it was no more: {told}")
        return told


def _pause_with_a_tail(cluster: Cluster, leader: int, number: int) -> list[bytes]:
    """Pause the leader of the first partition when its log ends with records that no follower has; their values.

    The followers sleep meanwhile. What they had asked for is answered by the first record, so they get none of the
    others, which the leader acknowledges alone.
    """
    followers = [node.id for node in cluster.nodes if node.id != leader]
    for node in followers:
        cluster.pause(node)
    _written_alone(cluster, leader, b"answers-fetches-%d" % number)
    time.sleep(ANSWERED_S)
    tail = [b"tail-%d-%d" % (number, index) for index in range(TAIL)]
    for value in tail:
        _written_alone(cluster, leader, value)
    cluster.pause(leader)
    for node in followers:
        cluster.resume(node)
    kept = _log_of(cluster, leader)
    if missing := [value for value in tail if value not in kept]:
        raise DrillError(f"{leader} acknowledged {missing} with acks=1 and does not have them")
    return tail


def _expect_cut(cluster: Cluster, follower: int, tail: Sequence[bytes]) -> None:
    """No log has the tail, and the log of the follower that had it is the leader's."""
    leader = leaders_of(cluster.bootstrap_servers, TOPIC)[0]
    logs = {node.id: _log_of(cluster, node.id) for node in cluster.nodes}
    end = min(map(len, logs.values()))
    for node, log in logs.items():
        if left := [value for value in tail if value in log]:
            raise DrillError(f"{node} still has {left}, which only {follower} had when it was paused")
        if log[:end] != logs[leader][:end]:
            at = next(at for at in range(end) if log[at] != logs[leader][at])
            raise DrillError(f"record {at} of {node} is {log[at]!r}, and {logs[leader][at]!r} at the leader {leader}")


def _written_alone(cluster: Cluster, leader: int, value: bytes) -> None:
    record = stale_record(str(cluster.node(leader).address), TOPIC, value, acks=1)
    record.send()
    if (code := record.answer()) is not ErrorCode.NONE:
        raise DrillError(f"{leader} refused a record with acks=1: {code.name}")


def _log_of(cluster: Cluster, node: int) -> list[bytes]:
    """The values in a node's log of the first partition, read from its disk."""
    directory = cluster.node(node).directory / f"{TOPIC}-0"
    return [record.value or b"" for _, records in batches(directory) for record in records]


BULK: Final = "bulk"
BULK_BYTES: Final = 2 << 30
RECORD_BYTES: Final = 100_000
LIMIT_BYTES: Final = 20 << 20
"""Of a throttled node, a second."""
MANY: Final = 100
MANY_BYTES: Final = 200 << 20
SLOW_BYTES: Final = 4 << 20
WINDOW_S: Final = 11.0
"""How long quotas remember."""
LONG_S: Final = 900.0
EVENLY: Final[Settings] = {
    "acks": "all",
    "queue.buffering.max.kbytes": 65536,
    "partitioner": "random",
    "sticky.partitioning.linger.ms": 0,
}


def lost_data(drill: Drill) -> None:
    """A node whose data were deleted fetches 2 GB while records go on, first with a limit and then without."""
    most = LIMIT_BYTES / 1e6
    with _with_bulk(3, 6, BULK_BYTES) as (cluster, traffic):
        for _ in drill.rounds():
            for is_limited in (True, False):
                took, peak = _lose_and_fetch(cluster, is_limited=is_limited)
                rate = BULK_BYTES / took / 1e6
                if is_limited:
                    drill.add("lost data: fetched with a limit", "MB/s", rate, Budget(most * 1.05))
                    drill.add("the most within eleven seconds", "MB/s", peak / 1e6, Budget(most * 1.3))
                else:
                    drill.add("fetched without a limit", "MB/s", rate)
                traffic.wait_for_more()
                traffic.expect_no_error()
                kind = f"limited to {most:.0f} MB/s" if is_limited else "unlimited"
                drill.say(f"{kind}: {took:.0f} s, {rate:.1f} MB/s, at most {peak / 1e6:.1f} MB/s")


def _lose_and_fetch(cluster: Cluster, *, is_limited: bool) -> tuple[float, float]:
    """How long a node took to fetch all again, and its highest rate in any window."""
    victim = cluster.node(3)
    victim.kill()
    wait_in_sync(cluster.bootstrap_servers, BULK, 2)
    for path in victim.directory.glob("*-*/00000000000000000000.log"):
        if path.parent.name.startswith((BULK, TOPIC)):
            shutil.rmtree(path.parent)
    operation = "--add-config" if is_limited else "--delete-config"
    for kind, name, keys in (
        ("topics", BULK, {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}),
        ("brokers", str(victim.id), {"follower.replication.throttled.rate": str(LIMIT_BYTES)}),
    ):
        words = [f"{key}={value}" if is_limited else key for key, value in keys.items()]
        entity = ["--entity-type", kind, "--entity-name", name]
        _penstock(cluster, "configs", "--alter", *entity, operation, ",".join(words))
    victim.start()
    begun, sizes = time.monotonic(), [(time.monotonic(), 0)]
    while sizes[-1][1] < BULK_BYTES:
        time.sleep(0.25)
        size = sum(path.stat().st_size for path in victim.directory.glob(f"{BULK}-*/*.log"))
        sizes.append((time.monotonic(), size))
        if sizes[-1][0] - begun > LONG_S:
            raise DrillError(f"only {size} bytes are fetched after {LONG_S:g} s")
    wait_in_sync(cluster.bootstrap_servers, BULK, 3)
    return time.monotonic() - begun, _peak(sizes)


def _peak(sizes: Sequence[tuple[float, int]]) -> float:
    """Bytes a second, over any window."""
    peak, first = 0.0, 0
    for at, size in sizes:
        while at - sizes[first + 1][0] >= WINDOW_S:
            first += 1
        if at - sizes[first][0] >= WINDOW_S:
            peak = max(peak, (size - sizes[first][1]) / (at - sizes[first][0]))
    return peak or sizes[-1][1] / (sizes[-1][0] - sizes[0][0])


def moved_partitions(drill: Drill) -> None:
    """A hundred partitions under load move to a fourth node with as many others, are called back, and move again."""
    with _with_bulk(4, MANY, MANY_BYTES) as (cluster, traffic):
        for _ in drill.rounds():
            said = _move(cluster, [4, 2, 3], "--throttle", str(SLOW_BYTES))
            traffic.wait_for_more()
            if not (moving := _penstock(cluster, "reassign-partitions", "--list").count("adding: 4")):
                raise DrillError(f"nothing is on the move: {said}")
            _move(cluster, [4, 2, 3], action="--cancel")
            _wait_for(cluster, None, TOPIC, BULK)  # small ones have moved already, on a busy machine some of the others
            traffic.wait_for_more()
            begun = time.monotonic()
            _move(cluster, [4, 2, 3])
            _wait_for(cluster, [4, 2, 3], TOPIC, BULK)
            took = drill.add("a hundred partitions on a fourth node", "s", time.monotonic() - begun)
            traffic.wait_for_more()
            traffic.expect_no_error()
            drill.say(f"{moving} were on the move when called back; moved in {took:.1f} s then")
            _move(cluster, [1, 2, 3])
            _wait_for(cluster, [1, 2, 3], TOPIC, BULK)
    drill.add("records acknowledged and read meanwhile", "", traffic.seen.acknowledged)


def _move(cluster: Cluster, replicas: Sequence[int], *options: str, action: str = "--execute") -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        rows = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for topic in (TOPIC, BULK)
            for number in range(MANY)
        ]
        json.dump({"version": 1, "partitions": rows}, file)
        file.flush()
        return _penstock(cluster, "reassign-partitions", action, "--reassignment-json-file", file.name, *options)


def _wait_for(cluster: Cluster, replicas: Sequence[int] | None, *topics: str) -> None:
    """Until all partitions have these replicas (None: any three), all in sync."""

    def look() -> bool | None:
        found = json.loads(_penstock(cluster, "topics", "--describe", "--topic", ",".join(topics), "--json"))
        rows = [row for topic in found for row in topic["partitions"]]
        wanted = [sorted(replicas or row["replicas"])[:3] for row in rows]
        return [sorted(row["replicas"]) for row in rows] == wanted == [sorted(row["isr"]) for row in rows] or None

    wait_until(look, LONG_S, f"all partitions on {replicas or 'three nodes'}")


def _penstock(cluster: Cluster, *words: str) -> str:
    return said_by([sys.executable, "-m", "penstock", *words, "--bootstrap-server", cluster.bootstrap_servers])


@contextmanager
def _with_bulk(count: int, partitions: int, size_bytes: int) -> Iterator[tuple[Cluster, Traffic]]:
    """On the first three of `count` nodes, beside another topic of that size."""
    places = [[(number + place) % 3 + 1 for place in range(3)] for number in range(partitions)]
    with under_traffic(places=places, nodes=count, config=AS_STARTED) as (cluster, traffic):
        address = cluster.bootstrap_servers
        create_topic(address, BULK, places=places)
        wait_in_sync(address, BULK, 3)
        produce(address, BULK, -(-size_bytes // RECORD_BYTES), RECORD_BYTES, EVENLY)
        yield cluster, traffic
