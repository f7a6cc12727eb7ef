"""P12: kill -9 of a leader and of the active controller: how long is a producer held up, and what does it lose?"""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from bench.stream import PATIENCE_S, Stream
from bench.topics import create_topic, fill, leaders_of, wait_in_sync
from bench.versus.lines import Figure, Line, lines_of, sample_of
from bench.versus.systems import Effort, Sample, Samples
from bench.versus.three_nodes import NODES, SYSTEMS, ThreeNodes, three_nodes

HELD_UP = Figure("held up", "s", "lower", bar=1.0)
ERRORS = Figure("records with an error", "", "lower", bar=None, own=0)
LOST = Figure("acknowledged records lost", "", "lower", bar=None, own=0)
TWICE = Figure("records twice", "", "lower", bar=None, own=0)
FIGURES = (HELD_UP, ERRORS, LOST, TWICE)
GROWTH = Figure("held up with many partitions, of that with few", "×", "lower", bar=None, own=1.5)
WRITTEN, FEW, MANY = 12, 100, 10_000
PER_TOPIC = 500
RATE = 1_200
"""Records a second: one for each partition every ten milliseconds."""


def leader(nodes: ThreeNodes, topic: str) -> int:
    """A node that leads partitions and is not the active controller."""
    controller = nodes.controller()
    return next(node for node in leaders_of(nodes.address, topic).values() if node != controller)


VICTIMS: dict[str, Callable[[ThreeNodes, str], int]] = {
    "leader": leader,
    "active controller": lambda nodes, _: nodes.controller(),  # which leads partitions as well
}


def lost_and_twice(address: str, stream: Stream) -> tuple[int, int]:
    """How many records were acknowledged and are not there, and how many are there more than once."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "count", "log_level": 0})
    places = [TopicPartition(stream.topic, index, 0) for index in range(WRITTEN)]
    left = sum(consumer.get_watermark_offsets(one, timeout=60)[1] for one in places)
    consumer.assign(places)
    seen: dict[bytes, int] = {}
    deadline = time.monotonic() + PATIENCE_S
    while left > 0 and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1.0):
            value = message.value()
            if message.error() is None and value is not None:
                seen[value] = seen.get(value, 0) + 1
                left -= 1
    consumer.close()
    return len(stream.acknowledged() - seen.keys()), sum(times > 1 for times in seen.values())


def measured(nodes: ThreeNodes, victim: Callable[[ThreeNodes, str], int], name: str) -> Sample:
    """A new topic under load, a node killed, and started again when the producer gets on."""
    create_topic(nodes.address, name, WRITTEN, len(NODES))
    wait_in_sync(nodes.address, name, len(NODES))
    with Stream(nodes.address, name, WRITTEN, rate=RATE, linger_ms=0) as stream:
        stream.wait_for_more()
        node = victim(nodes, name)
        nodes.kill(node)
        stream.wait_until_every_partition_goes_on()
    nodes.start(node)
    lost, twice = lost_and_twice(nodes.address, stream)
    wait_in_sync(nodes.address, name, len(NODES))
    return sample_of(FIGURES, stream.longest_ms() / 1000, len(stream.refused), lost, twice)


def ask_one(effort: Effort, system: str, partitions: int) -> dict[str, list[Sample]]:
    """All rounds of one system, alone on the machine: so many for each victim."""
    found: dict[str, list[Sample]] = {name: [] for name in VICTIMS}
    with three_nodes(system) as nodes:
        begun = time.monotonic()
        fill(nodes.address, partitions - WRITTEN, len(NODES), per_topic=PER_TOPIC, waits=True)
        effort.say(f"P12 {system}: {partitions:,} partitions are there after {time.monotonic() - begun:.0f} s")
        for number in range(effort.pairs):
            for name, victim in VICTIMS.items():
                sample = measured(nodes, victim, f"written-{name.replace(' ', '-')}-{number}")
                found[name].append(sample)
                effort.show(f"P12 {partitions:,} partitions, {name} killed", system, number + 1, sample)
    return found


def killed(effort: Effort) -> list[Line]:
    """See the module. With `--scale` below 1 the many partitions are fewer."""
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
