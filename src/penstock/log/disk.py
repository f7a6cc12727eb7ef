"""The only door to the operating system's files: what each call promises about data that a crash may tear.

Contract, which a simulated disk keeps as well:

* `OpenFile.write_at` puts all bytes into the page cache or raises OSError; after an error, or a crash before
  `sync`, any part of them may be in the file, in any state. Bytes that were synced before are never touched.
* `OpenFile.sync` returns when the file's bytes and its size outlive a power cut. When a sync raises SyncFailedError,
  nobody knows what the disk has, and another one would not tell.
* `Disk.replace_file` leaves either the old or the new content under the name, never a mixture; with `durable` the
  new content outlives a power cut, without it the content may be lost or empty after one.
* `Disk.rename`, `Disk.remove` and `Disk.make_directory` happen at once or not at all; they outlive a power cut
  after `sync_directory`.
* An `OpenFile` closes its descriptor when nobody refers to it any longer. A reader that holds one can go on reading
  although the log has closed, renamed or removed the file meanwhile.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

_PATHS_AT_ONCE = 256
"""How many paths a thread takes at once."""
_SMALL_FILE_BYTES = 4096
_READ_BYTES = 1 << 20


class SyncFailedError(OSError):
    """The disk may lack what was written before, although the page cache has it."""


class OpenFile:
    """A file that is open for reading and writing at explicit positions; closes itself with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read_at(self, length: int, position: int) -> bytes:
        """At most `length` bytes from `position`; fewer only at the end of the file."""
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
        """Hand at most `length` bytes from `position` to a socket that does not block, without a copy of our own.

        How many it took: 0 at the end of the file. BlockingIOError when the socket takes none now.
        """
        return os.sendfile(socket, self.fd, position, length)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data`, in one call unless the system takes less."""
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
        """Cut the file to `size` bytes."""
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        """Return when all that was written outlives a power cut. Raises SyncFailedError."""
        _sync(self.fd)

    def forget_cache(self) -> None:
        """Have what is read next come from the disk.

        After a sync that failed, the page cache may go on showing what the disk never got, as if it were written.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync_file_system(self) -> None:
        """Return when all that was written to the file's file system outlives a power cut. Raises SyncFailedError, also
        for what could not be written since this file was opened.
        """
        import ctypes  # 5 ms of start-up, for a call that only the end of a node with very many logs needs

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:  # not Linux: nobody tells of errors
            os.sync()
        elif syncfs(self.fd):
            number = ctypes.get_errno()
            raise SyncFailedError(number, os.strerror(number))

    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        """Close now, whoever may still refer to it."""
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
    """The real disk."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open for reading and writing; FileNotFoundError unless `create`."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(path, flags, 0o644))

    def open_for_reading(self, path: str) -> OpenFile:
        """Open a file that we may not be allowed to write."""
        return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> OpenFile | None:
        """Take the lock that this file stands for, until the handle closes or the process ends; None if another
        process holds it.
        """
        handle = self.open(path, create=True)
        try:
            fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return None
        return handle

    def read_file(self, path: str) -> bytes | None:
        """The whole content, or None if there is no such file."""
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
        """Give the file this content, atomically: temporary file, sync, rename, sync of the directory."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
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
        """The length of a file in bytes; 0 if there is none."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return 0

    def modified_ms(self, path: str) -> int:
        """When the file was last written, milliseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Have the file look as if it was last written then."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this name."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of this name."""
        return os.path.isdir(path)

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; empty if there is none."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def directories(self, directory: str) -> Iterator[str]:
        """The names of the directories in a directory, in no order."""
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield entry.name

    def sizes(self, directory: str) -> dict[str, int]:
        """The names of the files in a directory and their lengths in bytes."""
        with os.scandir(directory) as entries:
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}

    def in_threads(self, look: Callable[[str], bool], paths: Sequence[str], threads: int) -> list[bool]:
        """What `look` says of each path, asked by several threads: a cold disk has more than one read to do at once."""
        parts = [paths[start : start + _PATHS_AT_ONCE] for start in range(0, len(paths), _PATHS_AT_ONCE)]
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(lambda part: [look(path) for path in part], parts)
            return [one for part in found for one in part]

    def bytes_of_files(self, directory: str, suffix: str) -> int:
        """The bytes of all files in a directory whose names end so; 0 if there is no such directory."""
        try:
            with os.scandir(directory) as entries:
                return sum(entry.stat().st_size for entry in entries if entry.name.endswith(suffix))
        except FileNotFoundError:
            return 0

    def has_directory(self, path: str) -> bool:
        """Whether there is such a directory; where there is none, raises OSError if none could be made."""
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
        """Make a directory; one that is there already is left as it is."""
        try:
            if parents:
                os.makedirs(path, exist_ok=True)
            else:
                os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name, replacing a file of that name."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file; it is no error if there is none. Those who hold it open can go on reading."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it; it is no error if there is none."""
        shutil.rmtree(path, ignore_errors=True)

    def space(self, path: str) -> tuple[int, int]:
        """(bytes of the file system, bytes of it that we may still use)."""
        stats = os.statvfs(path)
        return stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory outlive a power cut. Raises SyncFailedError."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync(fd)
        finally:
            os.close(fd)
