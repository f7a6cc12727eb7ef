"""Read any file of a Kafka log directory, ours or another broker's, entry by entry: what `penstock dump-log` prints.

Nothing here writes, and nothing trusts the files: a segment is read up to the first batch that makes no sense, and
that is said.
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from struct import Struct
from uuid import UUID

from penstock.log import names
from penstock.log.checkpoint import TopicPartition, decode_leader_epochs, decode_offsets, decode_partition_metadata
from penstock.log.disk import Disk
from penstock.log.offset_index import OFFSET_ENTRY
from penstock.log.producer_snapshot import ProducerSnapshotEntry, decode_snapshot
from penstock.log.time_index import TIME_ENTRY
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, iterate_records
from penstock.protocol.value import Value

MAX_UNPACKED_BYTES = 1 << 30


class FileKind(Enum):
    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LEADER_EPOCHS = "leader epochs"
    OFFSET_CHECKPOINT = "offset checkpoint"
    PARTITION_METADATA = "partition metadata"


_KINDS_BY_NAME = {
    names.LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    names.RECOVERY_POINTS: FileKind.OFFSET_CHECKPOINT,
    names.LOG_START_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    names.HIGH_WATERMARKS: FileKind.OFFSET_CHECKPOINT,
    names.CLEANED_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    names.PARTITION_METADATA: FileKind.PARTITION_METADATA,
}
_KINDS_BY_SUFFIX = {
    names.LOG_SUFFIX: FileKind.SEGMENT,
    ".checkpoint": FileKind.SEGMENT,  # a snapshot of the metadata log has a segment's layout
    names.INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    names.TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    names.SNAPSHOT_SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}


class DumpedBatch(Value, kw_only=True):
    position: int
    header: BatchHeader
    is_valid: bool
    data: bytes

    def records(self) -> Iterator[Record]:
        """DecodeError as they come."""
        return iterate_records(self.data, 0, self.header, max_bytes=MAX_UNPACKED_BYTES)


class BrokenTail(Value, kw_only=True):
    """`problem` says why the segment makes no sense from here on."""

    position: int
    size: int
    problem: str


class OffsetEntry(Value, kw_only=True):
    """The batch that ends with this offset begins at this position."""

    offset: int
    position: int


class TimeEntry(Value, kw_only=True):
    """Batches with later timestamps end behind this offset."""

    timestamp_ms: int
    offset: int


def kind_of(path: str) -> FileKind | None:
    """None for files that cannot be dumped."""
    name = PurePath(path).name.removesuffix(names.DELETED_SUFFIX)
    return _KINDS_BY_NAME.get(name) or _KINDS_BY_SUFFIX.get(PurePath(name).suffix)


def base_offset_of(path: str) -> int:
    """0 if the file's name has none."""
    return names.offset_of(PurePath(path).name.partition("-")[0]) or 0


def dump_segment(path: str, *, max_bytes: int | None = None) -> Iterator[DumpedBatch | BrokenTail]:
    """The last one is a BrokenTail if any bytes follow the batches. Raises OSError."""
    file = Disk().open_for_reading(path)
    size = file.size() if max_bytes is None else min(max_bytes, file.size())
    position = 0
    while position < size:
        try:
            header = read_header(file.read_at(HEADER_SIZE, position), 0)
        except DecodeError as error:
            yield BrokenTail(position=position, size=size - position, problem=str(error))
            return
        if position + header.size_in_bytes > size:
            problem = f"a batch of {header.size_in_bytes} bytes is cut off"
            yield BrokenTail(position=position, size=size - position, problem=problem)
            return
        data = file.read_at(header.size_in_bytes, position)
        yield DumpedBatch(position=position, header=header, is_valid=check_crc(data, 0, header), data=data)
        position += header.size_in_bytes


def dump_offset_index(path: str) -> Iterator[OffsetEntry]:
    """Running brokers fill the file up with zeros: these are left out. Raises OSError."""
    base_offset = base_offset_of(path)
    for number, (relative, position) in enumerate(_entries(path, OFFSET_ENTRY)):
        if number and not position:
            return
        yield OffsetEntry(offset=base_offset + relative, position=position)


def dump_time_index(path: str) -> Iterator[TimeEntry]:
    """Zeros that fill the file up are left out. Raises OSError."""
    base_offset = base_offset_of(path)
    for timestamp_ms, relative in _entries(path, TIME_ENTRY):
        if not timestamp_ms:
            return
        yield TimeEntry(timestamp_ms=timestamp_ms, offset=base_offset + relative)


def dump_producer_snapshot(path: str) -> list[ProducerSnapshotEntry]:
    """Raises OSError and CorruptSnapshotError."""
    return decode_snapshot(_content(path))


def dump_leader_epochs(path: str) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs; raises OSError and CorruptCheckpointError."""
    return decode_leader_epochs(_content(path), path)


def dump_offset_checkpoint(path: str) -> dict[TopicPartition, int]:
    """(topic, partition) -> offset; raises OSError and CorruptCheckpointError."""
    return decode_offsets(_content(path), path)


def dump_partition_metadata(path: str) -> UUID:
    """Raises OSError and CorruptCheckpointError."""
    return decode_partition_metadata(_content(path), path)


def _content(path: str) -> bytes:
    content = Disk().read_file(path)
    if content is None:
        raise FileNotFoundError(f"there is no file {path}")
    return content


def _entries(path: str, layout: Struct) -> Iterator[tuple[int, int]]:
    """A node writes an index with its first entry: none is there beside a segment that needs none."""
    is_unwritten = not Disk().exists(path) and Disk().exists(str(PurePath(path).with_suffix(names.LOG_SUFFIX)))
    content = b"" if is_unwritten else _content(path)
    yield from layout.iter_unpack(content[: len(content) // layout.size * layout.size])
