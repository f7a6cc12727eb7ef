"""Topics and partitions of the `ClusterImage`.

Partitions are what a cluster has most of, so they are small: an immutable tuple whose lists of replicas and directories
are shared between all partitions that have the same ones (see `Sharing`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from uuid import UUID

from penstock.metadata.records import PartitionChangeRecord, PartitionRecord
from penstock.protocol.internal_topics import STORAGE_GROUPS, has_replicas, is_internal

NO_LEADER = -1
RECOVERING = 1
"""A leader elected uncleanly finds out first what was committed (KIP-704)."""
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1

UNKNOWN_DIRECTORY = UUID(int=0)
"""The broker did not tell its directories when the replica was placed; Kafka calls it MIGRATING (KIP-858)."""

UNASSIGNED_DIRECTORY = UUID(int=1)
"""The broker has several directories, and has not said yet in which of them the replica lies (KIP-858)."""

LOST_DIRECTORY = UUID(int=2)
"""The replica lies in a directory that is offline, and the broker does not say in which (KIP-858)."""

RESERVED_DIRECTORIES = 100
"""Ids below this one name no directory (KIP-858)."""

MAX_SHARED = 16_384
"""Beyond this many different lists they are no longer shared: it bounds the table, not the cluster."""

ItemT = TypeVar("ItemT", int, UUID)


class PartitionImage(NamedTuple):
    """`leader_epoch` grows with each leader, `partition_epoch` with each change."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, broker_id: int) -> UUID:
        """`UNASSIGNED_DIRECTORY` if the broker has not said."""
        if len(self.directories) != len(self.replicas) or broker_id not in self.replicas:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]


@dataclass(slots=True, repr=False)
class TopicImage:
    """`partitions` is by index and without a gap."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)
    storage_group: int | None = field(default=None, compare=False)
    """All partitions belong to it; None if they are replicated by ISR."""

    @property
    def by_consensus(self) -> bool:
        """Storage groups, not the controller, elect the leaders."""
        return self.storage_group is not None or self.name == STORAGE_GROUPS

    @property
    def has_replicas(self) -> bool:
        """If brokers hold no logs, a driver of the consensus core does."""
        return has_replicas(self.name)

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def copy(self) -> "TopicImage":
        """The partitions, which never change, are the same objects."""
        return TopicImage(self.name, self.topic_id, dict(self.partitions), self.storage_group)

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {self.topic_id}, {len(self.partitions)} partitions)"


class Sharing:
    """One tuple for all equal lists: ten thousand partitions have few different ones."""

    __slots__ = ("_directories", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._directories: dict[tuple[UUID, ...], tuple[UUID, ...]] = {}

    def replicas(self, items: list[int] | None) -> tuple[int, ...]:
        """None, an unset list of a record, is the empty tuple."""
        return _shared(self._replicas, items)

    def directories(self, items: list[UUID] | None) -> tuple[UUID, ...]:
        return _shared(self._directories, items)


def is_reserved(directory: UUID) -> bool:
    """No directory has such an id."""
    return directory.int < RESERVED_DIRECTORIES


def is_online(directory: UUID, online: tuple[UUID, ...]) -> bool:
    """The broker's directories are `online`, none if unknown."""
    if is_reserved(directory):
        return directory != LOST_DIRECTORY
    return not online or directory in online


def partition_from(record: PartitionRecord, sharing: Sharing) -> PartitionImage:
    return PartitionImage(
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        sharing.replicas(record.replicas),
        sharing.replicas(record.isr),
        sharing.directories(record.directories),
        sharing.replicas(record.removing_replicas),
        sharing.replicas(record.adding_replicas),
        record.leader_recovery_state,
        sharing.replicas(record.eligible_leader_replicas),
        sharing.replicas(record.last_known_elr),
    )


def partition_changed(partition: PartitionImage, record: PartitionChangeRecord, sharing: Sharing) -> PartitionImage:
    """Fields that the record leaves unset stay, a named leader begins a new leader epoch."""
    before, shared = partition, sharing.replicas
    new_leader = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return PartitionImage(
        record.leader if new_leader else before.leader,
        before.leader_epoch + 1 if new_leader else before.leader_epoch,
        before.partition_epoch + 1,
        before.replicas if record.replicas is None else shared(record.replicas),
        before.isr if record.isr is None else shared(record.isr),
        before.directories if record.directories is None else sharing.directories(record.directories),
        before.removing_replicas if record.removing_replicas is None else shared(record.removing_replicas),
        before.adding_replicas if record.adding_replicas is None else shared(record.adding_replicas),
        before.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
        before.eligible_leader_replicas
        if record.eligible_leader_replicas is None
        else shared(record.eligible_leader_replicas),
        before.last_known_elr if record.last_known_elr is None else shared(record.last_known_elr),
    )


def is_unclean_election(before: PartitionImage, after: PartitionImage) -> bool:
    """Whether one leads from now on that may not have all that was committed."""
    return after.leader not in (before.leader, NO_LEADER) and after.leader_recovery_state == RECOVERING


def partition_record(topic_id: UUID, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _shared(table: dict[tuple[ItemT, ...], tuple[ItemT, ...]], items: list[ItemT] | None) -> tuple[ItemT, ...]:
    if not items:
        return ()
    key = tuple(items)
    if len(table) >= MAX_SHARED:
        return table.get(key, key)
    return table.setdefault(key, key)
