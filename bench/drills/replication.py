"""Drills of replicated topics: three nodes are killed, restarted and paused under real clients."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.drills import stale
from bench.drills.traffic import (
    ELECTION_S,
    KAFKA_DEFAULTS,
    SESSION_S,
    TOPIC,
    DrillError,
    Traffic,
    under_traffic,
)
from bench.measure import Budget, Measure, measure
from bench.segments import batches
from bench.topics import leaders_of, wait_in_sync, wait_led_without
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster

AS_STARTED: Final = KAFKA_DEFAULTS | {"group.initial.rebalance.delay.ms": "3000", "offsets.topic.num.partitions": "50"}
"""As `penstock start` has it."""
BY_CONSENSUS: Final = {"replication.mode": "consensus"}
CHECKED_EVERY: Final = 10
"""Rounds after which the history so far is looked at."""
TAIL: Final = 5
ANSWERED_S: Final = 0.3
"""What was asked of a node that does not sleep is answered by then."""


def killed_nodes(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of each of three nodes in turn under producers with acks=all and a group: nothing is lost or twice."""
    held_up = []
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        for number in range(rounds):
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
            held_up.append(traffic.longest_s)
            waits = ", ".join(f"{name} {took:.1f} s" for name, took in traffic.seen.longest_s.items())
            say(f"round {number + 1}: {victim}{role} killed, led anew after {led:.1f} s, {waits}")
            traffic.expect_no_error()
            if number % CHECKED_EVERY == CHECKED_EVERY - 1:
                traffic.expect_no_anomaly(but=("unseen write",))
    return [
        measure("kill -9 of a node: longest wait of a record", "s", held_up, Budget(SESSION_S + ELECTION_S)),
        measure("longest of all rounds", "s", [max(held_up)], Budget(SESSION_S + ELECTION_S)),
        measure("records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def rolling_restart(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGTERM and a new start of each of three nodes in turn under load: no client is given an error."""
    held_up = []
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        for number in range(rounds):
            traffic.begin_round()
            for node in cluster.nodes:
                node.restart()
                wait_in_sync(cluster.bootstrap_servers, TOPIC, 3)
                traffic.wait_for_more()
            held_up.append(traffic.longest_s)
            say(f"round {number + 1}: all restarted, a record waited for {held_up[-1]:.2f} s at most")
            traffic.expect_no_error(coordinator_may_fail=False)
    return [
        measure("rolling restart: longest wait of a record", "s", held_up),
        measure("records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def paused_leader(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of a leader past its session, then SIGCONT: it refuses records and readers, cuts its log, catches up."""
    took = []
    with under_traffic(nodes=3, config=AS_STARTED) as (cluster, traffic):
        address = cluster.bootstrap_servers
        for number in range(rounds):
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
            wait_in_sync(address, TOPIC, 3)
            took.append(time.monotonic() - begun)
            say(f"round {number + 1}: {victim} went on and said {told}; in sync again after {took[-1]:.1f} s")
            _expect_cut(cluster, victim, tail)
            traffic.wait_for_more()
            traffic.expect_no_error()
    return [measure("a paused leader is in sync again after SIGCONT", "s", took)]


def killed_groups(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of all replicas of a storage group at once, under load: nothing acknowledged is lost or twice."""
    serving, held_up = [], []
    with under_traffic(topic=BY_CONSENSUS, nodes=3, config=KAFKA_DEFAULTS) as (cluster, traffic):
        for number in range(rounds):
            traffic.wait_for_more()
            traffic.begin_round()
            cluster.kill()
            begun = time.monotonic()
            cluster.start()
            serving.append(time.monotonic() - begun)
            traffic.wait_for_more()
            traffic.expect_no_error()
            held_up.append(traffic.longest_s)
            traffic.expect_no_anomaly(but=("unseen write",))
            say(
                f"round {number + 1}: all three killed, they serve again after {serving[-1]:.2f} s,"
                f" a record waited for {held_up[-1]:.2f} s at most"
            )
    return [
        measure("storage group, all killed at once: until all serve again", "s", serving),
        measure("storage group, all killed at once: longest wait of a record", "s", held_up),
        measure("storage group: records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def paused_group_leader(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of a storage group's leader past its lease, then SIGCONT: it takes nothing and answers no reader."""
    led, took = [], []
    with under_traffic(topic=BY_CONSENSUS, nodes=3, config=KAFKA_DEFAULTS) as (cluster, traffic):
        for number in range(rounds):
            victim = leaders_of(cluster.bootstrap_servers, TOPIC)[0]
            waiting = _Waiting(cluster, victim, number)
            cluster.pause(victim)
            begun = time.monotonic()
            waiting.send()
            others = ",".join(str(node.address) for node in cluster.nodes if node.id != victim)
            wait_led_without(others, TOPIC, victim)
            led.append(time.monotonic() - begun)
            successor = leaders_of(others, TOPIC)[0]
            traffic.wait_for_more()
            cluster.resume(victim)
            begun = time.monotonic()
            told = waiting.refusals(traffic)
            took.append(time.monotonic() - begun)
            say(f"round {number + 1}: {successor} leads after {led[-1]:.1f} s; {victim} went on and said {told}")
            traffic.wait_for_more()
            traffic.expect_no_error()
    return [
        measure("storage group, leader paused: until another one leads", "s", led),
        measure("storage group, leader paused: it refuses what waited, after SIGCONT", "s", took),
        measure("storage group, leader paused: records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


class _Waiting:
    """Questions and records that wait for a leader that sleeps, and must be refused."""

    def __init__(self, cluster: Cluster, leader: int, number: int) -> None:
        self._leader = leader
        self._values = {acks: b"stale-%d-%d" % (number, acks) for acks in (-1, 1)}
        self._requests = stale.questions_and_records(str(cluster.node(leader).address), TOPIC, self._values)

    def send(self) -> None:
        for one in self._requests.values():
            one.send()

    def refusals(self, traffic: Traffic) -> str:
        """What it said to each."""
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
    """Nobody has the tail, and the log of the follower that had it is the leader's."""
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
    record = stale.record(str(cluster.node(leader).address), TOPIC, value, acks=1)
    record.send()
    if (code := record.answer()) is not ErrorCode.NONE:
        raise DrillError(f"{leader} refused a record with acks=1: {code.name}")


def _log_of(cluster: Cluster, node: int) -> list[bytes]:
    """The values in a node's log of the first partition, as they lie on its disk."""
    directory = cluster.node(node).directory / f"{TOPIC}-0"
    return [record.value or b"" for _, records in batches(directory) for record in records]
