"""`<offset>.snapshot`: the idempotent producers of a partition as they were before the batch at that offset.

Kafka's layout, big-endian: version 1 (2 bytes), CRC-32C of all that follows (4), number of entries (4), entries of
46 bytes: producer id (8), epoch (2), last sequence (4), last offset (8), offset delta (4), timestamp (8),
coordinator epoch (4), first offset of the open transaction or -1 (8).

Kafka writes one entry of each producer, for its last batch. We write one for each batch that is remembered, the last
one last: of several entries with the same producer id Kafka keeps that one.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from penstock.protocol.checksum import crc32c

SnapshotRow = tuple[int, int, int, int, int, int, int, int]
"""A `ProducerSnapshotEntry`, or a tuple of the same numbers, which costs less."""
VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshotError(ValueError):
    pass


class ProducerSnapshotEntry(NamedTuple):
    """In the order of the layout. Sequences and offsets are -1 if nothing was written since the epoch began."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_transaction_first_offset: int


def encode_snapshot(rows: Iterable[SnapshotRow]) -> bytes:
    entries = [_ENTRY.pack(*row) for row in rows]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerSnapshotEntry]:
    """Raises CorruptSnapshotError."""
    if len(content) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"a snapshot has at least {_HEAD.size + _COUNT.size} bytes, this one {len(content)}")
    version, crc = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshotError(f"snapshot version {version} is unknown, only {VERSION} is known")
    if crc32c(content[_HEAD.size :]) != crc:
        raise CorruptSnapshotError("the snapshot's checksum is wrong")
    (count,) = _COUNT.unpack_from(content, _HEAD.size)
    start = _HEAD.size + _COUNT.size
    if count < 0 or start + count * _ENTRY.size != len(content):
        raise CorruptSnapshotError(f"{count} entries do not make a snapshot of {len(content)} bytes")
    return [ProducerSnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(content[start:])]
