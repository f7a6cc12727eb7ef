"""What the records of a consumer group say, as values that never change."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from penstock.coordinator.group.epochs import JOINS
from penstock.protocol.value import Value, fresh

Owned = Mapping[UUID, Mapping[int, int]]
"""Topic to partition to the epoch in which the member got it."""

STABLE: Final = 0
UNREVOKED_PARTITIONS: Final = 1
UNRELEASED_PARTITIONS: Final = 2
"""The states of a member; others may be in the log of a newer coordinator, which Kafka calls UNKNOWN."""


class GroupEpoch(Value):
    epoch: int
    metadata_hash: int
    """Of the topics that the members read (KIP-1101): signed, of 64 bits."""


class Subscription(Value):
    """What a member says of itself. Kafka calls the record ConsumerGroupMemberMetadata."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """In ascending order."""
    pattern: str | None = None
    """A regular expression of topics; an empty one is none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: Any = None
    """What a member that speaks the classic protocol is known by, as the record has it; None for all others."""


class Current(Value):
    """Where a member is on its way to its target."""

    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: int = STABLE
    assigned: Owned = fresh(dict)
    revoking: Owned = fresh(dict)
    """What the member is to give up, and has not said that it has."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == STABLE and self.epoch == epoch


class Resolved(Value):
    """The topics whose names a regular expression matches."""

    topics: tuple[str, ...]
    version: int
    """The offset of the metadata in which they were looked for."""
    timestamp_ms: int


NEWCOMER: Final = Current()
"""A member that is in no record yet."""


def partitions_of(owned: Owned) -> list[tuple[UUID, int]]:
    return [(topic, partition) for topic, epochs in owned.items() for partition in epochs]
