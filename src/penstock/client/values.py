"""The small values that every part of the client speaks in: partitions, offsets, records, what a send came to.

All of them are immutable. Offsets count records from 0; times are milliseconds since 1970.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from penstock.protocol.value import Value, fresh

NO_TIMESTAMP = -1
NO_OFFSET = -1

LATEST: Final = -1
"""Instead of a timestamp: the end of the log; under READ_COMMITTED the last stable offset."""
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

Item = TypeVar("Item")
Place = TypeVar("Place", bound=tuple[str, int])
"""A partition, by topic and number."""


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are seen (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, and what the application noted beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What a look-up by time found: the record's offset and its own timestamp (-1 where the log has none)."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """With acks=0 the offset is unknown: -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumedRecord(Value):
    """`leader_epoch` is that in which it was written, -1 if it is not known."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = fresh(list)
    is_log_append_time: bool = False
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class LeaderTold(Protocol):
    """The leader that an answer names; -1 where it names none."""

    leader_id: int
    leader_epoch: int


class EndpointTold(Protocol):
    node_id: int
    host: str
    port: int
    rack: str | None


def by_topic(items: Mapping[Place, Item]) -> dict[str, dict[int, Item]]:
    """Nested as the protocol's messages are."""
    topics: dict[str, dict[int, Item]] = {}
    for (topic, partition), item in items.items():
        topics.setdefault(topic, {})[partition] = item
    return topics


def numbers_by_topic(partitions: Iterable[Place]) -> list[tuple[str, list[int]]]:
    """Topics with the numbers of their partitions, sorted."""
    return [(topic, list(rows)) for topic, rows in by_topic(dict.fromkeys(sorted(partitions))).items()]


class TransactionName(Value):
    """A transaction, and who writes it. `is_kept`: it is decided elsewhere, and has no time-out."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_kept: bool = False
