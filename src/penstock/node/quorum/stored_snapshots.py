"""Snapshots beside the log of the consensus core: `penstock.raft.ports.Snapshots` over files of a directory.

| file                        | what it is                                                                    |
| --------------------------- | ----------------------------------------------------------------------------- |
| `<end>-<epoch>.checkpoint`  | a whole snapshot, durable; it never changes                                   |
| `….checkpoint.part`         | one that is being fetched                                                     |
| `….checkpoint.tmp`          | one that is being written here                                                |

The two newest are kept, so that a replica that fetches one is not disturbed by the next. What an interrupted fetch or
write left is removed when the directory is opened. `write`, and what `fetched` gives, may run in a thread; everything
else belongs to the thread of the event loop, and so does what is forgotten: what it was told is there stays there while
it reads.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Final

from penstock.log.disk import Disk, OpenFile
from penstock.log.health import Health
from penstock.metadata.snapshot import parse_snapshot_name, snapshot_name
from penstock.raft.ports import SnapshotId

KEPT: Final = 2
PARTIAL_SUFFIX: Final = ".part"
TEMPORARY_SUFFIX: Final = ".tmp"


class StoredSnapshots:
    """Makes the directory if it is not there. Raises KafkaError(KAFKA_STORAGE_ERROR) where the disk fails."""

    def __init__(self, disk: Disk, directory: str, health: Health | None = None) -> None:
        self._disk = disk
        self._health = health or Health(directory)
        self._directory = directory
        self._sizes: dict[SnapshotId, int] = {}
        self._sizes_change = Lock()
        self._partial: tuple[SnapshotId, OpenFile, int] | None = None
        with self._reporting():
            disk.make_directory(directory, parents=True)
            for name in disk.names(directory):
                self._take_up(name)
            # Names that an earlier process gave may not be durable, and what is must not be lost with the directory.
            disk.sync_directory(directory)
            disk.sync_directory(directory.rpartition("/")[0])

    def _take_up(self, name: str) -> None:
        path = f"{self._directory}/{name}"
        key = parse_snapshot_name(name)
        if key is not None:
            self._sizes[SnapshotId(*key)] = self._disk.file_size(path)
        elif parse_snapshot_name(name.removesuffix(PARTIAL_SUFFIX).removesuffix(TEMPORARY_SUFFIX)) is not None:
            self._disk.remove(path)

    @property
    def latest(self) -> SnapshotId | None:
        """A whole one; None if there is none."""
        return max(self._sizes, default=None)

    def size(self, snapshot: SnapshotId) -> int | None:
        """In bytes; None if there is no such whole snapshot."""
        return self._sizes.get(snapshot)

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """A piece, which may begin and end anywhere in a batch."""
        with self._reporting():
            return self._disk.open_for_reading(self.path(snapshot)).read_at(max_bytes, position)

    def load(self, snapshot: SnapshotId) -> bytes:
        with self._reporting():
            return self._disk.open_for_reading(self.path(snapshot)).read_at(self._sizes[snapshot], 0)

    def path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_name(snapshot.end_offset, snapshot.epoch)}"

    # one that is being fetched

    def begin(self, snapshot: SnapshotId) -> None:
        """A snapshot is going to be fetched: forget what was there of it, and of any other."""
        with self._reporting():
            if self._partial is not None:
                other = self._partial[0]
                self._partial = None  # its file stays open while a thread reads it
                self._disk.remove(self.path(other) + PARTIAL_SUFFIX)
            self._partial = snapshot, self._create(self.path(snapshot) + PARTIAL_SUFFIX), 0

    def add(self, snapshot: SnapshotId, piece: bytes) -> None:
        file, size = self._fetched(snapshot)
        with self._reporting():
            file.write_at(piece, size)
        self._partial = snapshot, file, size + len(piece)

    def fetched(self, snapshot: SnapshotId) -> Callable[[], bytes]:
        """What reads the fetched snapshot once it is whole on the disk. That may run in a thread, and another fetch may
        begin meanwhile.
        """
        return partial(self._read_durable, *self._fetched(snapshot))

    def _read_durable(self, file: OpenFile, size: int) -> bytes:
        with self._reporting():
            file.sync()
            return file.read_at(size, 0)

    def finish(self, snapshot: SnapshotId) -> None:
        """Make the complete snapshot durable under its own name."""
        file, size = self._fetched(snapshot)
        self._partial = None
        path = self.path(snapshot)
        with self._reporting():
            self._complete(file, path + PARTIAL_SUFFIX, path)
        self._enter(snapshot, size)

    def _fetched(self, snapshot: SnapshotId) -> tuple[OpenFile, int]:
        assert self._partial is not None, "no snapshot is being fetched"
        assert self._partial[0] == snapshot, "another snapshot is being fetched"
        return self._partial[1], self._partial[2]

    # one that is taken here

    def write(self, snapshot: SnapshotId, chunks: Iterable[bytes]) -> None:
        """Durable on return; an existing one stays; a failed one leaves nothing. May run in a thread."""
        if snapshot in self._sizes:
            return
        path = self.path(snapshot)
        size = 0
        with self._reporting():
            file = self._create(path + TEMPORARY_SUFFIX)
            try:
                for chunk in chunks:
                    file.write_at(chunk, size)
                    size += len(chunk)
                self._complete(file, path + TEMPORARY_SUFFIX, path)
            except Exception:
                file.close()
                self._disk.remove(path + TEMPORARY_SUFFIX)
                raise
        self._enter(snapshot, size)

    def forget_older(self, retire: Callable[[str], None]) -> None:
        """The log starts behind a snapshot now; called with the paths of those that are not needed any more."""
        with self._sizes_change:
            old = sorted(self._sizes)[:-KEPT]
            self._sizes = {snapshot: size for snapshot, size in self._sizes.items() if snapshot not in old}
        with self._reporting():
            for snapshot in old:
                retire(self.path(snapshot))

    def _create(self, path: str) -> OpenFile:
        file = self._disk.open(path, create=True)
        file.truncate(0)
        return file

    def _complete(self, file: OpenFile, path: str, whole_path: str) -> None:
        file.sync()
        self._disk.rename(path, whole_path)
        self._disk.sync_directory(self._directory)

    def _enter(self, snapshot: SnapshotId, size: int) -> None:
        with self._sizes_change:
            self._sizes = self._sizes | {snapshot: size}  # a new one: the loop may be looking through the old

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        self._health.check()
        with self._health.raising(f"snapshots in {self._directory}"):
            yield
