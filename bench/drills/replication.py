"""Drills of replicated topics: three nodes are killed, restarted and paused under real clients."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.stale_read import questions_and_records
from bench.drills.stale_record import StaleRecord
from bench.drills.started_nodes import StartedNodes
from bench.drills.traffic import Seen, Traffic
from bench.measure import Budget, Measure, measure
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import iterate_batches, iterate_records

TOPIC: Final = "drill"
PARTITIONS: Final = 6
CHECKED_EVERY: Final = 10
"""Rounds after which the history so far is looked at."""
TAIL: Final = 5
ANSWERED_S: Final = 0.3
"""What was asked of a node that does not sleep is answered by then."""
SESSION_S: Final = 9.0
ELECTION_S: Final = 4.0
"""A quorum whose leader dies elects another one within two fetch time-outs, each of 2 s by default."""


class DrillError(Exception):
    """A promise was broken; the text says which."""


def killed_nodes(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of each of three nodes in turn under producers with acks=all and a group: nothing is lost or twice."""
    held_up = []
    with three_nodes() as nodes, Traffic(nodes.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
        for number in range(rounds):
            victim = nodes.nodes[number % len(nodes.nodes)]
            role = " the active controller" if nodes.controller() == victim else ""
            traffic.seen.longest_s.clear()
            begun = time.monotonic()
            nodes.end(victim, signal.SIGKILL)
            nodes.wait_in_sync(TOPIC, 2)
            led = time.monotonic() - begun
            traffic.wait_for_more()
            nodes.start(victim)
            nodes.wait_in_sync(TOPIC, 3)
            traffic.wait_for_more()
            held_up.append(max(traffic.seen.longest_s.values()))
            waits = ", ".join(f"{name} {took:.1f} s" for name, took in traffic.seen.longest_s.items())
            say(f"round {number + 1}: {victim}{role} killed, led anew after {led:.1f} s, {waits}")
            expect_no_error(traffic.seen)
            if number % CHECKED_EVERY == CHECKED_EVERY - 1:
                expect_no_anomaly(traffic.seen, but=("unseen write",))
    expect_no_anomaly(traffic.seen)
    return [
        measure("kill -9 of a node: longest wait of a record", "s", held_up, Budget(SESSION_S + ELECTION_S)),
        measure("longest of all rounds", "s", [max(held_up)], Budget(SESSION_S + ELECTION_S)),
        measure("records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def rolling_restart(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGTERM and a new start of each of three nodes in turn under load: no client is given an error."""
    held_up = []
    with three_nodes() as nodes, Traffic(nodes.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
        for number in range(rounds):
            traffic.seen.longest_s.clear()
            for node in nodes.nodes:
                nodes.end(node, signal.SIGTERM)
                nodes.start(node)
                nodes.wait_in_sync(TOPIC, 3)
                traffic.wait_for_more()
            held_up.append(max(traffic.seen.longest_s.values()))
            say(f"round {number + 1}: all restarted, a record waited for {held_up[-1]:.2f} s at most")
            expect_no_error(traffic.seen, coordinator_may_fail=False)
    expect_no_anomaly(traffic.seen)
    return [
        measure("rolling restart: longest wait of a record", "s", held_up),
        measure("records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def paused_leader(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of a leader past its session, then SIGCONT: it refuses records and readers, cuts its log, catches up."""
    took = []
    with three_nodes() as nodes, Traffic(nodes.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
        for number in range(rounds):
            victim = nodes.leaders(TOPIC)[0]
            stale = questions_and_records(nodes.address(victim), TOPIC, number)
            tail = pause_with_a_tail(nodes, victim, number)
            for one in stale.values():
                one.send()
            nodes.wait_in_sync(TOPIC, 2)
            traffic.wait_for_more()
            nodes.signal(victim, signal.SIGCONT)
            begun = time.monotonic()
            answers = {what: one.answer() for what, one in stale.items()}
            for value in (*tail, *(one.value for one in stale.values() if isinstance(one, StaleRecord))):
                traffic.seen.refused("nobody", 0, value)
            nodes.wait_in_sync(TOPIC, 3)
            took.append(time.monotonic() - begun)
            told = ", ".join(f"{what} {code.name}" for what, code in answers.items())
            say(f"round {number + 1}: {victim} went on and said {told}; in sync again after {took[-1]:.1f} s")
            expect_cut(nodes, victim, tail)
            if ErrorCode.NONE in answers.values():
                raise DrillError(f"{victim} answered as a leader that it was no more: {told}")
            traffic.wait_for_more()
            expect_no_error(traffic.seen)
    expect_no_anomaly(traffic.seen)
    return [measure("a paused leader is in sync again after SIGCONT", "s", took)]


def pause_with_a_tail(nodes: StartedNodes, leader: int, number: int) -> list[bytes]:
    """Pause the leader of the first partition when its log ends with records that no follower has; their values.

    The followers sleep meanwhile. What they had asked for is answered by the first record, so they get none of the
    others, which the leader acknowledges alone.
    """
    followers = [node for node in nodes.nodes if node != leader]
    for node in followers:
        nodes.signal(node, signal.SIGSTOP)
    _written_alone(nodes, leader, b"answers-fetches-%d" % number)
    time.sleep(ANSWERED_S)
    tail = [b"tail-%d-%d" % (number, index) for index in range(TAIL)]
    for value in tail:
        _written_alone(nodes, leader, value)
    nodes.signal(leader, signal.SIGSTOP)
    for node in followers:
        nodes.signal(node, signal.SIGCONT)
    kept = _log_of(nodes, leader)
    if missing := [value for value in tail if value not in kept]:
        raise DrillError(f"{leader} acknowledged {missing} with acks=1 and does not have them")
    return tail


def expect_cut(nodes: StartedNodes, follower: int, tail: Sequence[bytes]) -> None:
    """Nobody has the tail, and the log of the follower that had it is the leader's."""
    leader = nodes.leaders(TOPIC)[0]
    logs = {node: _log_of(nodes, node) for node in nodes.nodes}
    for node, log in logs.items():
        if left := [value for value in tail if value in log]:
            raise DrillError(f"{node} still has {left}, which only {follower} had when it was paused")
    end = min(map(len, logs.values()))
    for node, log in logs.items():
        if log[:end] != logs[leader][:end]:
            at = next(at for at in range(end) if log[at] != logs[leader][at])
            raise DrillError(f"record {at} of {node} is {log[at]!r}, and {logs[leader][at]!r} at the leader {leader}")


def _written_alone(nodes: StartedNodes, leader: int, value: bytes) -> None:
    record = StaleRecord(nodes.address(leader), TOPIC, value, acks=1)
    record.send()
    if (code := record.answer()) is not ErrorCode.NONE:
        raise DrillError(f"{leader} refused a record with acks=1: {code.name}")


def _log_of(nodes: StartedNodes, node: int) -> list[bytes]:
    """The values in a node's log of the first partition, as they lie on its disk."""
    values = []
    for segment in sorted((nodes.data_of(node) / f"{TOPIC}-0").glob("*.log")):
        data = segment.read_bytes()
        for at, header in iterate_batches(data):
            values += [record.value or b"" for record in iterate_records(data, at, header)]
    return values


@contextmanager
def three_nodes() -> Iterator[StartedNodes]:
    """They run, and the topic is there."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-drill-"))
    nodes = StartedNodes(directory)
    try:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        nodes.wait_in_sync(TOPIC, 3)
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(directory, ignore_errors=True)


def expect_no_error(seen: Seen, *, coordinator_may_fail: bool = True) -> None:
    """No client was given an error; a commit may fail whose coordinator was killed, and what else it was asked."""
    found = seen.errors + ([] if coordinator_may_fail else seen.coordinator_errors)
    if found:
        raise DrillError("; ".join(found[:10]))


def expect_no_anomaly(seen: Seen, but: Sequence[str] = ()) -> None:
    """The checker is silent, but for what only the end can tell."""
    expect_no_error(seen)
    if found := [one for one in seen.anomalies() if one.kind not in but]:
        raise DrillError("; ".join(map(str, found[:10])))
