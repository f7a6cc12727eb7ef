"""What an assignor is given."""

from collections.abc import Mapping
from uuid import UUID

from penstock.protocol.value import Value

Target = Mapping[UUID, tuple[int, ...]]
"""Topic to partitions, in ascending order."""


class Reader(Value):
    instance_id: str | None
    topics: frozenset[UUID]
    """That it subscribes to, and that are there."""
    target: Target
    """What it was to have up to now."""


class Spec(Value):
    readers: dict[str, Reader]
    """By the ids of members."""
    partitions: dict[UUID, int]
    """How many there are of each topic that some reader reads."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all read the same topics."""
        return len({reader.topics for reader in self.readers.values()}) <= 1

    @property
    def size(self) -> int:
        """By which the time grows that an assignor takes."""
        return len(self.readers) + sum(self.partitions.values())


Targets = dict[str, Target]


def sorted_topics(topics: dict[UUID, set[int]]) -> Target:
    """Without those of which nothing is left."""
    return {topic: tuple(sorted(partitions)) for topic, partitions in topics.items() if partitions}
