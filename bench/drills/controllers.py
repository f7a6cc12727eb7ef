"""Drills of the active controller, under a stream of topic creations, and of nodes with very many partitions."""

import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import psutil
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from bench.drills.traffic import KAFKA_DEFAULTS, Drill, DrillError
from bench.measure import Budget
from bench.plots import curves
from bench.process import BrokerProcess, penstock_command, running, scratch
from bench.round_trip import stale_creation
from bench.topics import admin_of, delete_topic, fill
from bench.wire import first_record_at
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PARTITIONS = 3
WORKERS = 8
ANSWER_S = 10.0
PATIENCE_S = 120.0
PAUSE_S = 0.02
SECONDS_FOR_A_NODE = 60.0
TOPICS = 1000


class Creations:
    """Of three partitions, several at a time; each is repeated until it is acknowledged."""

    def __init__(self, bootstrap_servers: str, prefix: str, count: int) -> None:
        self.names = [f"{prefix}-{number}" for number in range(count)]
        self.repeated = 0
        self._bootstrap_servers = bootstrap_servers
        self._own = threading.local()
        self._is_over = False
        self._workers = ThreadPoolExecutor(WORKERS, "creations")
        self._open: set[Future[None]] = {self._workers.submit(self._create, name) for name in self.names}

    def wait_for(self, acknowledged: int) -> None:
        """RuntimeError names a topic that never is acknowledged."""
        while len(self.names) - len(self._open) < acknowledged:
            done, self._open = wait(self._open, PATIENCE_S, FIRST_COMPLETED)
            for future in done:
                future.result()

    def finish(self) -> None:
        self.wait_for(len(self.names))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Creations that are not done yet are given up."""
        self._is_over = True
        self._workers.shutdown(cancel_futures=True)

    def _create(self, name: str) -> None:
        deadline, tries = time.monotonic() + PATIENCE_S, 0
        topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)
        while True:
            tries += 1
            self._own.client = client = getattr(self._own, "client", None) or admin_of(self._bootstrap_servers)
            try:
                client.create_topics([topic], operation_timeout=ANSWER_S, request_timeout=ANSWER_S)[name].result()
                return
            except KafkaException as error:
                code: KafkaError = error.args[0]
                if code.code() == KafkaError.TOPIC_ALREADY_EXISTS and tries > 1:
                    return  # an earlier try without an answer had its effect
                if self._is_over or time.monotonic() > deadline:
                    raise RuntimeError(f"{name} was not created within {PATIENCE_S:g} s: {code}") from error
                self.repeated += 1
                time.sleep(PAUSE_S)
                # librdkafka waits for the broker that it once took for the controller until that comes back.
                self._own.client = None


@contextmanager
def creations_on(cluster: Cluster, number: int) -> Iterator[Creations]:
    """Some are acknowledged when the block begins, all are there, whole, when it has ended."""
    with Creations(cluster.bootstrap_servers, f"round-{number}", TOPICS) as creations:
        creations.wait_for(TOPICS // 4)
        yield creations
        creations.finish()
        _expect_no_flaws(cluster, creations.names)
    delete_topic(cluster.bootstrap_servers, *creations.names)


def _expect_no_flaws(cluster: Cluster, names: list[str]) -> None:
    """Every node gets a moment to learn the last records; then it has to know all topics, with all partitions."""
    addresses = [node.address for node in cluster.nodes if node.address is not None]

    def are_whole() -> bool | None:
        known = [topics_of(address) for address in addresses]
        return all(topics.get(name) == PARTITIONS for topics in known for name in names) or None

    wait_until(are_whole, SECONDS_FOR_A_NODE, f"{names[0]} and those behind it with all partitions on each node")


def topics_of(bootstrap_servers: str) -> dict[str, int]:
    topics = admin_of(bootstrap_servers).list_topics(timeout=60).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


FETCH_TIMEOUT_S: Final = 2.0
FEW, MANY = 100, 10_000
SNAPSHOTS: Final = {"metadata.log.max.record.bytes.between.snapshots": "1000000"}
REFUSALS: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""What a replaced controller may answer: it was never decided, or that is unknown."""
COUNTS: Final = (1_000, 10_000, 100_000)
FIRST_RECORD_S: Final = 600.0
PLOT: Final = Path(__file__).parents[2] / "docs" / "performance" / "partitions.svg"


def killed_controller(drill: Drill) -> None:
    """kill -9 of the active controller under a stream of 1,000 topic creations, again and again in one cluster."""
    name, bound, repeated = "next controller after kill -9", Budget(2 * FETCH_TIMEOUT_S), 0
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in drill.rounds():
            with creations_on(cluster, number) as creations:
                victim = cluster.wait_for_controller()
                begun = time.monotonic()
                cluster.kill(victim)
                successor = cluster.wait_for_controller(other_than=victim)
                took = drill.add(name, "s", time.monotonic() - begun, bound)
                creations.finish()
                cluster.node(victim).start()
            repeated += creations.repeated
            drill.say(f"{victim} killed, {successor} leads after {took:.2f} s, nothing is lost")
    drill.add("longest of all rounds", "s", drill.most(name), bound)
    drill.add("creations that had to be repeated, a round", "", repeated / drill.count)


