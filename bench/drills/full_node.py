"""A node with 1,000, 10,000 and 100,000 partitions: what it takes to make, to hold and to start them, and to fail over.

Made, held and started are measured on a node that is alone; the fail-over in a cluster of one broker, which has all
the partitions, and three controllers, of which the active one is killed.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.creations import Creations
from bench.first_record import first_record_at
from bench.measure import Budget, Measure, measure
from bench.node import penstock_command
from bench.process import BrokerProcess
from penstock.testing import Cluster

COUNTS: Final = (1_000, 10_000, 100_000)
PARTITIONS_A_TOPIC: Final = 1_000
PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Filled:
    """What a node with so many partitions took. Seconds, megabytes."""

    partitions: int
    made_s: float
    memory_mb: float
    clean_start_s: float
    start_after_kill_s: float
    fail_over_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """Topics that were made, and how long it took."""

    topics: list[str]
    seconds: float


def fill(address: str, count: int, replicas: int = 1) -> Made:
    """Make so many partitions."""
    client = AdminClient({"bootstrap.servers": address})
    begun = time.perf_counter()
    topics = []
    for number in range(0, count, PARTITIONS_A_TOPIC):
        topic = NewTopic(f"full-{number}", min(PARTITIONS_A_TOPIC, count - number), replicas)
        for future in client.create_topics([topic], operation_timeout=60, request_timeout=PATIENCE_S).values():
            future.result(PATIENCE_S)
        topics.append(topic.topic)
    return Made(topics, time.perf_counter() - begun)


def alone(count: int) -> tuple[float, float, float, float]:
    """Made, memory, a clean start and one after kill -9 (both to the first record), on one node."""
    with node_directory() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        made_s = fill(node.address, count).seconds
        memory_mb = node.resident_mb
        node.stop()
        node, clean_s = started(directory)
        node.process.kill()
        node.process.wait()
        node, killed_s = started(directory)
        node.stop()
    return made_s, memory_mb, clean_s, killed_s


def fail_over(count: int, config: dict[str, str]) -> float:
    """Kill the active controller of three; seconds until a topic can be created again."""
    with Cluster(brokers=1, controllers=3, process=True, config=config) as cluster:
        fill(cluster.bootstrap_servers, count)
        cluster.node(cluster.wait_for_controller()).kill()
        begun = time.perf_counter()
        with Creations(cluster.bootstrap_servers, "after", 1) as creation:
            creation.finish()
        took = time.perf_counter() - begun
        cluster.kill()  # closing so many logs cleanly is not what is measured here
    return took


def measured(
    rounds: int, say: Callable[[str], None], config: dict[str, str], counts: tuple[int, ...] = COUNTS
) -> list[Measure]:
    """All figures for each count; the memory is also told for each partition."""
    filled: list[Filled] = []
    for count in counts:
        for number in range(rounds):
            filled.append(Filled(count, *alone(count), fail_over(count, config)))
            say(f"{count:,} partitions, round {number + 1}: {filled[-1]}")
    return [one for count in counts for one in _measures(count, [each for each in filled if each.partitions == count])]


def _measures(count: int, rounds: list[Filled]) -> list[Measure]:
    name = f"{count:,} partitions on one node"
    return [
        measure(f"{name}: made", "s", [each.made_s for each in rounds]),
        measure(f"{name}: memory", "MB", [each.memory_mb for each in rounds]),
        measure(f"{name}: clean start to the first record", "s", [each.clean_start_s for each in rounds]),
        measure(f"{name}: start after kill -9 to the first record", "s", [each.start_after_kill_s for each in rounds]),
        measure(f"{name}: fail-over of the controller", "s", [each.fail_over_s for each in rounds], Budget(5.0)),
    ]


def started(directory: Path) -> tuple[BrokerProcess, float]:
    """A node on a directory that has one, and the seconds to its first record."""
    node = BrokerProcess(penstock_command, directory, {})
    return node, first_record_at(node.port, limit_s=PATIENCE_S) - node.started


@contextmanager
def node_directory() -> Iterator[Path]:
    """A directory for one node, as long as it is needed."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-drill-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
