"""The files beside a segment, as `penstock dump-log` shows them: indexes, snapshots, checkpoints.

And the check that an index is in order and agrees with its segment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from penstock.cli.dump.text import Line, print_line
from penstock.cli.terminal.lines import say
from penstock.log.dump import (
    DumpedBatch,
    FileKind,
    dump_leader_epochs,
    dump_offset_checkpoint,
    dump_offset_index,
    dump_partition_metadata,
    dump_producer_snapshot,
    dump_segment,
    dump_time_index,
)
from penstock.log.producer_snapshot import ProducerSnapshotEntry
from penstock.protocol.uuids import uuid_to_text

Entry = TypeVar("Entry")
MAX_COMPLAINTS: Final = 1_000


def _lines(
    kind: str, read: Callable[[str], Iterable[Entry]], values: Callable[[Entry], dict[str, object]]
) -> Callable[[str], Iterator[Line]]:
    return lambda path: (Line(kind, values(entry)) for entry in read(path))


def _producer(producer: ProducerSnapshotEntry) -> dict[str, object]:
    return {
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": producer.current_transaction_first_offset,
        "lastTimestamp": producer.timestamp_ms,
        "lastSequence": producer.last_sequence,
        "lastOffset": producer.last_offset,
        "offsetDelta": producer.offset_delta,
    }


ENTRIES: Final[dict[FileKind, Callable[[str], Iterator[Line]]]] = {
    FileKind.OFFSET_INDEX: _lines(
        "entry", dump_offset_index, lambda entry: {"offset": entry.offset, "position": entry.position}
    ),
    FileKind.TIME_INDEX: _lines(
        "entry", dump_time_index, lambda entry: {"timestamp": entry.timestamp_ms, "offset": entry.offset}
    ),
    FileKind.PRODUCER_SNAPSHOT: _lines("producer", dump_producer_snapshot, _producer),
    FileKind.LEADER_EPOCHS: _lines("epoch", dump_leader_epochs, lambda row: {"epoch": row[0], "startOffset": row[1]}),
    FileKind.OFFSET_CHECKPOINT: _lines(
        "checkpoint",
        lambda path: dump_offset_checkpoint(path).items(),
        lambda row: {"topic": row[0][0], "partition": row[0][1], "offset": row[1]},
    ),
    FileKind.PARTITION_METADATA: _lines(
        "topic", lambda path: [dump_partition_metadata(path)], lambda topic_id: {"topicId": uuid_to_text(topic_id)}
    ),
}
"""These read the entries of each kind of file; raise OSError, CorruptSnapshotError, CorruptCheckpointError."""


def verify_index(path: str, kind: FileKind, as_json: bool, *, against_segment: bool) -> bool:
    """Whether it is in order and, if `against_segment`, agrees with its segment."""
    complaints: list[str] = []
    entries = (
        [(entry.offset, entry.position) for entry in dump_offset_index(path)]
        if kind == FileKind.OFFSET_INDEX
        else [(entry.timestamp_ms, entry.offset) for entry in dump_time_index(path)]
    )
    for before, after in pairwise(entries):
        if after <= before:
            complaints.append(f"entry {after} does not come after {before}")
    if against_segment:
        batches = [part for part in dump_segment(str(Path(path).with_suffix(".log"))) if isinstance(part, DumpedBatch)]
        if kind == FileKind.OFFSET_INDEX:
            complaints += _offset_complaints(entries, batches)
        else:
            complaints += _time_complaints(entries, batches)
    shown = complaints[:MAX_COMPLAINTS]
    if as_json:
        print_line(
            Line("index", {"file": path, "entries": len(entries), "isValid": not shown, "problems": shown}), True
        )
    else:
        say(f"Dumping {path}")
        say(*(shown or [f"{path} passed the check: {len(entries)} entries"]))
    return not complaints


def _offset_complaints(entries: Sequence[tuple[int, int]], batches: Sequence[DumpedBatch]) -> Iterator[str]:
    """An entry names a batch by its last offset and where it begins."""
    by_position = {batch.position: batch.header for batch in batches}
    for offset, position in entries:
        header = by_position.get(position)
        if header is None:
            yield f"offset {offset}: no batch begins at position {position}"
        elif not header.base_offset <= offset <= header.last_offset:
            yield f"offset {offset}: the batch at position {position} has {header.base_offset} to {header.last_offset}"


def _time_complaints(entries: Sequence[tuple[int, int]], batches: Sequence[DumpedBatch]) -> Iterator[str]:
    """An entry names the largest timestamp up to an offset."""
    for timestamp_ms, offset in entries:
        batch = next((b for b in batches if b.header.base_offset <= offset <= b.header.last_offset), None)
        if batch is None:
            yield f"timestamp {timestamp_ms}: no batch has offset {offset}"
            continue
        newer = max((b.header.max_timestamp for b in batches if b.header.last_offset <= offset), default=-1)
        if newer > timestamp_ms:
            yield f"timestamp {timestamp_ms} at offset {offset}: a record before it has {newer}"
