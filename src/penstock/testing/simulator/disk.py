"""The simulated disk behind `penstock.log.disk.Disk`: files in memory, faults by chance, crashes at any call.

A `HostDisk` belongs to a host and outlives its processes; a `SimulatedDisk` is what one process sees of it. When the
process dies, none of its calls does anything any more. `crash_in` and `error_in` count calls that change something:
when one comes to 0, the process is killed in the middle of that call, or it fails with EIO. Each name in the root
directory stands for a disk, which may be `dead`: all calls fail.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from penstock.log.disk import Disk, OpenFile, SyncFailedError
from penstock.log.names import LOG_SUFFIX
from penstock.testing.simulator.files import Directory, File
from penstock.testing.simulator.loop import KilledError, Process, VirtualLoop

DISK_BYTES = 1 << 34


@dataclass(slots=True)
class DiskConditions:
    """Faults in force. Shares are of calls."""

    full: bool = False
    full_disks: frozenset[str] = frozenset()
    """The same of some disks of the host alone."""
    dead: frozenset[str] = frozenset()
    read_errors: float = 0.0
    sync_errors: float = 0.0
    sync_s: float = 0.000_5
    """The longest that a sync takes."""


@dataclass(slots=True)
class HostDisk:
    loop: VirtualLoop
    random: Random
    root: Directory = field(default_factory=Directory)
    locks: dict[str, Process] = field(default_factory=dict)
    conditions: DiskConditions = field(default_factory=DiskConditions)
    crash_in: int | None = None
    error_in: int | None = None
    on_crash: Callable[[], None] = lambda: None
    on_write: Callable[[str, bytes], None] = lambda path, content: None
    """Told of each write to an open file with the path that it was opened by, whatever its outcome."""
    calls: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """How many writes to segments found no room, by the directory of the log."""

    def is_full(self, root: str) -> bool:
        return self.conditions.full or root in self.conditions.full_disks

    def add_root(self, path: str) -> None:
        """An empty directory at the root, such as `/data`; a `sync` makes it outlive a power cut."""
        self.root.link(path.strip("/"), Directory())

    def sync(self) -> None:
        """Everything outlives a power cut."""
        _sync_below(self.root)

    @property
    def has_lost(self) -> bool:
        """Whether a sync failed: the next process does not find what was to be synced."""
        return any(file.has_lost for file in self.root.files())

    def lose_power(self) -> None:
        """Unsynced data is kept or lost by chance."""
        self.root.lose_power(self.random)

    def check(self, process: Process, root: str) -> None:
        """OSError if that disk is dead."""
        process.check_alive()
        if root in self.conditions.dead:
            raise _error(errno.EIO)

    def before_change(self, process: Process, root: str) -> bool:
        """Called before each change; True if the process dies half-way through it. OSError if it fails."""
        self.check(process, root)
        self.calls += 1
        if self.error_in is not None:
            self.error_in -= 1
            if self.error_in <= 0:
                self.error_in = None
                raise _error(errno.EIO)
        if self.crash_in is None:
            return False
        self.crash_in -= 1
        if self.crash_in > 0:
            return False
        self.crash_in = None
        return True

    def die(self, process: Process) -> None:
        self.on_crash()
        assert not process.is_alive
        raise KilledError(process.host)

    def find(self, path: str) -> File | Directory | None:
        found: File | Directory = self.root
        for name in _names(path):
            if not isinstance(found, Directory) or name not in found.entries:
                return None
            found = found.entries[name]
        return found

    def directory(self, path: str) -> Directory:
        """The directory must exist."""
        found = self.find(path)
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def parent(self, path: str) -> tuple[Directory, str]:
        *above, name = _names(path)
        return self.directory("/".join(above)), name


@lru_cache(maxsize=4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _root(path: str) -> str:
    return next(iter(_names(path)), "")


class SimulatedFile(OpenFile):
    __slots__ = ("_file", "_host", "_lock", "_path", "_process", "_root")

    def __init__(self, host: HostDisk, process: Process, file: File, path: str, lock: str | None = None) -> None:
        super().__init__(-1)
        self._path = path
        self._root = _root(path)
        self._host = host
        self._process = process
        self._file = file
        self._lock = lock

    def read_at(self, length: int, position: int) -> bytes:
        """At most `length` bytes; OSError while the disk has read errors."""
        self._host.check(self._process, self._root)
        if self._host.random.random() < self._host.conditions.read_errors:
            raise _error(errno.EIO)
        return bytes(self._file.content[position : position + length])

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Writes all, or a part and raises OSError, or a part and dies."""
        content = bytes(data)
        self._host.on_write(self._path, content)
        try:
            dies = self._host.before_change(self._process, self._root)
        except OSError:
            part = content[: self._host.random.randrange(len(content) + 1)]
            self._file.write(part, position, self._host.loop.now_ms())
            raise
        if dies or self._host.is_full(self._root):
            part = content[: self._host.random.randrange(len(content) + 1)]
            self._file.write(part, position, self._host.loop.now_ms())
            if dies:
                self._host.die(self._process)
            if self._path.endswith(LOG_SUFFIX):
                self._host.refusals[os.path.dirname(self._path)] += 1
            raise _error(errno.ENOSPC)
        self._file.write(content, position, self._host.loop.now_ms())

    def truncate(self, size: int) -> None:
        if self._host.before_change(self._process, self._root):
            self._host.die(self._process)
        self._file.truncate(size, self._host.loop.now_ms())

    def sync(self) -> None:
        """All of the file outlives a power cut; called outside a thread it holds up the whole process."""
        self._before_sync([self._file])
        _take_time(self._host, self._process)
        self._file.sync()

    def _before_sync(self, files: Iterable[File]) -> None:
        try:
            if self._host.before_change(self._process, self._root):
                self._host.die(self._process)
            if self._host.random.random() < self._host.conditions.sync_errors:
                raise _error(errno.EIO)
        except OSError as error:
            for file in files:
                file.fail_to_sync()
            raise SyncFailedError(error.errno, error.strerror) from error

    def forget_cache(self) -> None:
        """The next read comes from the disk."""
        self._host.check(self._process, self._root)
        self._file.forget_cache()

    def sync_file_system(self) -> None:
        """All of the disk outlives a power cut."""
        self._before_sync(self._host.root.files())
        self._host.sync()

    def size(self) -> int:
        return len(self._file.content)

    def close(self) -> None:
        """Releases the lock, if the file is one."""
        lock, self._lock = getattr(self, "_lock", None), None
        if lock is not None and self._process.is_alive and self._host.locks.get(lock) is self._process:
            del self._host.locks[lock]


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _take_time(host: HostDisk, process: Process) -> None:
    seconds = host.random.uniform(0, host.conditions.sync_s)
    if not process.in_thread:
        host.loop.advance(seconds)


