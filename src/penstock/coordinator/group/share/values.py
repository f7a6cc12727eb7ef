"""What the records of a share group say, as values that never change."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.epochs import JOINS
from penstock.protocol.value import Value, fresh

STABLE: Final = 0
"""The state of each member: nothing is to be given up before somebody else has it."""


class Subscription(Value):
    """What a member says of itself. Kafka calls the record ShareGroupMemberMetadata."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """In ascending order."""


class Current(Value):
    """What a member has."""

    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: int = STABLE
    assigned: Target = fresh(dict)


NEWCOMER: Final = Current()
"""A member that is in no record yet."""


class OfTopic(Value):
    """Partitions of a topic, in ascending order, and the name by which it was known."""

    name: str
    partitions: tuple[int, ...]


Initialized = Mapping[UUID, OfTopic]


class StatePartitions(Value):
    """Where the share coordinator keeps what the group has read. Kafka calls it ShareGroupStatePartitionMetadata.

    | from | to | when |
    | --- | --- | --- |
    | nothing | initializing | a member reads the topic, or it has got more partitions |
    | initializing | initialized | the share coordinator has begun all of the topic's that were to begin |
    | either | deleting | the offsets, or the whole group, are to go |
    | any | nothing | the share coordinator has deleted them, or the topic is gone |
    """

    initializing: Initialized = fresh(dict)
    initialized: Initialized = fresh(dict)
    deleting: Mapping[UUID, str] = fresh(dict)

    @property
    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)

    @property
    def assignable(self) -> dict[UUID, tuple[int, ...]]:
        return {topic: found.partitions for topic, found in self.initialized.items()}

    def begun(self, topics: Initialized) -> "StatePartitions":
        return self.replace(initializing=_joined(self.initializing, topics))

    def done(self, topics: Initialized) -> "StatePartitions":
        """These have begun. What is not waited for any more is left as it is."""
        done = {topic: found for topic, found in topics.items() if topic in self.initializing}
        return self.replace(initializing=_without(self.initializing, done), initialized=_joined(self.initialized, done))

    def undone(self, topics: Iterable[UUID]) -> "StatePartitions":
        """They have not begun, and nobody waits for that any more."""
        return self.replace(initializing=_without(self.initializing, dict.fromkeys(topics)))

    def given_up(self, topics: Mapping[UUID, str]) -> "StatePartitions":
        """They are to be deleted."""
        return StatePartitions(
            _without(self.initializing, topics), _without(self.initialized, topics), {**self.deleting, **topics}
        )

    def without(self, topics: Iterable[UUID]) -> "StatePartitions":
        """Nothing is left of them."""
        gone = dict.fromkeys(topics)
        deleting = {topic: name for topic, name in self.deleting.items() if topic not in gone}
        return StatePartitions(_without(self.initializing, gone), _without(self.initialized, gone), deleting)

    def topics(self) -> list[UUID]:
        return list(dict.fromkeys([*self.initializing, *self.initialized, *self.deleting]))


def _joined(some: Initialized, others: Initialized) -> dict[UUID, OfTopic]:
    joined = dict(some)
    for topic, found in others.items():
        before = joined[topic].partitions if topic in joined else ()
        joined[topic] = OfTopic(found.name, tuple(sorted({*before, *found.partitions})))
    return joined


def _without(some: Initialized, topics: Mapping[UUID, object]) -> dict[UUID, OfTopic]:
    return {topic: found for topic, found in some.items() if topic not in topics}
