"""A snapshot of a group's log: which partitions it has, and from where up to where their own logs hold what it said.

It is small, for the partitions' logs themselves are what a snapshot stands for. A replica has a snapshot only if these
logs are on its disk up to the offsets that it names: a replica that takes one flushes them before, one that fetches it
copies first what it lacks. It deletes what comes before the beginnings that the snapshot names.

It is laid out as the `.checkpoint` files of Kafka's metadata log (KIP-630, KIP-853), so that `penstock dump-log` can
show it.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from penstock.protocol.control.snapshot_file import batches_of_snapshot, encode_snapshot_file
from penstock.protocol.errors import DecodeError, UnsupportedError
from penstock.protocol.records import Record, iterate_records
from penstock.protocol.value import Value
from penstock.raft.control import snapshot_header_records
from penstock.raft.voters import Quorum
from penstock.replication.storage_groups.entries import PartitionId

WITHOUT_STARTS: Final = 0
VERSION: Final = 1
KEY: Final = struct.Struct(">b16si")
OFFSETS: Final = struct.Struct(">qq")
START: Final = struct.Struct(">q")
REMOVED: Final = -1
"""The end of a partition's log whose topic was deleted, while the group still lists the partition."""
PARTITIONS_PER_BATCH: Final = 1000


class PartitionState(Value):
    """At `since` the metadata had the partition's topic."""

    id: PartitionId
    topic: str
    end_offset: int
    since: int = 0
    start_offset: int = 0


def encode_snapshot(states: Iterable[PartitionState], quorum: Quorum, *, epoch: int, now_ms: int) -> Iterator[bytes]:
    """Batch by batch; `epoch` is that of the last record of the log that it stands for."""
    header = snapshot_header_records(quorum, now_ms, now_ms)
    return encode_snapshot_file(header, _in_batches(states), epoch=epoch, now_ms=now_ms)


def _in_batches(states: Iterable[PartitionState]) -> Iterator[Sequence[Record]]:
    rest = iter(states)
    while batch := [_record(state) for state in islice(rest, PARTITIONS_PER_BATCH)]:
        yield batch


def decode_snapshot(content: bytes) -> Iterator[PartitionState]:
    """Raises DecodeError if it is damaged or has no end."""
    for position, header in batches_of_snapshot(content):
        yield from map(decode_state, iterate_records(content, position, header))


def _record(state: PartitionState) -> Record:
    key = KEY.pack(VERSION, state.id.topic_id.bytes, state.id.number)
    offsets = OFFSETS.pack(state.end_offset, state.since) + START.pack(state.start_offset)
    return Record(timestamp_ms=0, key=key, value=offsets + state.topic.encode())


def decode_state(record: Record) -> PartitionState:
    """Raises DecodeError."""
    value = record.value or b""
    try:
        version, topic_id, number = KEY.unpack(record.key or b"")
        if version not in (WITHOUT_STARTS, VERSION):
            raise UnsupportedError(f"a snapshot of a storage group of version {version}; the newest is {VERSION}")
        end_offset, since = OFFSETS.unpack_from(value)
        start_offset, topic = 0, value[OFFSETS.size :]
        if version == VERSION:
            (start_offset,), topic = START.unpack_from(topic), topic[START.size :]
        partition = PartitionId(UUID(bytes=topic_id), number)
        return PartitionState(partition, topic.decode(), end_offset, since, start_offset)
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"no partition of a storage group: {error}") from error
