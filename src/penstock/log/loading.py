"""Open a partition's directory: find its segments and what they hold.

After a clean shutdown the files are believed: only what lies behind the last index entry is read. After a crash
every segment from the recovery point on is read in full (see `recovery`). Where a file that can be derived is
missing or damaged, it is derived again.
"""

from dataclasses import dataclass

from penstock.log.checkpoint import CorruptCheckpointError
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.names import (
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LEFTOVER_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_of,
)
from penstock.log.open_files import OpenFiles
from penstock.log.producer_snapshots import ProducerSnapshots, replay
from penstock.log.producer_state import Producers
from penstock.log.recovery import recover_segment
from penstock.log.segment import Segment
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError, KafkaError


@dataclass(slots=True)
class LoadedLog:
    """What a partition's directory holds; `segments` has at least one, the last is the active one.

    `has_new_names`: its names may not outlive a power cut yet, as a segment was made or the last process was killed.
    `recovered_from`: where the segments begin that were recovered, whose indexes are new; None if none had to be.
    """

    segments: list[Segment]
    end_offset: int
    start_offset: int
    epochs: LeaderEpochs
    producers: Producers
    snapshots: ProducerSnapshots
    has_new_names: bool
    recovered_from: int | None


def load_log(
    open_files: OpenFiles,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    start_offset: int,
    is_clean: bool,
) -> LoadedLog:
    """Open the directory; `start_offset` and `recovery_point` are what the checkpoints say. Raises OSError."""
    disk = open_files.disk
    names = _without_leftovers(disk, directory)
    segments = _find_segments(open_files, directory, names)
    has_new_names = not is_clean or not segments
    if not segments:
        segments = [_new_segment(open_files, directory, start_offset)]
    epochs = LeaderEpochs(disk, f"{directory}/{LEADER_EPOCHS}")
    epochs_known = _load_epochs(epochs)
    if not epochs_known:
        recovery_point = 0
    end_offset = _adopt(segments) if is_clean and epochs_known else None
    recovered_from = None
    if end_offset is None:
        recovered_from, end_offset = _recover(segments, recovery_point, epochs, config, disk)
        epochs.truncate_from_end(end_offset)
    snapshot_offsets = [offset for offset in map(_snapshot_offset, names) if offset is not None]
    snapshots = ProducerSnapshots(disk, directory, snapshot_offsets)
    if start_offset > end_offset:  # what is left lies below the log start: begin anew
        for segment in segments:
            _remove(disk, segment)
        segments = [_new_segment(open_files, directory, start_offset)]
        end_offset = start_offset
        has_new_names = True
        epochs.clear()
        snapshots.remove_all()
    first_offset = max(start_offset, segments[0].base_offset)
    epochs.truncate_from_start(first_offset)
    snapshots.keep([segment.base_offset for segment in segments], end_offset)
    producers = Producers()
    snapshot_offset = snapshots.restore(producers)
    if snapshot_offset is not None or not is_clean:
        replay(producers, segments, snapshot_offset or 0)
    return LoadedLog(segments, end_offset, first_offset, epochs, producers, snapshots, has_new_names, recovered_from)


def _without_leftovers(disk: Disk, directory: str) -> list[str]:
    """The names in the directory; what an interrupted deletion or replacement left is removed, and indexes of no
    segment.
    """
    names = []
    all_names = disk.names(directory)
    segments = {name.removesuffix(LOG_SUFFIX) for name in all_names if name.endswith(LOG_SUFFIX)}
    for name in all_names:
        stem, dot, suffix = name.partition(".")
        is_orphan = dot + suffix in INDEX_SUFFIXES and stem not in segments
        if is_orphan or name.endswith(LEFTOVER_SUFFIXES):
            disk.remove(f"{directory}/{name}")
        else:
            names.append(name)
    return names


def _find_segments(open_files: OpenFiles, directory: str, names: list[str]) -> list[Segment]:
    segments = []
    present = set(names)
    for name in names:
        base_offset = offset_of(name)
        if base_offset is None or not name.endswith(LOG_SUFFIX):
            continue
        size = open_files.disk.file_size(f"{directory}/{name}")
        segment = Segment(open_files, directory, base_offset, size)
        stem = name.removesuffix(LOG_SUFFIX)
        segment.lacks_index = size > 0 and not {stem + INDEX_SUFFIX, stem + TIME_INDEX_SUFFIX} <= present
        segments.append(segment)
    return segments


def _snapshot_offset(name: str) -> int | None:
    return offset_of(name) if name.endswith(SNAPSHOT_SUFFIX) else None


def _new_segment(open_files: OpenFiles, directory: str, base_offset: int) -> Segment:
    segment = Segment(open_files, directory, base_offset)
    segment.create()
    return segment


def _load_epochs(epochs: LeaderEpochs) -> bool:
    """Whether the checkpoint can be believed; one that is absent can: the log has no batch or is made anew from
    them.
    """
    try:
        epochs.load()
    except CorruptCheckpointError:
        return False
    return True


def _adopt(segments: list[Segment]) -> int | None:
    """The end offset of segments that were closed cleanly; None if the last one is not what it should be."""
    try:
        return segments[-1].adopt_tail()
    except (KafkaError, DecodeError):
        return None


def _recover(
    segments: list[Segment], recovery_point: int, epochs: LeaderEpochs, config: LogConfig, disk: Disk
) -> tuple[int, int]:
    """(where the segments begin that were not believed, where the log ends)."""

    def note_epoch(_: int, header: BatchHeader) -> None:
        epochs.assign(header.partition_leader_epoch, header.base_offset, save=False)

    first = 0
    for number, segment in enumerate(segments):
        if segment.base_offset <= recovery_point:
            first = number
    start_offset = end_offset = segments[first].base_offset
    epochs.truncate_from_end(end_offset, save=False)  # the batches say it anew; the file may be older than a truncation
    for number in range(first, len(segments)):
        segment = segments[number]
        size = segment.size
        end_offset = recover_segment(segment, config.index_interval_bytes, note_epoch)
        following = segments[number + 1 :]
        if segment.size < size or (following and following[0].base_offset < end_offset):
            for lost in following:
                _remove(disk, lost)
            del segments[number + 1 :]
            break
    epochs.write()
    return start_offset, end_offset


def _remove(disk: Disk, segment: Segment) -> None:
    segment.forget_file()
    for path in segment.paths():
        disk.remove(path)
