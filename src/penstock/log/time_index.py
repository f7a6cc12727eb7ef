"""`.timeindex`: from which offset on to search for a timestamp.

An entry is 12 bytes, big-endian: a timestamp, and an offset less the segment's base offset. It says: batches that
hold a later timestamp than this end behind this offset. Timestamps grow strictly from entry to entry.
"""

from struct import Struct

from penstock.log.disk import Disk
from penstock.log.entry_file import CorruptIndexError, EntryFile

TIME_ENTRY = Struct(">qI")
NO_TIMESTAMP = -1


class TimeIndex:
    __slots__ = ("base_offset", "entries", "last_offset", "last_timestamp")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.entries = EntryFile(disk, path, TIME_ENTRY)
        self.base_offset = base_offset
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    def load(self) -> None:
        """CorruptIndexError if the file cannot be a time index."""
        self.entries.load()
        self._remember_last()
        if len(self.entries) and self.last_timestamp < self.entries.entry(0)[0]:
            raise CorruptIndexError(f"{self.entries.path} goes back in time")

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Nothing up to `offset` is later than this."""
        if timestamp_ms > self.last_timestamp:
            self.entries.append(timestamp_ms, offset - self.base_offset)
            self.last_timestamp = timestamp_ms
            self.last_offset = offset

    def offset_before(self, timestamp_ms: int) -> int:
        """An offset from which a scan meets the first record with at least this timestamp, if there is one."""
        number = self.entries.floor(timestamp_ms)
        return self.base_offset if number < 0 else self.base_offset + self.entries.entry(number)[1]

    def truncate_to(self, end_offset: int) -> None:
        """Forget the entries whose offset is `end_offset` or behind it."""
        self.entries.truncate_to(end_offset - self.base_offset)
        self._remember_last()

    def _remember_last(self) -> None:
        last = self.entries.last()
        self.last_timestamp = last[0] if last else NO_TIMESTAMP
        self.last_offset = self.base_offset + (last[1] if last else 0)
