"""What `penstock dump-log --print-data-log` makes of the log of a storage group, and of a snapshot of it."""

from pathlib import PurePath

from penstock.cli.dump.records import Decoder, decode_metadata, decode_text
from penstock.metadata.record_frames import FRAME_VERSION
from penstock.protocol.batch import read_header
from penstock.protocol.internal_topics import CLUSTER_METADATA, STORAGE_GROUPS
from penstock.protocol.records import Record
from penstock.protocol.uuids import uuid_to_text
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    decode_begins,
    decode_entry,
    decode_opened,
)
from penstock.replication.storage_groups.snapshot import REMOVED, decode_state


def decoder_of(path: str) -> Decoder | None:
    """By the log in whose directory the file is; None for records of users. The metadata log may hold secrets."""
    file = PurePath(path)
    if file.parent.name.startswith(f"{CLUSTER_METADATA}-"):
        return _metadata_or_text
    if not file.parent.name.startswith(f"{STORAGE_GROUPS}-"):
        return None
    return _snapshot_record if file.suffix == ".checkpoint" else _entry_record


def _metadata_or_text(record: Record) -> dict[str, object]:
    """Another program on the consensus core keeps records of its own in a log of this name: no frame, no secrets."""
    value = record.value
    return decode_metadata(record) if value and value[0] == FRAME_VERSION else decode_text(record)


def _entry_record(record: Record) -> dict[str, object]:
    entry = decode_entry(record)
    if isinstance(entry, HandedOver):
        payload = {"epoch": entry.epoch, "successor": entry.successor, "endsInMs": entry.ends_in_ms}
        return {"key": {"type": Kind.HANDED_OVER.name}, "payload": payload}
    return {"key": {"type": entry.kind.name} | _partition(entry.partition), "payload": _payload(entry)}


def _payload(entry: Entry) -> dict[str, object] | None:
    match entry.kind:
        case Kind.OPENED:
            topic, since = decode_opened(entry.content)
            return {"topic": topic, "metadataOffset": since}
        case Kind.APPENDED:
            header = read_header(entry.content)
            return {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "leaderEpoch": header.partition_leader_epoch,
                "producerId": header.producer_id,
                "size": header.size_in_bytes,
            }
        case Kind.BEGINS:
            return {"logStartOffset": decode_begins(entry.content)}
        case _:
            return None


def _snapshot_record(record: Record) -> dict[str, object]:
    state = decode_state(record)
    ends = {"deleted": True} if state.end_offset == REMOVED else {"logEndOffset": state.end_offset}
    payload = {"topic": state.topic, "logStartOffset": state.start_offset, **ends, "metadataOffset": state.since}
    return {"key": _partition(state.id), "payload": payload}


def _partition(partition: PartitionId) -> dict[str, object]:
    return {"topicId": uuid_to_text(partition.topic_id), "partition": partition.number}
