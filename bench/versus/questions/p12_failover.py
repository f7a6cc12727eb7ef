"""P12: kill -9 of a leader and of the active controller: how long is a producer held up, and what does it lose?"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from bench.load import create_topic
from bench.versus.held_up import Stream
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import Effort, Sample, Samples
from bench.versus.three_nodes import NODES, SYSTEMS, ThreeNodes, three_nodes

TITLE = "kill -9 of one of three nodes under a producer with acks=all"
HELD_UP = Figure("held up", "s", "lower", bar=1.0)
ERRORS = Figure("records with an error", "", "lower", bar=None, own=0)
LOST = Figure("acknowledged records lost", "", "lower", bar=None, own=0)
TWICE = Figure("records twice", "", "lower", bar=None, own=0)
FIGURES = (HELD_UP, ERRORS, LOST, TWICE)
GROWTH = Figure("held up with many partitions, of that with few", "×", "lower", bar=None, own=1.5)
WRITTEN, FEW, MANY = 12, 100, 10_000
PER_TOPIC = 500


def leader(nodes: ThreeNodes, topic: str) -> int:
    """A node that leads partitions and is not the active controller."""
    controller = nodes.controller()
    return next(node for node in nodes.leaders(topic).values() if node != controller)


def controller(nodes: ThreeNodes, _: str) -> int:
    """The active controller, which leads partitions as well."""
    return nodes.controller()


VICTIMS: dict[str, Callable[[ThreeNodes, str], int]] = {"leader": leader, "active controller": controller}


def measured(nodes: ThreeNodes, victim: Callable[[ThreeNodes, str], int], name: str) -> Sample:
    """A new topic under load, a node killed, and started again when the producer gets on."""
    create_topic(nodes.address, name, WRITTEN, len(NODES))
    nodes.wait_in_sync(name)
    with Stream(nodes.address, name, WRITTEN) as stream:
        stream.wait_for_more()
        node = victim(nodes, name)
        nodes.kill(node)
        stream.wait_until_every_partition_goes_on()
    nodes.start(node)
    lost, twice = stream.lost_and_twice()
    nodes.wait_in_sync(name)
    return {HELD_UP.name: stream.longest_s, ERRORS.name: stream.errors, LOST.name: lost, TWICE.name: twice}


def fill(nodes: ThreeNodes, partitions: int) -> None:
    """Partitions besides those that are written to."""
    for number, begun in enumerate(range(WRITTEN, partitions, PER_TOPIC)):
        name = f"idle-{number}"
        try:
            create_topic(nodes.address, name, min(PER_TOPIC, partitions - begun), len(NODES))
        except KafkaException as error:  # the client asks again when an answer takes long
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        nodes.wait_in_sync(name)


def ask_one(effort: Effort, system: str, partitions: int) -> dict[str, list[Sample]]:
    """All rounds of one system, alone on the machine: so many for each victim."""
    found: dict[str, list[Sample]] = {name: [] for name in VICTIMS}
    with three_nodes(system) as nodes:
        begun = time.monotonic()
        fill(nodes, partitions)
        effort.say(f"P12 {system}: {partitions:,} partitions are there after {time.monotonic() - begun:.0f} s")
        for number in range(effort.pairs):
            for name, victim in VICTIMS.items():
                sample = measured(nodes, victim, f"written-{name.replace(' ', '-')}-{number}")
                found[name].append(sample)
                shown = ", ".join(f"{key} {value:,.4g}" for key, value in sample.items())
                effort.say(
                    f"P12 {partitions:,} partitions, {name} killed · {system} {number + 1}/{effort.pairs}: {shown}"
                )
    return found


def ask(effort: Effort) -> list[Line]:
    """Ask; with `--scale` below 1 the many partitions are fewer."""
    many = max(2 * FEW, round(MANY * min(effort.scale, 1.0)))
    found = {count: {system: ask_one(effort, system, count) for system in SYSTEMS} for count in (FEW, many)}
    lines: list[Line] = []
    for name in VICTIMS:
        for count, systems in found.items():
            samples: Samples = {system: victims[name] for system, victims in systems.items()}
            lines += lines_of(f"{name}, {count:,} partitions", FIGURES, samples)
        lines += lines_of(name, (GROWTH,), {system: _growth(found, system, name, many) for system in SYSTEMS})
    return lines


def _growth(found: dict[int, dict[str, dict[str, list[Sample]]]], system: str, victim: str, many: int) -> list[Sample]:
    pairs = zip(found[FEW][system][victim], found[many][system][victim], strict=True)
    return [{GROWTH.name: late[HELD_UP.name] / early[HELD_UP.name]} for early, late in pairs]
