"""The only door to the operating system's files: what each call promises about data that a crash may tear.

Contract, which a simulated disk keeps as well:

* `OpenFile.write_at` puts all bytes into the page cache or raises OSError; after an error, or a crash before
  `sync`, any part of them may be in the file, in any state. Bytes that were synced before are never touched.
* `OpenFile.sync` returns when the file's bytes and its size outlive a power cut. When a sync raises SyncFailedError,
  it is unknown what the disk has, and another sync would not tell.
* `Disk.replace_file` leaves either the old or the new content under the name, never a mixture; with `durable` the
  new content outlives a power cut, without it the content may be lost or empty after one.
* `Disk.rename`, `Disk.remove` and `Disk.make_directory` happen at once or not at all; they outlive a power cut
  after `sync_directory`.
* An `OpenFile` closes its descriptor with the last reference to it. A reader that holds one can go on reading
  although the log has closed, renamed or removed the file meanwhile.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

_PATHS_AT_ONCE = 256
_SMALL_FILE_BYTES = 4096
_READ_BYTES = 1 << 20
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
"""What a node keeps is for its own user; files and directories that are there already stay as they are."""


class SyncFailedError(OSError):
    """The disk may lack earlier writes, although the page cache has them."""


class OpenFile:
    """Reads and writes at explicit positions; closes itself with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read_at(self, length: int, position: int) -> bytes:
        """Fewer than `length` bytes only at the end of the file."""
        data = os.pread(self.fd, length, position)
        if len(data) < length and data:
            return self._read_on(data, length, position)
        return data

    def _read_on(self, data: bytes, length: int, position: int) -> bytes:
        parts = [data]
        have = len(data)
        while have < length:
            more = os.pread(self.fd, length - have, position + have)
            if not more:
                break
            parts.append(more)
            have += len(more)
        return b"".join(parts)

    def send_to(self, socket: int, length: int, position: int) -> int:
        """Without a copy of our own, to a socket that does not block. Returns how many bytes it took: 0 at the end of
        the file. BlockingIOError when the socket takes none now.
        """
        return os.sendfile(socket, self.fd, position, length)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """In one call unless the system takes less."""
        written = os.pwrite(self.fd, data, position)
        if written != len(data):
            self._write_on(data, written, position)

    def _write_on(self, data: bytes | bytearray | memoryview, written: int, position: int) -> None:
        view = memoryview(data)
        while written < len(view):
            more = os.pwrite(self.fd, view[written:], position + written)
            if more == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += more

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        """Written bytes outlive a power cut. Raises SyncFailedError."""
        _sync(self.fd)

    def forget_cache(self) -> None:
        """After a failed sync the page cache may show bytes that the disk never got: reads are to ask the disk."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync_file_system(self) -> None:
        """Written bytes of the whole file system outlive a power cut. Raises SyncFailedError, also for earlier failed
        writes.
        """
        import ctypes  # 5 ms of start-up, for a call that only the end of a node with very many logs needs

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:  # not Linux: errors are not told
            os.sync()
        elif syncfs(self.fd):
            number = ctypes.get_errno()
            raise SyncFailedError(number, os.strerror(number))

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise SyncFailedError(error.errno, error.strerror) from error


class Disk:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """FileNotFoundError unless `create`."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(path, flags, _FILE_MODE))

    def open_for_reading(self, path: str) -> OpenFile:
        """We may not be allowed to write the file."""
        return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> OpenFile | None:
        """Held until the handle closes or the process ends; None if another process holds it."""
        handle = self.open(path, create=True)
        try:
            fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return None
        return handle

    def read_file(self, path: str) -> bytes | None:
        """None if there is no such file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # A start reads a small file of each partition: as few calls as can be.
            content = os.read(fd, _SMALL_FILE_BYTES)
            if len(content) == _SMALL_FILE_BYTES:
                while piece := os.read(fd, _READ_BYTES):
                    content += piece
            return content
        finally:
            os.close(fd)

    def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
        """Atomically: temporary file, sync, rename, sync of the directory."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        handle = OpenFile(fd)
        try:
            handle.write_at(content, 0)
            if durable:
                handle.sync()
        finally:
            handle.close()
        os.replace(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))

    def file_size(self, path: str) -> int:
        """0 if there is no such file."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return 0

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def names(self, directory: str) -> list[str]:
        """Sorted; empty if there is no such directory."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def directories(self, directory: str) -> Iterator[str]:
        """In no order."""
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield entry.name

    def sizes(self, directory: str) -> dict[str, int]:
        with os.scandir(directory) as entries:
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}

    def in_threads(self, look: Callable[[str], bool], paths: Sequence[str], threads: int) -> list[bool]:
        """A cold disk has more than one read to do at once."""
        parts = [paths[start : start + _PATHS_AT_ONCE] for start in range(0, len(paths), _PATHS_AT_ONCE)]
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(lambda part: [look(path) for path in part], parts)
            return [one for part in found for one in part]

    def bytes_of_files(self, directory: str, suffix: str) -> int:
        """Of files whose names end with `suffix`; 0 if there is no such directory."""
        try:
            with os.scandir(directory) as entries:
                return sum(entry.stat().st_size for entry in entries if entry.name.endswith(suffix))
        except FileNotFoundError:
            return 0

    def has_directory(self, path: str) -> bool:
        """Where there is none, raises OSError if it could not be made."""
        above = path
        while not os.path.lexists(above):
            above = os.path.dirname(above) or "."
        if not os.path.isdir(above):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
        if above != path and not os.access(above, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(above).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(number, os.strerror(number), above)
        return above == path

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        """An existing directory is left as it is."""
        above = os.path.dirname(path)
        if parents and above and not os.path.isdir(above):
            Disk.make_directory(self, above, parents=True)
        try:
            os.mkdir(path, _DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        """Replaces a file of that name."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """No error if it is missing. Readers that hold it open can go on."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: str) -> None:
        """No error if it is missing."""
        shutil.rmtree(path, ignore_errors=True)

    def remove_some(self, path: str, at_most: int) -> int:
        """Remove so many files of a directory, or if there are fewer, all of it; how many files that were."""
        removed = 0
        with suppress(OSError), os.scandir(path) as entries:
            for entry in islice(entries, at_most):
                os.unlink(entry.path)
                removed += 1
        if removed < at_most:
            self.remove_tree(path)
        return removed

    def space(self, path: str) -> tuple[int, int]:
        """(bytes of the file system, bytes of it that we may still use)."""
        stats = os.statvfs(path)
        return stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail

    def sync_directory(self, path: str) -> None:
        """Names in the directory outlive a power cut. Raises SyncFailedError."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync(fd)
        finally:
            os.close(fd)
