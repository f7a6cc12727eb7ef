"""What an assignor is given, and what it gives."""

from collections.abc import Callable, Mapping
from typing import Final

from penstock.coordinator.group.streams.assignors.tasks import NO_TASKS, Roles, Task
from penstock.protocol.value import Value, fresh

STANDBY_REPLICAS: Final = "num.standby.replicas"
RACK_AWARE_TAGS: Final = "rack.aware.assignment.tags"

Offsets = Mapping[Task, int]
"""The sum of the offsets in a task's changelogs."""


class Worker(Value):
    """A member."""

    instance_id: str | None = None
    rack_id: str | None = None
    process_id: str = ""
    tags: Mapping[str, str] = fresh(dict)
    held: Roles = NO_TASKS
    """What it was to have up to now."""
    offsets: Offsets = fresh(dict)
    """How far it has come with the tasks of which it has something on disk."""
    end_offsets: Offsets = fresh(dict)


class Spec(Value):
    members: Mapping[str, Worker]
    tasks: Mapping[str, int]
    """How many tasks each subtopology has."""
    stateful: frozenset[str] = frozenset()
    """The subtopologies that have something on disk: only these have standbys."""
    configs: Mapping[str, str] = fresh(dict)

    @property
    def standby_replicas(self) -> int:
        return int(self.configs.get(STANDBY_REPLICAS, 0))

    @property
    def rack_aware_tags(self) -> tuple[str, ...]:
        """Names of tags in which a task and its standbys are to differ, the most important first."""
        named = (name.strip() for name in self.configs.get(RACK_AWARE_TAGS, "").split(","))
        return tuple(name for name in named if name)

    @property
    def size(self) -> int:
        """By which the time grows that an assignor takes."""
        return len(self.members) + sum(self.tasks.values()) * (1 + self.standby_replicas)

    def tasks_of(self, subtopologies: Mapping[str, int] | frozenset[str]) -> list[Task]:
        return [
            (subtopology, partition)
            for subtopology, count in self.tasks.items()
            if subtopology in subtopologies
            for partition in range(count)
        ]


Targets = dict[str, Roles]
"""By the ids of members."""
Assignor = Callable[[Spec], Targets]
