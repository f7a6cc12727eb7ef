"""A real disk some of whose calls fail."""

import errno
import os
from collections.abc import Iterator

from penstock.log.disk import Disk, OpenFile, SyncFailedError


class FailingFile(OpenFile):
    """A file of a `FailingDisk`."""

    __slots__ = ("_disk", "_path")

    def __init__(self, fd: int, disk: "FailingDisk", path: str) -> None:
        super().__init__(fd)
        self._disk = disk
        self._path = path

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._disk.ask("write", self._path)
        super().write_at(data, position)

    def truncate(self, size: int) -> None:
        self._disk.ask("truncate", self._path)
        super().truncate(size)

    def read_at(self, length: int, position: int) -> bytes:
        self._disk.ask("read", self._path)
        return super().read_at(length, position)

    def sync(self) -> None:
        self._disk.ask("sync", self._path)
        super().sync()

    def sync_file_system(self) -> None:
        self._disk.ask("sync file system", self._path)
        super().sync_file_system()


class FailingDisk(Disk):
    """`fail("sync", "p1/", EIO)` lets the next sync of such a path fail; the one after succeeds."""

    __slots__ = ("_planned",)

    def __init__(self) -> None:
        self._planned: list[tuple[str, str, int, bool]] = []

    def fail(self, call: str, where: str, number: int = errno.EIO, *, always: bool = False) -> None:
        self._planned.append((call, where, number, always))

    def heal(self) -> None:
        self._planned.clear()

    def ask(self, call: str, path: str) -> None:
        for planned in self._planned:
            if planned[0] == call and planned[1] in path:
                if not planned[3]:
                    self._planned.remove(planned)
                error = SyncFailedError if call.startswith("sync") else OSError
                raise error(planned[2], os.strerror(planned[2]))

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.ask("open", path)
        opened = super().open(path, create=create)
        fd, opened.fd = opened.fd, -1
        return FailingFile(fd, self, path)

    def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
        self.ask("replace", path)
        super().replace_file(path, content, durable=durable)

    def read_file(self, path: str) -> bytes | None:
        self.ask("read file", path)
        return super().read_file(path)

    def has_directory(self, path: str) -> bool:
        self.ask("look", path)
        return super().has_directory(path)

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        self.ask("make", path)
        super().make_directory(path, parents=parents)

    def names(self, directory: str) -> list[str]:
        self.ask("names", directory)
        return super().names(directory)

    def directories(self, directory: str) -> Iterator[str]:
        self.ask("directories", directory)
        return super().directories(directory)

    def remove(self, path: str) -> None:
        self.ask("remove", path)
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        if self.exists(source):
            self.ask("rename", source)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self.ask("sync directory", path)
        super().sync_directory(path)
