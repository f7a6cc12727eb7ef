"""`.index`: where in a segment to begin the search for an offset.

An entry is 8 bytes, big-endian: the last offset of a batch less the segment's base offset, and the position at
which that batch begins. There is one for about every `index.interval.bytes` of the log.
"""

from struct import Struct

from penstock.log.disk import Disk
from penstock.log.entry_file import CorruptIndexError, EntryFile

OFFSET_ENTRY = Struct(">II")


class OffsetIndex:
    __slots__ = ("base_offset", "entries")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.entries = EntryFile(disk, path, OFFSET_ENTRY)
        self.base_offset = base_offset

    def load(self, segment_size: int) -> None:
        """CorruptIndexError if the file does not fit a segment of this size."""
        self.entries.load()
        last = self.entries.last()
        if last is not None and last[1] >= segment_size:
            raise CorruptIndexError(f"{self.entries.path} points behind the end of its segment")

    def append(self, last_offset: int, position: int) -> None:
        """The batch that ends with this offset begins at this position."""
        self.entries.append(last_offset - self.base_offset, position)

    def position_before(self, offset: int) -> int:
        """A position from which a scan meets the batch that holds `offset`, if there is one."""
        number = self.entries.floor(offset - self.base_offset)
        return 0 if number < 0 else self.entries.entry(number)[1]

    def truncate_to(self, position: int) -> None:
        """Forget the entries of batches that begin at `position` or behind it."""
        self.entries.truncate_to(position)
