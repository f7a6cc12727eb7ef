"""Who gets what from each assignor while members, topics and tasks come and go: histories drawn by chance.

That all is given out, evenly, and little moves is held by properties; this says what comes of it, for each to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.assigning import ASSIGNORS
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec
from penstock.coordinator.group.share import assignor as by_share
from penstock.coordinator.group.streams.assignors import sticky
from penstock.coordinator.group.streams.assignors.spec import RACK_AWARE_TAGS, STANDBY_REPLICAS, Worker
from penstock.coordinator.group.streams.assignors.spec import Spec as StreamsSpec
from penstock.coordinator.group.streams.assignors.tasks import NO_TASKS, Roles, Task

EXPECTED: Final = Path(__file__).parent / "assignments"
TOPICS: Final = {chr(number): UUID(int=number) for number in b"abc"}
HISTORIES: Final = 25
STEPS: Final = 4


def ranges(numbers: Mapping[int, object] | tuple[int, ...]) -> str:
    """`0-2,5`."""
    found = []
    for _, some in groupby(enumerate(numbers), key=lambda it: it[1] - it[0]):
        run = [number for _, number in some]
        found.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(found)


def of_target(target: Mapping[Any, tuple[int, ...]]) -> str:
    names = {topic: name for name, topic in TOPICS.items()}
    parts = [f"{names.get(topic, topic)}{ranges(numbers)}" for topic, numbers in target.items()]
    return " ".join(sorted(parts)) or "-"


class Partitions:
    """Of a consumer or share group."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = Random(f"{name} {seed}")
        self.name = name
        self.are_alike = seed % 3 == 0
        self.counts = {topic: self.random.randrange(1, 9) for topic in TOPICS}
        self.reads: dict[str, tuple[str, ...]] = {}
        self.instances: dict[str, str | None] = {}
        self.targets: dict[str, Any] = {}
        self.next = 0
        for _ in range(self.random.randrange(1, 5)):
            self.join()

    def join(self) -> None:
        self.next += 1
        name = f"m{self.next}"
        some = tuple(sorted(self.random.sample("abc", self.random.randrange(1, 4))))
        self.reads[name] = ("a", "b") if self.are_alike else some
        self.instances[name] = self.random.choice([None, None, f"i{9 - self.next}"])

    def change(self) -> None:
        kind = self.random.choice(["join", "join", "leave", "grow", "resubscribe", "write in part"])
        if kind == "join" or len(self.reads) < 2:
            self.join()
        elif kind == "leave":
            gone = self.random.choice(list(self.reads))
            del self.reads[gone]
            self.targets.pop(gone, None)
        elif kind == "grow":
            self.counts[self.random.choice("abc")] += self.random.randrange(1, 3)
        elif kind == "resubscribe" and not self.are_alike:
            self.reads[self.random.choice(list(self.reads))] = (self.random.choice("abc"),)
        elif self.targets:  # of another assignment, so that several have the same
            name = self.random.choice(list(self.targets))
            self.targets[name] = self.random.choice(list(self.targets.values()))

    def assign(self) -> str:
        topics = {name: frozenset(TOPICS[topic] for topic in read) for name, read in self.reads.items()}
        counts = {TOPICS[name]: count for name, count in self.counts.items()}
        read = {topic for some in topics.values() for topic in some}
        if self.name == "share":
            readers = {name: by_share.Reader(some, self.targets.get(name, {})) for name, some in topics.items()}
            places = {topic: tuple(range(count)) for topic, count in counts.items()}
            self.targets = dict(by_share.assign(by_share.Spec(readers, places)))
        else:
            spec = Spec(
                {name: Reader(self.instances[name], topics[name], self.targets.get(name, {})) for name in topics},
                {topic: count for topic, count in counts.items() if topic in read},
            )
            self.targets = dict(ASSIGNORS[self.name](spec))
        reads = " ".join(f"{name}{count}" for name, count in self.counts.items())
        who = "; ".join(f"{name} {''.join(self.reads[name])}: {of_target(it)}" for name, it in self.targets.items())
        return f"{reads} | {who}"


class Tasks:
    """Of a streams group."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = Random(f"{name} {seed}")
        self.tasks = {str(number): self.random.randrange(1, 6) for number in range(self.random.randrange(1, 4))}
        self.stateful = frozenset(name for name in self.tasks if self.random.random() < 0.7)
        self.configs = {STANDBY_REPLICAS: str(self.random.randrange(3))}
        self.tags = self.random.choice([(), ("zone",), ("zone", "host")])
        if self.tags:
            self.configs[RACK_AWARE_TAGS] = ",".join(self.tags)
        self.workers: dict[str, Worker] = {}
        self.next = 0
        for _ in range(self.random.randrange(1, 6)):
            self.join()

    def join(self) -> None:
        self.next += 1
        process = f"p{self.random.randrange(6)}"
        said = {tag: self.random.choice("xyz") for tag in self.tags if self.random.random() < 0.9}
        tags = next((one.tags for one in self.workers.values() if one.process_id == process), said)
        self.workers[f"m{self.next}"] = Worker(None, None, process, tags, NO_TASKS, self.offsets())

    def offsets(self) -> dict[Task, int]:
        every = [(name, number) for name in sorted(self.stateful) for number in range(self.tasks[name])]
        return {task: self.random.randrange(3) for task in every if self.random.random() < 0.2}

    def change(self) -> None:
        kind = self.random.choice(["join", "leave", "grow", "offsets", "join"])
        if kind == "join" or len(self.workers) < 2:
            self.join()
        elif kind == "leave":
            del self.workers[self.random.choice(list(self.workers))]
        elif kind == "grow":
            self.tasks[self.random.choice(list(self.tasks))] += 1
        else:
            name = self.random.choice(list(self.workers))
            self.workers[name] = self.workers[name].replace(offsets=self.offsets())

    def assign(self) -> str:
        found = sticky.assign(StreamsSpec(self.workers, self.tasks, self.stateful, self.configs))
        self.workers = {name: one.replace(held=found[name]) for name, one in self.workers.items()}
        tasks = " ".join(f"{name}*{count}{'s' * (name in self.stateful)}" for name, count in self.tasks.items())
        who = "; ".join(f"{name} {self.worker(name)}: {self.roles(found[name])}" for name in self.workers)
        return f"{tasks}, {self.configs[STANDBY_REPLICAS]} replicas | {who}"

    def worker(self, name: str) -> str:
        one = self.workers[name]
        return one.process_id + "".join(one.tags.get(tag, "-") for tag in self.tags)

    def roles(self, roles: Roles) -> str:
        parts = [
            " ".join(f"{sub}_{ranges(numbers)}" for sub, numbers in sorted(tasks.items()))
            for tasks in (roles.active, roles.standby, roles.warmup)
        ]
        return " + ".join(part or "-" for part in parts[: 2 + bool(parts[2])])


MADE: Final[dict[str, Callable[[str, int], Any]]] = {
    "uniform": Partitions,
    "range": Partitions,
    "share": Partitions,
    "sticky": Tasks,
}


def lines(name: str) -> Iterator[str]:
    for seed in range(HISTORIES):
        history = MADE[name](name, seed)
        yield f"# {seed}"
        for _ in range(STEPS):
            yield history.assign()
            history.change()


@pytest.mark.parametrize("name", MADE)
def test_it_is_as_written(request: pytest.FixtureRequest, name: str) -> None:
    path = EXPECTED / f"{name}.txt"
    text = "\n".join(lines(name)) + "\n"
    if request.config.getoption("--rewrite", default=False):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
