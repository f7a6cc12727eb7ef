"""Drills of replicas that have much to fetch: a node whose data are gone, and a hundred partitions that move."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.replication import PARTITIONS, TOPIC, DrillError, expect_no_anomaly, expect_no_error
from bench.drills.started_nodes import StartedNodes
from bench.drills.traffic import Traffic
from bench.measure import Budget, Measure, measure

BULK: Final = "bulk"
BULK_BYTES: Final = 2 << 30
RECORD_BYTES: Final = 100_000
LIMIT_BYTES: Final = 20 << 20
"""What a throttled node may take a second."""
MANY: Final = 100
MANY_BYTES: Final = 200 << 20
SLOW_BYTES: Final = 4 << 20
WINDOW_S: Final = 11.0
"""So long quotas remember."""
LONG_S: Final = 900.0


def lost_data(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """A node whose data were deleted fetches 2 GB while records go on, first with a limit and then without."""
    limited, free, peaks = list[float](), list[float](), list[float]()
    with nodes_with_bulk(3, PARTITIONS, BULK_BYTES) as nodes:
        with Traffic(nodes.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
            for number in range(rounds):
                for is_limited, rates in ((True, limited), (False, free)):
                    took, peak = _lose_and_fetch(nodes, is_limited=is_limited)
                    rates.append(BULK_BYTES / took / 1e6)
                    if is_limited:
                        peaks.append(peak / 1e6)
                    traffic.wait_for_more()
                    expect_no_error(traffic.seen)
                    kind = f"limited to {LIMIT_BYTES / 1e6:.0f} MB/s" if is_limited else "unlimited"
                    say(
                        f"round {number + 1}, {kind}: {took:.0f} s, {rates[-1]:.1f} MB/s, at most {peak / 1e6:.1f} MB/s"
                    )
        expect_no_anomaly(traffic.seen)
    most = LIMIT_BYTES / 1e6
    return [
        measure("lost data: fetched with a limit", "MB/s", limited, Budget(most * 1.05)),
        measure("the most within eleven seconds", "MB/s", peaks, Budget(most * 1.3)),
        measure("fetched without a limit", "MB/s", free),
    ]


def _lose_and_fetch(nodes: StartedNodes, *, is_limited: bool) -> tuple[float, float]:
    """How long a node took to fetch all again, and the most bytes a second that it took in any window."""
    victim = 3
    nodes.end(victim, signal.SIGKILL)
    nodes.wait_in_sync(BULK, 2)
    for path in nodes.data_of(victim).glob("*-*/00000000000000000000.log"):
        if path.parent.name.startswith((BULK, TOPIC)):
            shutil.rmtree(path.parent)
    operation = "--add-config" if is_limited else "--delete-config"
    for kind, name, keys in (
        ("topics", BULK, {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}),
        ("brokers", str(victim), {"follower.replication.throttled.rate": str(LIMIT_BYTES)}),
    ):
        words = [f"{key}={value}" if is_limited else key for key, value in keys.items()]
        _penstock(nodes, "configs", "--alter", "--entity-type", kind, "--entity-name", name, operation, ",".join(words))
    nodes.start(victim)
    begun, sizes = time.monotonic(), [(time.monotonic(), 0)]
    while sizes[-1][1] < BULK_BYTES:
        time.sleep(0.25)
        size = sum(path.stat().st_size for path in nodes.data_of(victim).glob(f"{BULK}-*/*.log"))
        sizes.append((time.monotonic(), size))
        if sizes[-1][0] - begun > LONG_S:
            raise DrillError(f"only {size} bytes are fetched after {LONG_S:g} s")
    nodes.wait_in_sync(BULK, 3)
    return time.monotonic() - begun, _peak(sizes)


def _peak(sizes: Sequence[tuple[float, int]]) -> float:
    """The most bytes a second over any window."""
    peak, first = 0.0, 0
    for at, size in sizes:
        while at - sizes[first + 1][0] >= WINDOW_S:
            first += 1
        if at - sizes[first][0] >= WINDOW_S:
            peak = max(peak, (size - sizes[first][1]) / (at - sizes[first][0]))
    return peak or sizes[-1][1] / (sizes[-1][0] - sizes[0][0])


def moved_partitions(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """A hundred partitions under load move to a fourth node with as many others, are called back, and move again."""
    took = []
    with nodes_with_bulk(4, MANY, MANY_BYTES) as nodes:
        with Traffic(nodes.bootstrap_servers, TOPIC, MANY) as traffic:
            for number in range(rounds):
                said = _move(nodes, [4, 2, 3], "--throttle", str(SLOW_BYTES))
                traffic.wait_for_more()
                if not (moving := _penstock(nodes, "reassign-partitions", "--list").count("adding: 4")):
                    raise DrillError(f"nothing is on the move: {said}")
                _move(nodes, [4, 2, 3], action="--cancel")
                _wait_for(nodes, [1, 2, 3], BULK)  # what has few bytes has moved already
                traffic.wait_for_more()
                begun = time.monotonic()
                _move(nodes, [4, 2, 3])
                _wait_for(nodes, [4, 2, 3], TOPIC, BULK)
                took.append(time.monotonic() - begun)
                traffic.wait_for_more()
                expect_no_error(traffic.seen)
                say(f"round {number + 1}: {moving} were on the move when called back; moved in {took[-1]:.1f} s then")
                _move(nodes, [1, 2, 3])
                _wait_for(nodes, [1, 2, 3], TOPIC, BULK)
        expect_no_anomaly(traffic.seen)
    return [
        measure("a hundred partitions on a fourth node", "s", took),
        measure("records acknowledged and read meanwhile", "", [traffic.seen.acknowledged]),
    ]


def _move(nodes: StartedNodes, replicas: Sequence[int], *options: str, action: str = "--execute") -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        rows = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for topic in (TOPIC, BULK)
            for number in range(MANY)
        ]
        json.dump({"version": 1, "partitions": rows}, file)
        file.flush()
        return _penstock(nodes, "reassign-partitions", action, "--reassignment-json-file", file.name, *options)


def _wait_for(nodes: StartedNodes, replicas: Sequence[int], *topics: str) -> None:
    """Until all partitions have these replicas, all in sync."""
    deadline = time.monotonic() + LONG_S
    while True:
        found = json.loads(_penstock(nodes, "topics", "--describe", "--topic", ",".join(topics), "--json"))
        rows = [row for topic in found for row in topic["partitions"]]
        if all(sorted(row["replicas"]) == sorted(row["isr"]) == sorted(replicas) for row in rows):
            return
        if time.monotonic() > deadline:
            raise DrillError(f"not within {LONG_S:g} s on {replicas}")


def _penstock(nodes: StartedNodes, *words: str) -> str:
    command = [sys.executable, "-m", "penstock", *words, "--bootstrap-server", nodes.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise DrillError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def nodes_with_bulk(count: int, partitions: int, size_bytes: int) -> Iterator[StartedNodes]:
    """They run, and a topic on the first three of them has so many bytes; the topic of the traffic is there, too."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-drill-"))
    nodes = StartedNodes(directory, count)
    try:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap_servers})
        spread = [[(number + place) % 3 + 1 for place in range(3)] for number in range(partitions)]
        for name in (TOPIC, BULK):
            admin.create_topics([NewTopic(name, partitions, replica_assignment=spread)])[name].result()
            nodes.wait_in_sync(name, 3)
        _fill(nodes.bootstrap_servers, partitions, size_bytes)
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _fill(bootstrap: str, partitions: int, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.kbytes": 65536})
    for number in range(-(-size_bytes // RECORD_BYTES)):
        while True:
            try:
                producer.produce(BULK, bytes(RECORD_BYTES), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(LONG_S):
        raise DrillError("not all of the bulk is acknowledged")
