"""What stands in a group's log: a proposal is one record batch, each of its records an entry about one partition.

| kind     | value of the record                             | what it means                                          |
| -------- | ----------------------------------------------- | ------------------------------------------------------ |
| OPENED   | an offset of the metadata, the topic's name     | the partition belongs to the group from here on        |
| APPENDED | a record batch that has its offsets and epoch   | it stands at this place in the log of the partition    |
| CLOSED   | nothing                                         | the partition belongs to the group no longer           |

The key is a byte for the version, one for the kind, the topic's id and the partition's number. The log of a group says
itself what belongs to it: a replica may be behind in the metadata, or ahead. By the offset, at which the metadata had
the topic, a replica that does not find it there knows whether it is behind or the topic was deleted.
"""

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.protocol.value import Value

VERSION: Final = 0
KEY: Final = struct.Struct(">bb16si")
SINCE: Final = struct.Struct(">q")


class Kind(enum.IntEnum):
    """What an entry is about."""

    OPENED = 0
    APPENDED = 1
    CLOSED = 2


class PartitionId(NamedTuple):
    """A partition of a topic; a topic that is created anew has another id."""

    topic_id: UUID
    number: int


class Entry(Value):
    """One entry; see the module for what `content` is."""

    kind: Kind
    partition: PartitionId
    content: bytes = b""


def opened(partition: PartitionId, topic: str, since: int) -> Entry:
    """The partition belongs to the group; at the offset `since` the metadata had its topic."""
    return Entry(Kind.OPENED, partition, SINCE.pack(since) + topic.encode())


def decode_opened(content: bytes) -> tuple[str, int]:
    """The topic's name and the offset in such an entry. Raises DecodeError."""
    try:
        return content[SINCE.size :].decode(), SINCE.unpack_from(content)[0]
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"no partition that comes into a storage group: {error}") from error


def encode_proposal(entries: Iterable[Entry], now_ms: int) -> bytearray:
    """The record batch that stands for these entries."""
    return encode_batch([Record(timestamp_ms=now_ms, key=_key(entry), value=entry.content) for entry in entries])


def decode_proposals(batches: bytes) -> Iterator[Entry]:
    """The entries in record batches of a group's log, in order. Raises DecodeError."""
    for position, header in iterate_batches(batches):
        if not header.is_control:
            for record in decode_batch(batches, position):
                yield _entry(record)


def _key(entry: Entry) -> bytes:
    return KEY.pack(VERSION, entry.kind, entry.partition.topic_id.bytes, entry.partition.number)


def _entry(record: Record) -> Entry:
    try:
        version, kind, topic_id, number = KEY.unpack(record.key or b"")
        if version != VERSION:
            raise DecodeError(f"an entry of version {version} in the log of a storage group; known is {VERSION}")
        return Entry(Kind(kind), PartitionId(UUID(bytes=topic_id), number), record.value or b"")
    except (struct.error, ValueError) as error:
        raise DecodeError(f"no entry of a storage group: {error}") from error
