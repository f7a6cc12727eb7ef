"""Tasks of a streams group: a subtopology and the number of a partition.

A member runs a task as the active one, as a standby that follows its changelog, or as a warm-up: a standby that is to
become the active one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from penstock.protocol.value import Value, fresh

Task = tuple[str, int]
"""A subtopology and a partition."""
Tasks = Mapping[str, tuple[int, ...]]
"""Subtopology to partitions, in ascending order; none is without partitions."""


class Roles(Value):
    """Tasks by what they are run as. Kafka calls it TasksTuple."""

    active: Tasks = fresh(dict)
    standby: Tasks = fresh(dict)
    warmup: Tasks = fresh(dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Roles()


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """Of `Tasks`, or of anything that has partitions by their subtopologies."""
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)


def by_subtopology(tasks: Iterable[Task]) -> Tasks:
    """With subtopologies in the order in which they come first."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in tasks:
        found.setdefault(subtopology, []).append(partition)
    return {subtopology: tuple(sorted(partitions)) for subtopology, partitions in found.items()}
