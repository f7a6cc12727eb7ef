"""Drills of replicas that have much to fetch: a node whose data are gone, and a hundred partitions that move."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bench.drills.replication import AS_STARTED
from bench.drills.traffic import TOPIC, DrillError, Traffic, under_traffic
from bench.load import Settings, produce
from bench.measure import Budget, Measure, measure
from bench.topics import create_topic, wait_in_sync
from penstock.testing import Cluster

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
EVENLY: Final[Settings] = {
    "acks": "all",
    "queue.buffering.max.kbytes": 65536,
    "partitioner": "random",
    "sticky.partitioning.linger.ms": 0,
}


def lost_data(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """A node whose data were deleted fetches 2 GB while records go on, first with a limit and then without."""
    limited, free, peaks = list[float](), list[float](), list[float]()
    with _with_bulk(3, 6, BULK_BYTES) as (cluster, traffic):
        for number in range(rounds):
            for is_limited, rates in ((True, limited), (False, free)):
                took, peak = _lose_and_fetch(cluster, is_limited=is_limited)
                rates.append(BULK_BYTES / took / 1e6)
                if is_limited:
                    peaks.append(peak / 1e6)
                traffic.wait_for_more()
                traffic.expect_no_error()
                kind = f"limited to {LIMIT_BYTES / 1e6:.0f} MB/s" if is_limited else "unlimited"
                say(f"round {number + 1}, {kind}: {took:.0f} s, {rates[-1]:.1f} MB/s, at most {peak / 1e6:.1f} MB/s")
    most = LIMIT_BYTES / 1e6
    return [
        measure("lost data: fetched with a limit", "MB/s", limited, Budget(most * 1.05)),
        measure("the most within eleven seconds", "MB/s", peaks, Budget(most * 1.3)),
        measure("fetched without a limit", "MB/s", free),
    ]


def _lose_and_fetch(cluster: Cluster, *, is_limited: bool) -> tuple[float, float]:
    """How long a node took to fetch all again, and the most bytes a second that it took in any window."""
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
    with _with_bulk(4, MANY, MANY_BYTES) as (cluster, traffic):
        for number in range(rounds):
            said = _move(cluster, [4, 2, 3], "--throttle", str(SLOW_BYTES))
            traffic.wait_for_more()
            if not (moving := _penstock(cluster, "reassign-partitions", "--list").count("adding: 4")):
                raise DrillError(f"nothing is on the move: {said}")
            _move(cluster, [4, 2, 3], action="--cancel")
            _wait_for(cluster, [1, 2, 3], BULK)  # what has few bytes has moved already
            traffic.wait_for_more()
            begun = time.monotonic()
            _move(cluster, [4, 2, 3])
            _wait_for(cluster, [4, 2, 3], TOPIC, BULK)
            took.append(time.monotonic() - begun)
            traffic.wait_for_more()
            traffic.expect_no_error()
            say(f"round {number + 1}: {moving} were on the move when called back; moved in {took[-1]:.1f} s then")
            _move(cluster, [1, 2, 3])
            _wait_for(cluster, [1, 2, 3], TOPIC, BULK)
    return [
        measure("a hundred partitions on a fourth node", "s", took),
        measure("records acknowledged and read meanwhile", "", [traffic.seen.acknowledged]),
    ]


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


def _wait_for(cluster: Cluster, replicas: Sequence[int], *topics: str) -> None:
    """Until all partitions have these replicas, all in sync."""
    deadline = time.monotonic() + LONG_S
    while True:
        found = json.loads(_penstock(cluster, "topics", "--describe", "--topic", ",".join(topics), "--json"))
        rows = [row for topic in found for row in topic["partitions"]]
        if all(sorted(row["replicas"]) == sorted(row["isr"]) == sorted(replicas) for row in rows):
            return
        if time.monotonic() > deadline:
            raise DrillError(f"not within {LONG_S:g} s on {replicas}")


def _penstock(cluster: Cluster, *words: str) -> str:
    command = [sys.executable, "-m", "penstock", *words, "--bootstrap-server", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise DrillError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _with_bulk(count: int, partitions: int, size_bytes: int) -> Iterator[tuple[Cluster, Traffic]]:
    """Traffic on the first three of so many nodes, where another topic has so many bytes."""
    places = [[(number + place) % 3 + 1 for place in range(3)] for number in range(partitions)]
    with under_traffic(places=places, nodes=count, config=AS_STARTED) as (cluster, traffic):
        address = cluster.bootstrap_servers
        create_topic(address, BULK, places=places)
        wait_in_sync(address, BULK, 3)
        produce(address, BULK, -(-size_bytes // RECORD_BYTES), RECORD_BYTES, EVENLY)
        yield cluster, traffic
