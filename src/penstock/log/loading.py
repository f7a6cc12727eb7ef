"""Open a partition's directory: find its segments and what they hold.

After a clean shutdown the files are believed: only what lies behind the last index entry is read. After a crash
every segment from the one that ends at the recovery point on is read in full (see `recovery`). Where a file that can
be derived is missing or damaged, it is derived again.
"""

from typing import Final

from penstock.log.aborted_transactions import AbortedTransactions
from penstock.log.checkpoint import CorruptCheckpointError
from penstock.log.config import LogConfig
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.leftovers import names_of_log
from penstock.log.log_content import LogContent
from penstock.log.names import (
    INDEX_SUFFIX,
    LEADER_EPOCHS,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_of,
)
from penstock.log.open_files import OpenFiles
from penstock.log.producer_snapshots import ProducerSnapshots, replay
from penstock.log.producer_state import Producers
from penstock.log.recovery import recover_segment
from penstock.log.removals import Removals
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError, KafkaError

UNKNOWN: Final = -1


class Unread:
    """What is known of a log while its directory is not read in: from a checkpoint, or from when it was read in before.

    Offsets are -1 if unknown. `is_clean`: the files are as a clean close left them, or changed only as a whole
    since.
    """

    __slots__ = ("end_offset", "is_clean", "recovery_point", "rewritten_below", "start_offset")

    def __init__(self, recovery_point: int, start_offset: int, *, is_clean: bool, is_empty: bool) -> None:
        """`recovery_point` is the end offset of a directory that `is_clean`, and the only one of a log `is_empty`."""
        self.is_clean = is_clean
        self.recovery_point = recovery_point
        self.rewritten_below = recovery_point
        self.start_offset = start_offset
        self.end_offset = recovery_point if is_clean or is_empty else UNKNOWN

    def remember(self, content: LogContent) -> None:
        self.recovery_point = content.recovery_point
        self.rewritten_below = content.rewritten_below
        self.start_offset = content.start_offset
        self.end_offset = content.end_offset

    def take_over(self, other: "Unread") -> None:
        """The copy was closed."""
        self.is_clean = True
        self.recovery_point = other.recovery_point
        self.rewritten_below = other.rewritten_below
        self.start_offset = other.start_offset
        self.end_offset = other.end_offset

    def distrust(self) -> None:
        """Only the files tell the state."""
        self.is_clean = False
        self.end_offset = UNKNOWN


def load_log(
    open_files: OpenFiles, removals: Removals, directory: str, config: LogConfig, unread: Unread
) -> LogContent:
    """Raises OSError."""
    disk, is_clean, start_offset = open_files.disk, unread.is_clean, unread.start_offset
    recovery_point = max(unread.recovery_point, 0)
    names = names_of_log(disk, directory, removals)
    found = _find_segments(open_files, directory, names)
    is_new = not found
    segments = Segments(open_files, removals, directory, found, start_offset)
    # Even a clean close does not sync the name of a segment that has no records.
    if not (is_clean and segments.active.size):
        segments.note_names()
    epochs = LeaderEpochs(disk, f"{directory}/{LEADER_EPOCHS}")
    epochs_known = _load_epochs(epochs)
    if not epochs_known:
        recovery_point = 0
    end_offset = _adopt(segments.active) if is_clean and epochs_known else None
    if end_offset is None:
        # A killed process leaves no word of what is on the disk.
        recovery_point, end_offset = _recover(segments, recovery_point, unread.recovery_point, epochs, config)
        if not is_new:
            _make_sure_of(segments.active)
    epochs.truncate_from_end(end_offset)
    snapshot_offsets = [offset for offset in map(_snapshot_offset, names) if offset is not None]
    snapshots = ProducerSnapshots(disk, directory, snapshot_offsets)
    if start_offset > end_offset:  # all records lie below the log start: begin anew
        snapshots.remove_all()
        segments.restart_at(start_offset)
        end_offset = start_offset
        epochs.clear()
    first_offset = max(start_offset, segments[0].base_offset)
    epochs.truncate_from_start(first_offset)
    snapshots.keep(segments.base_offsets, end_offset)
    producers, aborted = Producers(), AbortedTransactions(disk, directory)
    snapshot_offset = snapshots.restore(producers)
    aborted.load(names, None if is_clean else snapshot_offset or 0)
    aborted.cut_to(end_offset, segments.active.base_offset)
    if snapshot_offsets or not is_clean:  # of a clean log without any there is nothing to know
        replay(producers, aborted, segments, snapshot_offset or 0, snapshots)
    return LogContent(
        segments,
        epochs,
        producers,
        snapshots,
        aborted,
        start_offset=first_offset,
        end_offset=end_offset,
        recovery_point=min(recovery_point, end_offset),
        rewritten_below=unread.rewritten_below,
    )


def _make_sure_of(active: Segment) -> None:
    """Where it was cut the disk may still have other records: they must not come back before newer ones."""
    active.opened().sync()


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


def _load_epochs(epochs: LeaderEpochs) -> bool:
    """A missing checkpoint can be believed: the log has no batch or epochs are made from them."""
    try:
        epochs.load()
    except CorruptCheckpointError:
        return False
    return True


def _adopt(active: Segment) -> int | None:
    """None if the active segment of a log that was closed cleanly is damaged."""
    try:
        return active.adopt_tail()
    except (KafkaError, DecodeError):
        return None


def _recover(
    segments: Segments, recovery_point: int, synced_below: int, epochs: LeaderEpochs, config: LogConfig
) -> tuple[int, int]:
    """(first offset of the segments that were checked, at most `recovery_point`; where the log ends)."""

    def note_epoch(_: int, header: BatchHeader) -> None:
        epochs.assign(header.partition_leader_epoch, header.base_offset, save=False)

    first = segments.number_of(recovery_point - 1)  # that segment may have been sealed since: see `LogContent`
    start_offset = end_offset = segments[first].base_offset
    epochs.truncate_from_end(end_offset, save=False)  # the batches say it anew; the file may be older than a truncation
    for number in range(first, len(segments)):
        segment = segments[number]
        size = segment.size
        end_offset = recover_segment(segment, config.index_interval_bytes, note_epoch)
        segments.size_bytes -= size - segment.size
        if segment.size < size or not _goes_on(segments, number, end_offset, synced_below, config):
            segments.drop_from(number + 1)
        segment.save_indexes(is_final=segment is not segments.active)
        if segment is segments.active:
            break
    epochs.write()
    return min(start_offset, recovery_point), end_offset


def _goes_on(segments: Segments, number: int, end_offset: int, synced_below: int, config: LogConfig) -> bool:
    """A power cut may take a segment that was not flushed and leave a later one. The log then ends before the hole, so
    that it never lacks records in its middle. Compaction leaves holes on purpose, in what is synced; its topic need not
    be compacted any more.
    """
    if number + 1 == len(segments):
        return True
    next_offset = segments[number + 1].base_offset
    is_hole = next_offset > end_offset
    return next_offset == end_offset or (is_hole and (config.is_compacted or next_offset <= synced_below))
