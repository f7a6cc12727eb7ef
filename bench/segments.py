"""What lies in the directory of a log, of either system: segments, their batches, how far it is compacted."""

from collections.abc import Iterator
from pathlib import Path

from penstock.log.checkpoint import CorruptCheckpointError, read_offsets
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_OFFSETS, LOG_SUFFIX
from penstock.protocol.batch import BatchHeader
from penstock.protocol.records import Record, iterate_batches, iterate_records


def segments(directory: Path) -> list[Path]:
    """In order; the last one is active."""
    return sorted(directory.glob(f"*{LOG_SUFFIX}"))


def active_offset(directory: Path) -> int:
    """The base of the active segment: up to there a log may be compacted."""
    return int(segments(directory)[-1].stem)


def batches(directory: Path) -> Iterator[tuple[BatchHeader, Iterator[Record]]]:
    for segment in segments(directory):
        content = segment.read_bytes()
        for position, header in iterate_batches(content):
            yield header, iterate_records(content, position, header)


def cleaned_to(directory: Path) -> int:
    topic, _, partition = directory.name.rpartition("-")
    try:
        return read_offsets(Disk(), str(directory.parent / CLEANED_OFFSETS)).get((topic, int(partition)), 0)
    except (CorruptCheckpointError, OSError):  # Kafka begins with an empty file
        return 0
