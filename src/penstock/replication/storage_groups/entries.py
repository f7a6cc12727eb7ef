"""What stands in a group's log: a proposal is one record batch, each of its records an entry.

| kind        | value of the record                            | what it means                                         |
| ----------- | ---------------------------------------------- | ----------------------------------------------------- |
| OPENED      | an offset of the metadata, the topic's name    | the partition belongs to the group from here on       |
| APPENDED    | a record batch that has its offsets and epoch  | it stands at this place in the log of the partition   |
| CLOSED      | nothing                                        | the partition belongs to the group no longer          |
| BEGINS      | an offset (int64)                              | what the partition's log has before it is deleted     |
| HANDED_OVER | epoch, successor, milliseconds (int32 each)    | the leader of the epoch gives way: `HandedOver`       |

The key is a byte for the version and one for the kind; of the first four kinds, which are of version 0, the topic's id
and the partition's number follow. HANDED_OVER is of version 1. The log of a group says itself what belongs to it: a
replica may be behind in the metadata, or ahead. By the offset, at which the metadata had the topic, a replica that does
not find it there knows whether it is behind or the topic was deleted.
"""

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.protocol.value import Value

ABOUT_PARTITION: Final = 0
ABOUT_GROUP: Final = 1
VERSIONS: Final = (ABOUT_PARTITION, ABOUT_GROUP)
KIND: Final = struct.Struct(">bb")
KEY: Final = struct.Struct(">bb16si")
SINCE: Final = struct.Struct(">q")
OFFSET: Final = struct.Struct(">q")
HANDED_OVER: Final = struct.Struct(">iii")
BY_ITSELF: Final = -1


class Kind(enum.IntEnum):
    OPENED = 0
    APPENDED = 1
    CLOSED = 2
    HANDED_OVER = 3
    BEGINS = 4


class Scheme(enum.IntEnum):
    """How a leader gives way: when its lease ends, and with it what the others have promised."""

    RUNS_OUT = 1
    """It is not renewed any more."""
    MOVED = 2
    """It ends a moment after the leader has said so."""
    ENDED = 3
    """It is over at once; the successor stands when it has applied the entry."""

    @property
    def ends_in_ms(self) -> int | None:
        """How long the others keep what they have promised when they have applied the entry; None: as long as ever."""
        return {Scheme.RUNS_OUT: None, Scheme.MOVED: MOVED_MS, Scheme.ENDED: 0}[self]


MOVED_MS: Final = 100


class PartitionId(NamedTuple):
    """A topic that is created anew has another id."""

    topic_id: UUID
    number: int


class Entry(Value):
    kind: Kind
    partition: PartitionId
    content: bytes = b""


def opened(partition: PartitionId, topic: str, since: int) -> Entry:
    """The metadata had the partition's topic at the offset `since`."""
    return Entry(Kind.OPENED, partition, SINCE.pack(since) + topic.encode())


def decode_opened(content: bytes) -> tuple[str, int]:
    """The topic's name and the offset. Raises DecodeError."""
    try:
        return content[SINCE.size :].decode(), SINCE.unpack_from(content)[0]
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"no partition that comes into a storage group: {error}") from error


def begins(partition: PartitionId, offset: int) -> Entry:
    return Entry(Kind.BEGINS, partition, OFFSET.pack(offset))


def decode_begins(content: bytes) -> int:
    """Raises DecodeError."""
    try:
        return int(OFFSET.unpack(content)[0])
    except struct.error as error:
        raise DecodeError(f"no beginning of a partition in a storage group: {error}") from error


class HandedOver(Value):
    """The leader of this epoch gives way. Its lease ends so much later; None: when it has run out."""

    epoch: int
    successor: int
    ends_in_ms: int | None


def encode_proposal(entries: Iterable[Entry | HandedOver], now_ms: int) -> bytearray:
    return encode_batch([_record(entry, now_ms) for entry in entries])


def decode_proposals(batches: bytes) -> Iterator[Entry | HandedOver]:
    """Keeps the order. Raises DecodeError."""
    for position, header in iterate_batches(batches):
        if not header.is_control:
            for record in decode_batch(batches, position):
                yield decode_entry(record)


def _record(entry: Entry | HandedOver, now_ms: int) -> Record:
    if isinstance(entry, HandedOver):
        ends_in_ms = BY_ITSELF if entry.ends_in_ms is None else entry.ends_in_ms
        value = HANDED_OVER.pack(entry.epoch, entry.successor, ends_in_ms)
        return Record(timestamp_ms=now_ms, key=KIND.pack(ABOUT_GROUP, Kind.HANDED_OVER), value=value)
    partition = entry.partition
    key = KEY.pack(ABOUT_PARTITION, entry.kind, partition.topic_id.bytes, partition.number)
    return Record(timestamp_ms=now_ms, key=key, value=entry.content)


def decode_entry(record: Record) -> Entry | HandedOver:
    """Raises DecodeError."""
    key, value = record.key or b"", record.value or b""
    try:
        version, kind = KIND.unpack_from(key)
        if version not in VERSIONS:
            raise DecodeError(
                f"an entry of version {version} in the log of a storage group; the newest is {ABOUT_GROUP}"
            )
        if version == ABOUT_GROUP:
            if kind != Kind.HANDED_OVER:
                raise DecodeError(f"an entry of kind {kind} in the log of a storage group: it is of a newer release")
            epoch, successor, ends_in_ms = HANDED_OVER.unpack(value)
            return HandedOver(epoch, successor, None if ends_in_ms == BY_ITSELF else ends_in_ms)
        _, kind, topic_id, number = KEY.unpack(key)
        return Entry(Kind(kind), PartitionId(UUID(bytes=topic_id), number), value)
    except (struct.error, ValueError) as error:
        raise DecodeError(f"no entry of a storage group: {error}") from error
