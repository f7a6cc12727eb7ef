"""A snapshot of the image: metadata records in a file of Kafka's layout (`protocol.control.snapshot_file`).

The file's name says which part of the log it stands for: the offset after the last record that it contains, and that
record's leader epoch.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from penstock.metadata.features import NEWEST_METADATA_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import FRAME_VERSION, decode_record, encode_record, layout_at
from penstock.metadata.records import MetadataRecord, PartitionRecord
from penstock.metadata.topics import MAX_SHARED, PartitionImage
from penstock.protocol.batch import BatchHeader
from penstock.protocol.control.snapshot_file import (
    batches_of_snapshot,
    encode_snapshot_file,
    snapshot_header_record,
)
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, keys_and_values, unpack_records
from penstock.protocol.uuids import uuid_of
from penstock.protocol.varint import Buffer

RECORDS_PER_BATCH = 1024
_FRAMES: Final = frozenset(
    bytes((FRAME_VERSION, PartitionRecord.record_type, version)) for version in PartitionRecord.version_range()
)
_INDEX: Final = slice(3, 7)
_TOPIC: Final = slice(7, 23)
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def snapshot_name(end_offset: int, leader_epoch: int) -> str:
    """The snapshot has all records before `end_offset`."""
    return f"{end_offset:020d}-{leader_epoch:010d}.checkpoint"


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """(end offset, leader epoch); None for other files."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def encode_snapshot(
    records: Iterable[MetadataRecord],
    *,
    leader_epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    level: int = NEWEST_METADATA_VERSION,
    header: Sequence[Record] | None = None,
) -> Iterator[bytes]:
    """Batch by batch: a large file need not be in memory as a whole. `level` is that of metadata.version, so that all
    nodes can read the records. `header` are control records of more than the timestamp: the voters.
    """
    return encode_snapshot_file(
        header or [snapshot_header_record(last_timestamp_ms, now_ms)],
        _in_batches(records, level, now_ms),
        epoch=leader_epoch,
        now_ms=now_ms,
    )


def _in_batches(records: Iterable[MetadataRecord], level: int, now_ms: int) -> Iterator[Sequence[Record]]:
    rest = iter(records)
    while batch := [
        Record(timestamp_ms=now_ms, value=encode_record(record, layout_at(level, type(record))))
        for record in islice(rest, RECORDS_PER_BATCH)
    ]:
        yield batch


def decode_snapshot(content: bytes) -> Iterator[MetadataRecord]:
    """DecodeError if the snapshot is damaged or has no end."""
    for values in snapshot_values(content):
        yield from map(decode_record, values)


def snapshot_values(content: bytes) -> Iterator[Iterator[bytes]]:
    """Values come batch by batch."""
    for position, header in batches_of_snapshot(content):
        yield record_values(content, position, header)


def record_values(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[bytes]:
    """Frames of metadata records (`record_frames`). Raises DecodeError."""
    for number, (_, value) in enumerate(keys_and_values(unpack_records(buffer, position, header), header)):
        if value is None:
            raise DecodeError(f"the record at offset {header.base_offset + number} of the metadata log is empty")
        yield value


class AlikePartitions:
    """As `image.apply(decode_record(value))` for each record of a snapshot, but sooner: most partitions are like
    another one. The frame of a PartitionRecord has the partition's number and the id of its topic in front, in places
    that never change; the bytes behind them are the state, and equal ones are read once.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._known: dict[tuple[bytes, bytes], PartitionImage] = {}
        """The keys are the state's bytes, and the version of the layout."""

    def apply(self, value: bytes) -> None:
        """Raises DecodeError, UnsupportedMetadataError."""
        frame = value[: _INDEX.start]
        if frame not in _FRAMES:
            self._image.apply(decode_record(value))
            return
        state = frame, value[_TOPIC.stop :]
        known = self._known.get(state)
        if known is not None:
            index = int.from_bytes(value[_INDEX], signed=True)
            self._image.put_partition(uuid_of(value[_TOPIC]), index, known)
            return
        record = decode_record(value)
        assert isinstance(record, PartitionRecord)
        self._image.apply(record)
        if len(self._known) < MAX_SHARED:
            self._known[state] = self._image.topics_by_id[record.topic_id].partitions[record.partition_id]