def all_at_once(drill: Drill) -> None:
    """kill -9 of all three nodes at once under a stream of creations: what was acknowledged is there afterwards."""
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in drill.rounds():
            with creations_on(cluster, number) as creations:
                creations.wait_for(TOPICS // 2)
                cluster.kill()
                begun = time.monotonic()
                cluster.start()
                took = drill.add("all killed at once, until all serve again", "s", time.monotonic() - begun)
            drill.say(f"all three killed, they serve again after {took:.2f} s, nothing is lost")


def paused_controller(drill: Drill) -> None:
    """SIGSTOP of the active controller past an election, then SIGCONT: it refuses what it is told to write."""
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in drill.rounds():
            with creations_on(cluster, number):
                victim = cluster.node(cluster.wait_for_controller())
                write = stale_creation(str(victim.controller_address), f"stale-{number}")
                victim.pause()
                write.send()
                successor = cluster.wait_for_controller(other_than=victim.id)
                victim.resume()
                begun = time.monotonic()
                code = write.answer()
                took = drill.add("a deposed controller refuses a write after SIGCONT", "s", time.monotonic() - begun)
                if code not in REFUSALS:
                    raise DrillError(f"{victim.id} was deposed by {successor} and answers a write with {code.name}")
            if f"stale-{number}" in topics_of(cluster.bootstrap_servers):
                raise DrillError(f"stale-{number}, which was refused with {code.name}, is there")
            drill.say(f"{victim.id} refused a write with {code.name} {took:.3f} s after SIGCONT")


def many_topics(drill: Drill) -> None:
    """Fail-over and restart with 100 and with 10,000 topics of one partition, and the memory that they take."""
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    resident: dict[int, float] = {}
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS | SNAPSHOTS) as cluster:
        for first, count in ((0, FEW), (FEW, MANY)):
            fill(cluster.bootstrap_servers, count, first=first, per_topic=1)
            # The largest is the active controller, which keeps an image of its own.
            resident[count] = max(psutil.Process(node.pid).memory_info().rss for node in cluster.nodes) / 1e6
            for number in drill.rounds():
                victim = cluster.wait_for_controller()
                others = ",".join(str(node.address) for node in cluster.nodes if node.id != victim)
                cluster.kill(victim)
                took = drill.add(
                    f"fail-over with {count:,} topics", "s", _until_created(others, f"after-{count}-{number}")
                )
                found[count].append(took)
                cluster.node(victim).start()
                delete_topic(others, f"after-{count}-{number}-0")
                drill.say(f"a topic was created {took:.2f} s after kill -9, with {count:,} topics")
        cluster.stop()
        begun = time.monotonic()
        cluster.start()
        restart_s = time.monotonic() - begun
    ratio = statistics.median(found[MANY]) / statistics.median(found[FEW])
    drill.add("ratio of the medians", "", ratio, Budget(1.5))
    drill.add(f"restart of all with {MANY:,} topics", "s", restart_s, Budget(10))
    drill.add("memory per partition, a node", "KB", (resident[MANY] - resident[FEW]) * 1000 / (MANY - FEW))


def full_node(drill: Drill) -> None:
    """1,000, 10,000 and 100,000 partitions on one node: made, started clean and after kill -9, fail-over, memory."""
    for count in COUNTS:
        for _ in drill.rounds():
            figures = _alone(count) | {("fail-over of the controller", "s"): _fail_over(count)}
            for (what, unit), value in figures.items():
                budget = Budget(5.0) if what.startswith("fail-over") else None
                drill.add(f"{count:,} partitions on one node: {what}", unit, value, budget)
            told = ", ".join(f"{what} {value:.2f} {unit}" for (what, unit), value in figures.items())
            drill.say(f"{count:,} partitions: {told}")
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in drill.measures():
        number, _, what = one.name.partition(" partitions on one node: ")
        lines.setdefault(f"{what}, {one.unit}", []).append((float(number.replace(",", "")), one.median))
    PLOT.write_text(curves("Partitions on one node", lines))


def _alone(count: int) -> dict[tuple[str, str], float]:
    found = {}
    with scratch() as directory:
        with running(penstock_command, directory) as node:
            begun = time.perf_counter()
            fill(node.address, count)
            found["made", "s"] = time.perf_counter() - begun
            found["memory", "MB"] = node.resident_mb
        for what in ("clean start", "start after kill -9"):
            node = BrokerProcess(penstock_command, directory, {})
            found[f"{what} to the first record", "s"] = (
                first_record_at(node.address, limit_s=FIRST_RECORD_S) - node.started
            )
            node.kill()
    return found


def _fail_over(count: int) -> float:
    """One broker has all partitions, the active one of three controllers is killed; until a topic is created again."""
    with Cluster(brokers=1, controllers=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        fill(cluster.bootstrap_servers, count)
        cluster.kill(cluster.wait_for_controller())
        took = _until_created(cluster.bootstrap_servers, "after")
        cluster.kill()  # closing so many logs cleanly is not what is measured here
    return took


def _until_created(address: str, prefix: str) -> float:
    begun = time.monotonic()
    with Creations(address, prefix, 1) as creation:
        creation.finish()
    return time.monotonic() - begun
