"""One log directory: its lock, its identity, its checkpoints, whether it was closed cleanly, and whether it works."""

import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

from penstock.log.checkpoint import CorruptCheckpointError, TopicPartition, encode_offsets, read_offsets
from penstock.log.directories.errors import LockedDirectoryError, LogDirectoryError, UnusableDirectoryError
from penstock.log.disk import Disk, OpenFile
from penstock.log.health import Health
from penstock.log.names import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from penstock.protocol.errors import ErrorCode, KafkaError

CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, CLEANED_OFFSETS, HIGH_WATERMARKS)
UNKNOWN_EPOCH = -1
THREADS = 11
"""Six of them may flush as `flush.messages` wants it; upkeep has three at most, and the remover one."""
ROOM_BYTES = 1 << 30
"""A directory that was full has room again when so much is free, or a hundredth of its file system."""


class LogDirectory:
    """A directory that this process has locked, that is offline, or that `is_missing` until `make`. `directory_id` is
    None until it is known. `clean_broker_epoch` is that of the broker which closed it cleanly, -1 if unknown (KIP-966).
    `is_marked`: the mark of a clean close, if there was one, is still there. Raises LockedDirectoryError.
    """

    __slots__ = (
        "_disk",
        "_found_mark",
        "_gone",
        "_lock",
        "_written",
        "checkpointing",
        "clean_broker_epoch",
        "directory_id",
        "health",
        "is_clean",
        "is_marked",
        "is_missing",
        "path",
        "problem",
        "threads",
    )

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.health = Health(path)
        self.problem: LogDirectoryError | None = None
        self.directory_id: UUID | None = None
        self.is_clean = False
        self.is_marked = True
        self.is_missing = False
        self._found_mark: bytes | None = None
        self.clean_broker_epoch = UNKNOWN_EPOCH
        self._written: dict[str, bytes] = {}
        self._gone: set[TopicPartition] = set()
        self.checkpointing = threading.RLock()
        """Held while checkpoints are gathered and written: a log that comes then must not find its name in them."""
        self.threads = ThreadPoolExecutor(THREADS, "disk")
        """Of what waits for this disk: while it hangs, all else goes on. They begin with the first work."""
        self._lock: OpenFile | None = None
        try:
            self.is_missing = not disk.has_directory(path)
            if not self.is_missing:
                self._take_lock()
                self._look_for_mark()
        except OSError as error:
            self.give_up(UnusableDirectoryError(path, error))

    def make(self) -> None:
        """Raises OSError, LockedDirectoryError: another start was quicker."""
        if self.is_missing:
            self._disk.make_directory(self.path, parents=True)
            self._take_lock()
            if self._disk.exists(f"{self.path}/{META_PROPERTIES}"):
                raise LockedDirectoryError(self.path)
            self.is_missing = False

    def _take_lock(self) -> None:
        self._lock = self._disk.lock(f"{self.path}/{LOCK}")
        if self._lock is None:
            raise LockedDirectoryError(self.path)

    @property
    def is_online(self) -> bool:
        return self.health.failure is None

    def has_room(self) -> bool:
        """Whether it can be written for a while. Raises OSError."""
        total, free = self._disk.space(self.path)
        return free >= min(total // 100, ROOM_BYTES)

    def give_up(self, problem: LogDirectoryError) -> None:
        """It is offline from the start."""
        self.problem = problem
        if self.health.failure is None:
            self.health.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))

    def _look_for_mark(self) -> None:
        self._found_mark = self._disk.read_file(f"{self.path}/{CLEAN_SHUTDOWN}")
        self.is_clean = self._found_mark is not None
        if self._found_mark is not None:
            with suppress(ValueError, KeyError, TypeError):
                self.clean_broker_epoch = int(json.loads(self._found_mark)["brokerEpoch"])

    def recovery_points(self) -> dict[TopicPartition, int]:
        """Up to where each partition was flushed; empty if that is not known, which costs a longer recovery."""
        try:
            return read_offsets(self._disk, f"{self.path}/{RECOVERY_POINTS}")
        except CorruptCheckpointError:
            self.is_clean = False
            return {}

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Of partitions whose first segment begins below."""
        try:
            return read_offsets(self._disk, f"{self.path}/{LOG_START_OFFSETS}")
        except CorruptCheckpointError:
            return {}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, f"{self.path}/{HIGH_WATERMARKS}")
        except CorruptCheckpointError:
            return {}

    def cleaned_offsets(self) -> dict[TopicPartition, int]:
        """Up to where partitions were compacted; empty if that is not known: they are compacted again."""
        try:
            return read_offsets(self._disk, f"{self.path}/{CLEANED_OFFSETS}")
        except CorruptCheckpointError:
            return {}

    def write_cleaned_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        """Raises OSError."""
        if offsets or CLEANED_OFFSETS in self._written or self._disk.exists(f"{self.path}/{CLEANED_OFFSETS}"):
            self._write(CLEANED_OFFSETS, offsets)

    def write_recovery_points(self, offsets: dict[TopicPartition, int]) -> None:
        """Raises OSError."""
        self._write(RECOVERY_POINTS, offsets)

    def write_log_start_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        """Raises OSError."""
        self._write(LOG_START_OFFSETS, offsets)

    def write_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        """Raises OSError."""
        self._write(HIGH_WATERMARKS, offsets)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        content = encode_offsets(offsets)
        if self._written.get(name) != content:
            self._disk.replace_file(f"{self.path}/{name}", content, durable=True)
            self._written[name] = content

    def gone(self, keys: Iterable[TopicPartition]) -> None:
        """Their logs are not here any more; what checkpoints say of them is not true of others of these names."""
        self._gone.update(keys)

    def make_way(self, key: TopicPartition) -> None:
        """A log of this name comes, and finds nothing in the checkpoints. Raises OSError."""
        if key in self._gone:
            with self.checkpointing:
                self.forget_gone()

    def forget_gone(self) -> None:
        """Raises OSError."""
        gone = set(self._gone)
        for name in CHECKPOINTS if gone else ():
            try:
                offsets = read_offsets(self._disk, f"{self.path}/{name}")
            except CorruptCheckpointError:
                continue  # it says nothing
            kept = {key: offset for key, offset in offsets.items() if key not in gone}
            if len(kept) < len(offsets):
                self._write(name, kept)
        self._gone -= gone

    def forget_clean_shutdown(self) -> None:
        """From here on a crash needs a recovery. Raises OSError."""
        if self._found_mark is not None:  # also where a checkpoint beside it cannot be read: the next start believes it
            self._disk.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
            self._disk.sync_directory(self.path)
            self.is_marked = False

    def sync_all(self) -> None:
        """Return when all writes to the file system outlive a power cut. Raises SyncFailedError."""
        assert self._lock is not None
        self._lock.sync_file_system()

    def close(self, *, broker_epoch: int) -> None:
        """After all logs are closed and all checkpoints written: mark it and release the lock. Raises OSError."""
        self._mark(json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())

    def close_as_found(self) -> None:
        """The same with the mark that was found. Raises OSError."""
        assert self._found_mark is not None
        self._mark(self._found_mark)

    def _mark(self, content: bytes) -> None:
        self._disk.replace_file(f"{self.path}/{CLEAN_SHUTDOWN}", content, durable=True)
        self.abandon()

    def abandon(self) -> None:
        """Only release the lock, as a crash would."""
        self.threads.shutdown(wait=False)
        if self._lock is not None:
            self._lock.close()