class SimulatedDisk(Disk):
    __slots__ = ("_host", "_process")

    def __init__(self, host: HostDisk, process: Process) -> None:
        self._host = host
        self._process = process

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self._host.check(self._process, _root(path))
        found = self._host.find(path)
        if isinstance(found, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if found is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            found = self._create(path)
        return SimulatedFile(self._host, self._process, found, path)

    def _create(self, path: str) -> File:
        directory, name = self._host.parent(path)
        self._change(path)
        if self._host.is_full(_root(path)) and self._host.random.random() < 0.5:
            raise _error(errno.ENOSPC)
        file = File(modified_ms=self._host.loop.now_ms())
        directory.link(name, file)
        return file

    def _change(self, path: str) -> None:
        if self._host.before_change(self._process, _root(path)):
            self._host.die(self._process)

    def open_for_reading(self, path: str) -> OpenFile:
        return self.open(path)

    def lock(self, path: str) -> OpenFile | None:
        """The locks of dead processes are free."""
        self.open(path, create=True)
        owner = self._host.locks.get(path)
        if owner is not None and owner.is_alive:
            return None
        self._host.locks[path] = self._process
        file = self._host.find(path)
        assert isinstance(file, File)
        return SimulatedFile(self._host, self._process, file, path, lock=path)

    def read_file(self, path: str) -> bytes | None:
        self._host.check(self._process, _root(path))
        found = self._host.find(path)
        if self._host.random.random() < self._host.conditions.read_errors:
            raise _error(errno.EIO)
        return bytes(found.content) if isinstance(found, File) else None

    def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
        """As the real disk does it, so that it can end after each of its steps."""
        temporary = path + ".tmp"
        handle = self.open(temporary, create=True)
        handle.truncate(0)
        handle.write_at(content, 0)
        if durable:
            handle.sync()
        self.rename(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))

    def file_size(self, path: str) -> int:
        """0 if there is no such file."""
        found = self._host.find(path)
        return len(found.content) if isinstance(found, File) else 0

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def _file(self, path: str) -> File:
        found = self._host.find(path)
        if not isinstance(found, File):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def exists(self, path: str) -> bool:
        return self._host.find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._host.find(path), Directory)

    def has_directory(self, path: str) -> bool:
        self._host.check(self._process, _root(path))
        return self.is_directory(path)

    def names(self, directory: str) -> list[str]:
        """Sorted."""
        found = self._host.find(directory)
        return sorted(found.entries) if isinstance(found, Directory) else []

    def directories(self, directory: str) -> Iterator[str]:
        """In the order of their creation."""
        self._host.check(self._process, _root(directory))
        entries = self._host.directory(directory).entries
        return iter([name for name, what in entries.items() if isinstance(what, Directory)])

    def sizes(self, directory: str) -> dict[str, int]:
        """The lengths of files; 0 for directories."""
        self._host.check(self._process, _root(directory))
        entries = self._host.directory(directory).entries
        return {name: len(what.content) if isinstance(what, File) else 0 for name, what in entries.items()}

    def in_threads(self, look: Callable[[str], bool], paths: Sequence[str], threads: int) -> list[bool]:
        """One after the other, so that a run can be repeated."""
        return [look(path) for path in paths]

    def bytes_of_files(self, directory: str, suffix: str) -> int:
        found = self._host.find(directory)
        if not isinstance(found, Directory):
            return 0
        return sum(len(f.content) for n, f in found.entries.items() if n.endswith(suffix) and isinstance(f, File))

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        self._host.check(self._process, _root(path))
        names = _names(path)
        for depth in range(1 if parents else len(names), len(names) + 1):
            place = "/".join(names[:depth])
            found = self._host.find(place)
            if found is None:
                directory, name = self._host.parent(place)
                self._change(path)
                directory.link(name, Directory())
            elif not isinstance(found, Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def rename(self, source: str, target: str) -> None:
        """Within one directory, which is all that the log needs."""
        directory, old = self._host.parent(source)
        other, new = self._host.parent(target)
        assert directory is other, "a rename from one directory to another"
        if old not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._change(source)
        directory.rename(old, new)

    def remove(self, path: str) -> None:
        if self._host.find(path) is not None:
            directory, name = self._host.parent(path)
            self._change(path)
            directory.unlink(name)

    def remove_tree(self, path: str) -> None:
        """File by file."""
        found = self._host.find(path)
        if isinstance(found, Directory):
            for name in list(found.entries):
                self.remove_tree(f"{path}/{name}")
        self.remove(path)

    def remove_some(self, path: str, at_most: int) -> int:
        names = self.names(path)
        if len(names) < at_most:
            self.remove_tree(path)
        else:
            names = names[:at_most]
            for name in names:
                self.remove_tree(f"{path}/{name}")
        return len(names)

    def space(self, path: str) -> tuple[int, int]:
        """Always the same size."""
        self._host.check(self._process, _root(path))
        used = sum(len(file.content) for file in self._host.root.files())
        return DISK_BYTES, 0 if self._host.is_full(_root(path)) else DISK_BYTES - used

    def sync_directory(self, path: str) -> None:
        """The names outlive a power cut."""
        directory = self._host.directory(path)
        try:
            self._change(path)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error
        _take_time(self._host, self._process)
        directory.sync()


def _sync_below(directory: Directory) -> None:
    directory.sync()
    for what in directory.entries.values():
        if isinstance(what, Directory):
            _sync_below(what)
        else:
            what.sync()
