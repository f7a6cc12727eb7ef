"""What lies in a partition's directory: segments, leader epochs, producers; how it is opened, made durable and closed.

The log is lazy: until something asks for its content it is only a name, so that a node with 10,000 partitions
starts quickly. All methods belong to one thread (the event loop's), but for `flush` and `maybe_flush`, which may run in
another one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from penstock.log.checkpoint import CorruptCheckpointError, decode_partition_metadata
from penstock.log.config import LogConfig
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.loading import LoadedLog, load_log
from penstock.log.names import DELETED_SUFFIX, LOG_SUFFIX, PARTITION_METADATA
from penstock.log.open_files import OpenFiles
from penstock.log.producer_snapshots import ProducerSnapshots
from penstock.log.producer_state import Producers
from penstock.log.removals import Removals
from penstock.log.segment import Segment
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

SEALED_FLUSH_DELAY_MS = 60_000
"""How long after a roll `maybe_flush` syncs the sealed segment: by then the system has written most of it by itself."""
UNKNOWN = -1


class StoredLog:
    """One partition's files; `config` may be replaced at any time."""

    __slots__ = (
        "_active",
        "_bases",
        "_cuts",
        "_dirty_since_ms",
        "_end_offset",
        "_epochs",
        "_has_new_names",
        "_is_clean",
        "_open_files",
        "_producers",
        "_removals",
        "_rewritten_below",
        "_segments",
        "_size_bytes",
        "_snapshots",
        "_start_offset",
        "config",
        "directory",
        "is_deleted",
        "partition",
        "recovery_point",
        "topic",
    )

    def __init__(
        self,
        open_files: OpenFiles,
        removals: Removals,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
    ) -> None:
        """`is_clean`: the directory was closed cleanly, `recovery_point` is its log end offset (or unknown, -1)."""
        self._open_files = open_files
        self._removals = removals
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.recovery_point = recovery_point
        self.is_deleted = False
        self._is_clean = is_clean
        self._start_offset = log_start_offset
        self._end_offset = recovery_point if is_clean else UNKNOWN
        self._dirty_since_ms: int | None = None
        self._has_new_names = False
        self._rewritten_below = recovery_point
        self._cuts = 0
        self._active: Segment | None = None
        self._segments: list[Segment]
        self._bases: list[int]
        self._epochs: LeaderEpochs
        self._producers: Producers
        self._snapshots: ProducerSnapshots
        self._size_bytes: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic}-{self.partition})"

    # what it is

    @property
    def is_loaded(self) -> bool:
        """Whether the directory was read."""
        return self._active is not None

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        if self._active is None:
            self.load()
        return self._start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        if self._end_offset < 0:
            self.load()
        return self._end_offset

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments, without their indexes. Of a log that is not loaded the files are asked.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        if self._active is None:
            with self._reporting():
                return self._open_files.disk.bytes_of_files(self.directory, LOG_SUFFIX)
        return self._size_bytes

    @property
    def parent(self) -> str:
        """The log directory that the partition lies in."""
        return self.directory.rpartition("/")[0]

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id as `partition.metadata` has it, read from the file; None if that is missing or damaged."""
        path = f"{self.directory}/{PARTITION_METADATA}"
        content = self._open_files.disk.read_file(path)
        try:
            return None if content is None else decode_partition_metadata(content, path)
        except CorruptCheckpointError:
            return None

    @property
    def start_to_checkpoint(self) -> int | None:
        """The log start offset, if the segments' names do not tell it."""
        first = self._bases[0] if self._active is not None else 0
        return self._start_offset if self._start_offset > first else None

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The terms of the partition's leaders."""
        if self._active is None:
            self.load()
        return self._epochs

    @property
    def producers(self) -> Producers:
        """The idempotent producers that wrote here."""
        if self._active is None:
            self.load()
        return self._producers

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; not to be changed."""
        if self._active is None:
            self.load()
        return self._segments

    def load(self) -> Segment:
        """Read the directory now; returns the active segment. Raises KafkaError(KAFKA_STORAGE_ERROR,
        CORRUPT_MESSAGE).
        """
        if self.is_deleted:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.partition} was deleted")
        if self._active is not None:
            return self._active
        with self._reporting():
            loaded = load_log(
                self._open_files,
                self.directory,
                self.config,
                recovery_point=max(self.recovery_point, 0),
                start_offset=self._start_offset,
                is_clean=self._is_clean,
            )
        self._adopt(loaded)
        return self._segments[-1]

    def _adopt(self, loaded: LoadedLog) -> None:
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._size_bytes = sum(segment.size for segment in loaded.segments)
        self._start_offset = loaded.start_offset
        self._end_offset = loaded.end_offset
        self.recovery_point = min(self.recovery_point, loaded.end_offset) if self.recovery_point >= 0 else 0
        if loaded.recovered_from is not None:  # a process that was killed leaves no word of what the disk has
            self.recovery_point = min(self.recovery_point, loaded.recovered_from)
        self._is_clean = True
        self._has_new_names = self._has_new_names or loaded.has_new_names
        self._active = loaded.segments[-1]

    def _storage_error(self, error: OSError) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.partition} in {self.directory}: {error}")

    @contextmanager
    def _reporting(self, *, is_change: bool = False) -> Iterator[None]:
        """OSError becomes KAFKA_STORAGE_ERROR, nonsense in the files CORRUPT_MESSAGE.

        After a change that failed half-way the log believes only its files: it recovers when it is used next.
        """
        try:
            yield
        except (OSError, DecodeError) as error:
            if is_change:
                self.abandon()
                self._is_clean = False
                self._end_offset = UNKNOWN
            if isinstance(error, OSError):
                raise self._storage_error(error) from error
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic}-{self.partition}: {error}") from error

    # segments

    def _segment_number(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new segment; after an OSError the old one is still the active one."""
        active = self._segments[-1]
        if active.size == 0:
            if active.base_offset == base_offset:
                return active
            with self._reporting(is_change=True):
                self._drop_segments(len(self._segments) - 1)
                return self._add_segment(base_offset, now_ms)
        is_rewritten = base_offset <= self._rewritten_below
        active.save_indexes(is_final=True, durable=is_rewritten)
        self._snapshots.take(self._producers, self._end_offset, durable=False)
        if is_rewritten:  # else what was cut might come back before the new segment
            active.flush()
            self._epochs.sync()
        return self._add_segment(base_offset, now_ms)

    def _end_at(self, end_offset: int) -> None:
        """The log was cut. A power cut may undo that, and the checkpoint may go on saying what held before."""
        self._rewritten_below = max(self._rewritten_below, self._end_offset)
        self._end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)

    def _add_segment(self, base_offset: int, now_ms: int | None) -> Segment:
        segment = Segment(self._open_files, self.directory, base_offset)
        segment.create()
        segment.created_ms = now_ms
        self._has_new_names = True
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._active = segment
        return segment

    def _drop_segments(self, first: int) -> int:
        """Remove segments at once, the newest first; whoever still reads them holds their files open. How many."""
        count = len(self._segments) - first
        while len(self._segments) > first:
            segment = self._segments.pop()
            self._bases.pop()
            self._size_bytes -= segment.size
            self._has_new_names = True  # what is appended in their place must not find them there after a power cut
            self._remove_files(segment)
        return max(count, 0)

    def _remove_files(self, segment: Segment) -> None:
        segment.forget_file()
        for path in segment.paths():
            self._open_files.disk.remove(path)

    def _retire_segments(self, count: int, now_ms: int) -> None:
        """Rename the oldest segments away; one whose files cannot be renamed is gone nevertheless until a restart."""
        disk = self._open_files.disk
        for segment in self._take_oldest(count):
            segment.forget_file()
            for path in segment.paths():
                if disk.exists(path):
                    disk.rename(path, path + DELETED_SUFFIX)
                    self._removals.schedule(path + DELETED_SUFFIX, now_ms + self.config.file_delete_delay_ms)

    def _take_oldest(self, count: int) -> list[Segment]:
        """The log has these segments no longer; the caller sees to their files."""
        oldest = self._segments[:count]
        if oldest:
            del self._segments[:count], self._bases[:count]
            self._size_bytes -= sum(segment.size for segment in oldest)
            self._snapshots.forget_below(self._bases[0])
            if self._start_offset < self._bases[0]:
                self._start_at(self._bases[0])
        return oldest

    def _start_at(self, offset: int) -> None:
        self._start_offset = offset
        self._epochs.truncate_from_start(offset)

    # durability

    def flush(self) -> None:
        """Return when all that was appended before outlives a power cut. May run in a thread beside appends."""
        end_offset = self._end_offset
        if self._active is None or end_offset <= self.recovery_point:
            return
        since, self._dirty_since_ms = self._dirty_since_ms, None  # first: what is appended meanwhile sets it again
        try:
            self._flush_up_to(end_offset, self._segments[self._segment_number(self.recovery_point) :])
        except KafkaError:
            if self._dirty_since_ms is None:
                self._dirty_since_ms = since
            raise

    def _flush_up_to(self, end_offset: int, segments: list[Segment]) -> None:
        active, cuts = self._active, self._cuts
        with self._reporting():
            for segment in segments:
                self._flush_segment(segment, with_indexes=segment is not active)
            self._epochs.sync()
            self._sync_names()
        if self._cuts == cuts:  # else what was synced may have been cut off, and other records stand in its place
            self.recovery_point = max(self.recovery_point, end_offset)

    def _sync_names(self) -> None:
        if self._has_new_names:
            self._has_new_names = False  # first: what is made meanwhile sets it again
            try:
                self._open_files.disk.sync_directory(self.directory)
                self._open_files.disk.sync_directory(self.parent)
            except OSError:
                self._has_new_names = True
                raise

    def _flush_segment(self, segment: Segment, *, with_indexes: bool) -> None:
        try:
            segment.flush()
            if with_indexes:
                segment.save_indexes(durable=True)
        except FileNotFoundError:
            if self._active is not None and segment in self._segments:
                raise  # else it was deleted while this thread flushed

    def maybe_flush(self, now_ms: int) -> bool:
        """Flush if `flush_ms` says so; sealed segments are flushed a while after their roll in any case.

        May run in a thread beside appends, as `flush`.
        """
        since = self._dirty_since_ms
        if since is None or self._active is None:
            return False
        if now_ms - since >= self.config.flush_ms:
            self.flush()
            return True
        sealed_end = self._active.base_offset
        if self.recovery_point < sealed_end and now_ms - (self._active.created_ms or now_ms) >= SEALED_FLUSH_DELAY_MS:
            self._flush_up_to(sealed_end, self._segments[self._segment_number(self.recovery_point) : -1])
            return True
        return False

    @property
    def is_dirty(self) -> bool:
        """Whether there is something that only the page cache has."""
        return self._active is not None and self._end_offset > self.recovery_point

    def close(self, *, durable: bool = True) -> None:
        """Bring everything to the disk; afterwards the log end offset is the recovery point. The log may be loaded
        again.

        Without `durable` the page cache gets everything, and the caller syncs the disk as a whole.
        """
        if self._active is None:
            return
        was_dirty = self.is_dirty
        if durable:
            self.flush()
        try:
            self._active.save_indexes(is_final=True, durable=durable and was_dirty)
            self._snapshots.take(self._producers, self._end_offset, durable=durable)
            if durable:
                self._epochs.sync()
            self.recovery_point = self._end_offset
        except OSError as error:
            raise self._storage_error(error) from error
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files without saving anything, as a crash would."""
        if self._active is not None:
            for segment in self._segments:
                segment.forget_file()
            self._active = None

    def mark_deleted(self, directory: str) -> None:
        """The directory was renamed away: whoever still asks gets UNKNOWN_TOPIC_OR_PARTITION."""
        self.abandon()
        self.is_deleted = True
        self._end_offset = UNKNOWN
        self.directory = directory
