"""A file of fixed-size entries that only grows at its end: what `.index` and `.timeindex` have in common.

New entries gather in memory (`_tail`) and go to the file in one write when there are many, when the segment is flushed,
and when it closes; no descriptor is kept. So the file may lack the newest entries after a crash: it is derived from
the log and is rebuilt then. Entries are sorted by their first field.
"""

from bisect import bisect_left, bisect_right
from struct import Struct

from penstock.log.disk import Disk
from penstock.log.health import may_pass

SPILL_BYTES = 32 << 10
"""A tail of this many bytes goes to the file."""


class CorruptIndexError(ValueError):
    """It does not fit its segment and has to be rebuilt."""


class EntryFile:
    """Entries of one layout: `saved` of them in the file, the rest in memory."""

    __slots__ = ("_disk", "_is_synced", "_layout", "_tail", "path", "saved")

    def __init__(self, disk: Disk, path: str, layout: Struct) -> None:
        self._disk = disk
        self._layout = layout
        self._tail = bytearray()
        self._is_synced = True  # older entries were synced, or are derived again
        self.path = path
        self.saved = 0

    def __len__(self) -> int:
        return self.saved + len(self._tail) // self._layout.size

    @property
    def size_bytes(self) -> int:
        return len(self) * self._layout.size

    def load(self) -> None:
        """CorruptIndexError if the file holds no whole number of entries."""
        count, rest = divmod(self._disk.file_size(self.path), self._layout.size)
        if rest:
            raise CorruptIndexError(f"{self.path} does not end with a whole entry")
        self._tail.clear()
        self.saved = count

    def append(self, first: int, second: int) -> None:
        self._tail += self._layout.pack(first, second)
        if len(self._tail) >= SPILL_BYTES:
            try:
                self.save()
            except OSError as error:
                if not may_pass(error):
                    raise
                # Else the disk is full: the entries stay in memory, the next append or flush tries again.

    def entry(self, number: int) -> tuple[int, int]:
        """`number` counts from 0."""
        size = self._layout.size
        if number >= self.saved:
            first, second = self._layout.unpack_from(self._tail, (number - self.saved) * size)
            return first, second
        first, second = self._layout.unpack(self._disk.open(self.path).read_at(size, number * size))
        return first, second

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.entry(count - 1) if count else None

    def floor(self, key: int) -> int:
        """The number of the last entry whose first field is at most `key`, or -1."""
        layout, size, tail = self._layout, self._layout.size, self._tail
        if tail and layout.unpack_from(tail)[0] <= key:
            starts = range(0, len(tail), size)
            return self.saved + bisect_right(starts, key, key=lambda start: layout.unpack_from(tail, start)[0]) - 1
        if not self.saved:
            return -1
        file = self._disk.open(self.path)
        return bisect_right(range(self.saved), key, key=lambda it: layout.unpack(file.read_at(size, it * size))[0]) - 1

    def truncate_to(self, second: int) -> None:
        """Forget the entries whose second field, which grows as the first one does, is `second` or more."""
        self.truncate(bisect_left(range(len(self)), second, key=lambda number: self.entry(number)[1]))

    def truncate(self, count: int) -> None:
        if count >= len(self):
            return
        if count >= self.saved:
            del self._tail[(count - self.saved) * self._layout.size :]
            return
        self._tail.clear()
        self._is_synced = False
        self._disk.open(self.path).truncate(count * self._layout.size)
        self.saved = count

    def save(self, *, durable: bool = False, create: bool = False) -> None:
        """`durable` syncs the file, `create` makes it even without entries. OSError leaves the entries in memory."""
        must_sync = durable and (bool(self._tail) or not self._is_synced)
        if not (self._tail or must_sync or create):
            return
        file = self._disk.open(self.path, create=True)
        if self._tail:
            self._is_synced = False
            tail = bytes(self._tail)  # a thread may save while the loop adds entries
            file.write_at(tail, self.saved * self._layout.size)
            self.saved += len(tail) // self._layout.size
            del self._tail[: len(tail)]
        if must_sync:
            file.sync()
            self._is_synced = True

    def reset(self) -> None:
        """The file is emptied as well."""
        self._tail.clear()
        self.saved = 0
        if self._disk.file_size(self.path):
            self._is_synced = False
            self._disk.open(self.path).truncate(0)
