"""Read what `penstock metadata-shell` shows: a snapshot, a segment of the metadata log, or a data directory.

Nothing is written, and no lock is taken: the files may be those of a node that runs, ours or Apache Kafka's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.log.directories.meta_properties import read_meta_properties
from penstock.log.disk import Disk
from penstock.log.dump import BrokenTail, dump_segment
from penstock.log.names import partition_directory
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import decode_record
from penstock.metadata.records import ProducerIdsRecord
from penstock.metadata.snapshot import parse_snapshot_name
from penstock.metadata.transaction import MetadataTransaction
from penstock.protocol.batch import BatchHeader
from penstock.protocol.codec import decode
from penstock.protocol.control.records import ControlType, control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.records import Record

METADATA_DIRECTORY = partition_directory(CLUSTER_METADATA, 0)
NO_RECORDS = (0, 0)


@dataclass(slots=True)
class MetadataView:
    image: ClusterImage = field(default_factory=ClusterImage)
    last_timestamp_ms: int = -1
    elected_ms: int = -1
    producer_ids: ProducerIdsRecord | None = None
    transaction: MetadataTransaction = field(default_factory=MetadataTransaction)


def read_view(path: Path) -> MetadataView:
    """Raises OSError and LogDirectoryError, and DecodeError for damage."""
    view = MetadataView()
    directory = path if path.is_dir() else path.parent
    if (directory / METADATA_DIRECTORY).is_dir():
        directory = directory / METADATA_DIRECTORY
    for file in _files(directory) if path.is_dir() else [path]:
        _read_file(view, file)
    identity = read_meta_properties(Disk(), str(directory.parent))
    view.image.cluster_id = identity.cluster_id if identity is not None else ""
    return view


def _files(directory: Path) -> list[Path]:
    """The newest snapshot, then the segments. A snapshot of no records counts only where there is no log."""
    snapshots = sorted(file for file in directory.glob("*.checkpoint") if parse_snapshot_name(file.name))
    segments = sorted(directory.glob("*.log"))
    if not snapshots and not segments:
        raise DecodeError(f"{directory} holds neither a snapshot nor a segment of the metadata log")
    has_log = any(segment.stat().st_size for segment in segments)
    return [
        file for file in snapshots[-1:] if not (has_log and parse_snapshot_name(file.name) == NO_RECORDS)
    ] + segments


def _read_file(view: MetadataView, file: Path) -> None:
    """Passes over what the view has already."""
    end = parse_snapshot_name(file.name)
    for batch in dump_segment(str(file)):
        if isinstance(batch, BrokenTail):
            return  # a node may be writing it right now
        if not batch.is_valid:
            raise DecodeError(f"{file}: the batch at position {batch.position} is damaged")
        read_batch(view, batch.header, batch.records(), is_snapshot=end is not None)
    if end is not None:
        view.image.applied_to(end[0] - 1)


def read_batch(view: MetadataView, header: BatchHeader, records: Iterable[Record], *, is_snapshot: bool) -> None:
    """Records of a log that the image has already are passed over. Raises DecodeError."""
    image = view.image
    view.last_timestamp_ms = max(view.last_timestamp_ms, header.max_timestamp)
    image.elected(image.controller_id, max(image.controller_epoch, header.partition_leader_epoch))
    for record in records:
        if header.is_control:  # also those before a snapshot: it does not say who leads
            if control_type(record) == ControlType.LEADER_CHANGE and record.value is not None:
                change, _ = decode(LeaderChangeMessage, _version(record.value), record.value, 0)
                image.elected(change.leader_id, header.partition_leader_epoch)
                view.elected_ms = header.max_timestamp
        elif record.value is not None:
            metadata = decode_record(record.value)
            if isinstance(metadata, ProducerIdsRecord) and metadata.next_producer_id >= image.next_producer_id:
                view.producer_ids = metadata  # also one before a snapshot: those of Kafka forget whose block it was
            if is_snapshot or record.offset > image.offset:
                for each in view.transaction.take([metadata]):
                    image.apply(each)
    if not is_snapshot and not view.transaction.is_open:
        image.applied_to(max(image.offset, header.last_offset))


def _version(value: bytes | memoryview) -> int:
    """The int16 that these messages begin with."""
    return int.from_bytes(value[:2], "big")
