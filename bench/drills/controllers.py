"""Drills of the active controller, and of nodes with very many partitions."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from bench.drills import stale
from bench.drills.creations import TOPICS, Creations, creations_on, topics_of
from bench.drills.traffic import KAFKA_DEFAULTS, DrillError
from bench.first_record import first_record_at
from bench.measure import Budget, Measure, measure
from bench.node import penstock_command, running, scratch
from bench.plots import curves
from bench.process import BrokerProcess
from bench.topics import delete_topic, fill
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster

FETCH_TIMEOUT_S: Final = 2.0
FEW, MANY = 100, 10_000
SNAPSHOTS: Final = {"metadata.log.max.record.bytes.between.snapshots": "1000000"}
REFUSALS: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""What a controller that leads no longer may say: it was never decided, or nobody knows."""
COUNTS: Final = (1_000, 10_000, 100_000)
PATIENCE_S: Final = 600.0
PLOT: Final = Path(__file__).parents[2] / "docs" / "performance" / "partitions.svg"


def killed_controller(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """kill -9 of the active controller under a stream of 1,000 topic creations, again and again in one cluster."""
    took, repeated = [], 0
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in range(rounds):
            with creations_on(cluster, number) as creations:
                victim = cluster.wait_for_controller()
                begun = time.monotonic()
                cluster.kill(victim)
                successor = cluster.wait_for_controller(other_than=victim)
                took.append(time.monotonic() - begun)
                creations.finish()
                cluster.node(victim).start()
            repeated += creations.repeated
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
            with creations_on(cluster, number) as creations:
                creations.wait_for(TOPICS // 2)
                cluster.kill()
                begun = time.monotonic()
                cluster.start()
                took.append(time.monotonic() - begun)
            say(f"round {number + 1}: all three killed, they serve again after {took[-1]:.2f} s, nothing is lost")
    return [measure("all killed at once, until all serve again", "s", took)]


def paused_controller(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """SIGSTOP of the active controller past an election, then SIGCONT: it refuses what it is told to write."""
    took = []
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS) as cluster:
        for number in range(rounds):
            with creations_on(cluster, number):
                victim = cluster.node(cluster.wait_for_controller())
                write = stale.creation(str(victim.controller_address), f"stale-{number}")
                victim.pause()
                write.send()
                successor = cluster.wait_for_controller(other_than=victim.id)
                victim.resume()
                begun = time.monotonic()
                code = write.answer()
                took.append(time.monotonic() - begun)
                if code not in REFUSALS:
                    raise DrillError(f"{victim.id} was deposed by {successor} and answers a write with {code.name}")
            if f"stale-{number}" in topics_of(cluster.bootstrap_servers):
                raise DrillError(f"stale-{number}, which was refused with {code.name}, is there")
            say(f"round {number + 1}: {victim.id} refused a write with {code.name} {took[-1]:.3f} s after SIGCONT")
    return [measure("a deposed controller refuses a write after SIGCONT", "s", took)]


def many_topics(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """Fail-over and restart with 100 and with 10,000 topics of one partition, and the memory that they take."""
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    resident: dict[int, float] = {}
    with Cluster(nodes=3, process=True, config=KAFKA_DEFAULTS | SNAPSHOTS) as cluster:
        for first, count in ((0, FEW), (FEW, MANY)):
            fill(cluster.bootstrap_servers, count, first=first, per_topic=1)
            # The largest is the active controller, which keeps an image of its own.
            resident[count] = max(psutil.Process(node.pid).memory_info().rss for node in cluster.nodes) / 1e6
            for number in range(rounds):
                victim = cluster.wait_for_controller()
                others = ",".join(str(node.address) for node in cluster.nodes if node.id != victim)
                cluster.kill(victim)
                found[count].append(_until_created(others, f"after-{count}-{number}"))
                cluster.node(victim).start()
                delete_topic(others, f"after-{count}-{number}-0")
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


def full_node(rounds: int, say: Callable[[str], None]) -> list[Measure]:
    """1,000, 10,000 and 100,000 partitions on one node: made, started clean and after kill -9, fail-over, memory."""
    found: list[Measure] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for count in COUNTS:
        done: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds):
            figures = _alone(count) | {("fail-over of the controller", "s"): _fail_over(count)}
            for figure, value in figures.items():
                done.setdefault(figure, []).append(value)
            told = ", ".join(f"{what} {value:.2f} {unit}" for (what, unit), value in figures.items())
            say(f"{count:,} partitions, round {number + 1}: {told}")
        for (what, unit), values in done.items():
            budget = Budget(5.0) if what.startswith("fail-over") else None
            found.append(measure(f"{count:,} partitions on one node: {what}", unit, values, budget))
            lines.setdefault(f"{what}, {unit}", []).append((count, found[-1].median))
    PLOT.write_text(curves("Partitions on one node", lines))
    say(f"plotted in {PLOT.relative_to(PLOT.parents[2])}")
    return found


def _alone(count: int) -> dict[tuple[str, str], float]:
    """Made, held and started on a node that is alone."""
    found = {}
    with scratch() as directory:
        with running(penstock_command, directory) as node:
            begun = time.perf_counter()
            fill(node.address, count)
            found["made", "s"] = time.perf_counter() - begun
            found["memory", "MB"] = node.resident_mb
        for what in ("clean start", "start after kill -9"):
            node = BrokerProcess(penstock_command, directory, {})
            found[f"{what} to the first record", "s"] = first_record_at(node.address, limit_s=PATIENCE_S) - node.started
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
    """Seconds until somebody creates a topic."""
    begun = time.monotonic()
    with Creations(address, prefix, 1) as creation:
        creation.finish()
    return time.monotonic() - begun
