"""The segments of one partition, oldest first, the last one active: what finds, reads, adds, cuts and removes them.

Only here do segments come and go, so whatever replaces some of them by others has one place to do it. There is always
at least one segment once the log is open. Offsets are all that is known of the records here; leader epochs and
producers belong to `log_content`. Every method may raise OSError.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter, is_
from typing import overload

from penstock.log.log_slice import EMPTY_SLICE, LogSlice
from penstock.log.names import CLEANED_SUFFIX, PARTITION_METADATA, SWAP_SUFFIX
from penstock.log.open_files import OpenFiles
from penstock.log.removals import Removals
from penstock.log.segment import Segment

_by_base = attrgetter("base_offset")


class Segments(Sequence[Segment]):
    """`has_new_names`: until `sync_names` has ended, a power cut may undo that segments were made or removed."""

    __slots__ = (
        "_bases",
        "_directory",
        "_has_synced_id",
        "_name_changes",
        "_open_files",
        "_removals",
        "_segments",
        "_synced_name_changes",
        "active",
        "size_bytes",
    )

    active: Segment

    def __init__(
        self, open_files: OpenFiles, removals: Removals, directory: str, segments: list[Segment], first_offset: int
    ) -> None:
        """Without segments an empty one is made that begins with `first_offset`."""
        self._open_files = open_files
        self._removals = removals
        self._directory = directory
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.size_bytes = sum(segment.size for segment in segments)
        self._name_changes = self._synced_name_changes = 0
        self._has_synced_id = False
        if segments:
            self.active = segments[-1]
        else:
            self.add(first_offset)

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, number: int) -> Segment: ...
    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...
    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        return self._segments[number]

    def __contains__(self, segment: object) -> bool:
        if not isinstance(segment, Segment):
            return False
        number = self.number_of(segment.base_offset)
        return self._segments[number : number + 1] == [segment]

    # finding

    @property
    def base_offsets(self) -> list[int]:
        return self._bases

    def number_of(self, offset: int) -> int:
        """The number, from 0, of the segment that holds `offset`; 0 if all begin behind it."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        return self._segments[self.number_of(offset) :]

    def beside_from(self, offset: int) -> list[Segment]:
        """As `from_offset`, in any thread: the loop may let go of segments between two lines of it."""
        segments = self._segments[:]
        return segments[max(0, bisect_right(segments, offset, key=_by_base) - 1) :]

    def bytes_from(self, offset: int) -> int:
        """What lies from the batch with `offset` on."""
        first, *others = self.from_offset(offset)
        found = first.locate(offset)
        return sum(segment.size for segment in others) + (0 if found is None else first.size - found[0])

    def read(self, offset: int, max_bytes: int, upper: int, end_offset: int, at_least_one_batch: bool) -> LogSlice:
        """All batches are of one segment; see `PartitionLog.read`."""
        if offset >= self.active.base_offset:
            found = _slice(self.active, offset, max_bytes, upper, end_offset, at_least_one_batch)
            return EMPTY_SLICE if found is None else found
        for number in range(self.number_of(offset), len(self._segments)):
            ends = self._bases[number + 1] if number + 1 < len(self._bases) else end_offset
            found = _slice(self._segments[number], offset, max_bytes, upper, ends, at_least_one_batch)
            if found is not None:
                return found
        return EMPTY_SLICE

    # coming and going

    def add(self, base_offset: int, now_ms: int | None = None) -> Segment:
        """After an OSError there is no new segment."""
        segment = Segment(self._open_files, self._directory, base_offset)
        segment.create()
        segment.created_ms = now_ms
        self.note_names()
        self._segments.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        return segment

    def replace_active(self, base_offset: int, now_ms: int | None) -> Segment:
        """The active segment must be empty."""
        empty = self.active
        segment = self.add(base_offset, now_ms)
        del self._segments[-2], self._bases[-2]
        self._retire_at_once(empty)
        return segment

    def restart_at(self, base_offset: int) -> None:
        self._pop_from(0)
        self.add(base_offset)

    def drop_from(self, number: int) -> None:
        """`number` is not 0. A power cut cannot bring the segments back behind one that is cut afterwards."""
        if number < len(self._segments):
            self._pop_from(number)
            self.active = self._segments[-1]
            self.sync_names()

    def _pop_from(self, number: int) -> None:
        """The newest goes first; readers hold its file open."""
        while len(self._segments) > number:
            segment = self._segments.pop()
            self._bases.pop()
            self.size_bytes -= segment.size
            self._retire_at_once(segment)

    def cut_active(self, offset: int) -> int | None:
        """Remove batches that end at `offset` or behind it; returns the new end offset, None if nothing was cut. A cut
        that leaves nothing is durable at once, as no flush has to do with an empty segment.
        """
        segment = self.active
        size = segment.size
        end_offset = segment.truncate_to(offset)
        self.size_bytes -= size - segment.size
        if end_offset is not None and not segment.size:
            segment.opened().sync()
        return end_offset

    def retire_oldest(self, count: int, due_ms: int) -> None:
        """Rename files, not of all segments, and have them removed at `due_ms`. Segments whose files cannot be renamed
        are gone nevertheless until the log is opened again.
        """
        oldest = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        self.size_bytes -= sum(segment.size for segment in oldest)
        for segment in oldest:
            segment.forget_file()
            self._retire(segment.paths(), due_ms)

    def has_sealed(self, segments: list[Segment]) -> bool:
        """These neighbours, none of them active, are unchanged."""
        first = self.number_of(segments[0].base_offset)
        there = self._segments[first : first + len(segments)]
        return len(there) == len(segments) and all(map(is_, there, segments)) and self.active is not segments[-1]

    def swap_in(self, old: list[Segment], due_ms: int) -> None:
        """Compaction made the new segment; the files of these neighbours are removed at `due_ms`. `finish_swaps` can go
        on from each step; readers of an old segment hold its file open.
        """
        disk, new = self._open_files.disk, Segment(self._open_files, self._directory, old[0].base_offset)
        for path in (*new.index_paths(), new.path):
            disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        for number, segment in enumerate(old):
            segment.forget_file()
            self._retire(segment.paths() if number else [segment.path, *segment.index_paths()], due_ms)
        for path in (*new.index_paths(), new.path):
            disk.rename(path + SWAP_SUFFIX, path)
        self.note_names()
        new.size = disk.file_size(new.path)
        first = self.number_of(new.base_offset)
        self._segments[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self.size_bytes += new.size - sum(segment.size for segment in old)

    def _retire_at_once(self, segment: Segment) -> None:
        segment.forget_file()
        if segment.size:
            self._retire(segment.paths(), 0)
        else:
            for path in segment.paths():
                self._open_files.disk.remove(path)
        self.note_names()  # records appended in its place must not find it there after a power cut

    def _retire(self, paths: list[str], due_ms: int) -> None:
        for path in paths:
            self._removals.retire(path, due_ms)

    # durability

    def flush(self, segments: list[Segment]) -> None:
        """Indexes of the active segment are not synced. May run in a thread beside everything else: a segment that is
        removed meanwhile needs no flush.
        """
        for segment in segments:
            try:
                segment.flush()
                if segment is not self.active:  # now: a cut may have made it the active one again
                    segment.save_indexes(durable=True)
            except FileNotFoundError:
                if segment in self:
                    raise
        self.sync_names()

    @property
    def has_new_names(self) -> bool:
        return self._name_changes != self._synced_name_changes

    def note_names(self) -> None:
        """Segments were made or removed: to be said behind that, as a thread may sync names at any time."""
        self._name_changes += 1

    def sync_names(self) -> None:
        """Made or removed segments stay so after a power cut, and whose they are is known. May run in several threads:
        none passes over what another one has only begun to sync.
        """
        changes = self._name_changes  # first: segments made meanwhile are more
        if changes != self._synced_name_changes:
            self._sync_id()
            self._open_files.disk.sync_directory(self._directory)
            self._open_files.disk.sync_directory(self._directory.rpartition("/")[0])
            self._synced_name_changes = changes

    def _sync_id(self) -> None:
        """It was written when the directory was made, by a loop that waits for no disk."""
        if not self._has_synced_id:
            with suppress(FileNotFoundError):
                self._open_files.disk.open(f"{self._directory}/{PARTITION_METADATA}").sync()
            self._has_synced_id = True

    def forget_files(self) -> None:
        """Nothing is saved; the segments are not to be used any more."""
        for segment in self._segments:
            segment.forget_file()
        self._segments = []


def _slice(
    segment: Segment, offset: int, max_bytes: int, upper: int, segment_end: int, at_least_one_batch: bool
) -> LogSlice | None:
    """None if all of the segment's batches end before `offset`."""
    if upper >= segment_end:
        position = segment.position_to_go_on(offset)
        if 0 <= position < segment.size and segment.size - position <= max_bytes:
            return _read_to_end(segment, position, segment_end)
    found = segment.locate(offset)
    if found is None:
        return None
    position, size, _, last_offset = found
    if last_offset >= upper:
        return EMPTY_SLICE
    end = segment.size
    if upper < segment_end and (first_beyond := segment.locate(upper)) is not None:
        end = first_beyond[0]
    length = end - position
    if length > max_bytes:
        length = max_bytes
        if length < size:
            if not at_least_one_batch:
                return EMPTY_SLICE
            length = size
    elif end == segment.size:
        return _read_to_end(segment, position, min(upper, segment_end))
    return LogSlice(segment.opened(), position, length, min(upper, segment_end))


def _read_to_end(segment: Segment, position: int, end_offset: int) -> LogSlice:
    segment.note_read_to_end()
    return LogSlice(segment.opened(), position, segment.size - position, end_offset)
