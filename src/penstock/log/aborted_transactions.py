"""`<segment>.txnindex`: the aborted transactions of a partition, whose records readers of committed ones pass over.

Kafka's layout, big-endian, 34 bytes for each marker of an abortion in the segment: version 0 (2 bytes), producer id
(8), first offset of the transaction (8), offset of its marker (8), last stable offset behind that marker (8). A segment
without such markers has no file. No transaction that ends behind an entry begins before its last stable offset.

An entry is written when its marker is, or later if there is no room for it then, and synced when the segment is sealed.
Nothing in a file would tell what a crash has done to it: what was not synced then is not believed, and is made anew
from the markers.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from penstock.log.disk import Disk
from penstock.log.health import may_pass
from penstock.log.names import TRANSACTION_INDEX_SUFFIX, offset_of, offset_prefix

VERSION = 0
_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_by_end = attrgetter("last_offset")


class AbortedTransactions:
    """Those of one partition, in the order of their markers."""

    __slots__ = ("_by_producer", "_directory", "_disk", "_entries", "_lacking", "_noted", "_unsynced")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._entries: list[AbortedTransaction] = []
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        self._noted = 0
        self._unsynced: dict[str, int] = {}
        """Paths of files that a power cut may spoil, with the number of what was noted there last."""
        self._lacking: list[int] = []
        """Where segments begin whose files lack entries: from the first one for which there was no room."""

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, names: Iterable[str], synced_below: int | None = None) -> None:
        """From those of these files that are such indexes; what is damaged ends its file. After a crash only what was
        synced is believed, and the rest goes: that is all before `synced_below`. Raises OSError.
        """
        for name in sorted(name for name in names if name.endswith(TRANSACTION_INDEX_SUFFIX)):
            path = f"{self._directory}/{name}"
            content = self._disk.read_file(path) or b""
            if synced_below is None:
                for entry in _decoded(content):
                    self._add(entry)
                continue
            base_offset, count = offset_of(name) or 0, 0
            for entry in _decoded(content):
                if not (entry.first_offset < entry.last_offset and base_offset <= entry.last_offset < synced_below):
                    break
                count += self._add(entry)
            if count * _ENTRY.size < len(content):
                self._write(base_offset)

    def _add(self, entry: AbortedTransaction) -> bool:
        if self._entries and entry.last_offset <= self._entries[-1].last_offset:
            return False
        self._entries.append(entry)
        self._by_producer.setdefault(entry.producer_id, []).append(entry)
        return True

    def note(self, entry: AbortedTransaction, base_offset: int) -> None:
        """Its marker is in the segment with this base offset. One that is known may be noted again. Where there is no
        room for it in the file it is known all the same, as its marker is written. Raises OSError.
        """
        if not self._add(entry):
            return
        if self._lacking:
            self._lacking += [base_offset] * (base_offset != self._lacking[-1])
            return
        path = self._path(base_offset)
        number = len(self._entries) - 1 - bisect_left(self._entries, base_offset, key=_by_end)
        content = _ENTRY.pack(VERSION, *entry)
        try:
            self._disk.open(path, create=True).write_at(content, number * _ENTRY.size)
            self._noted += 1
            self._unsynced[path] = self._noted
        except OSError as error:
            if not may_pass(error):
                raise
            self._lacking.append(base_offset)

    def complete(self) -> None:
        """Write the entries for which there was no room. Raises OSError."""
        while self._lacking:
            base_offset, *following = self._lacking
            self._write(base_offset, following[0] if following else None)

    @property
    def unsynced(self) -> Sequence[tuple[str, int]]:
        """What `sync` has to do; `sync_files` does it, in any thread, and then `synced` is to be told."""
        return tuple(self._unsynced.items())

    def sync(self) -> None:
        """All that was noted outlives a power cut. Raises OSError."""
        self.complete()
        self.sync_files(unsynced := self.unsynced)
        self.synced(unsynced)

    def sync_files(self, unsynced: Sequence[tuple[str, int]]) -> None:
        """Raises OSError."""
        for path, _ in unsynced:
            with suppress(FileNotFoundError):  # its segment was cut off
                self._disk.open(path).sync()
        if unsynced:
            self._disk.sync_directory(self._directory)

    def synced(self, unsynced: Sequence[tuple[str, int]]) -> None:
        """What was noted in these files since is not."""
        for path, noted in unsynced:
            if self._unsynced.get(path) == noted:
                del self._unsynced[path]

    def _path(self, base_offset: int) -> str:
        return f"{self._directory}/{offset_prefix(base_offset)}{TRANSACTION_INDEX_SUFFIX}"

    def cut_to(self, end_offset: int, base_offset: int) -> None:
        """The log was cut; its last segment begins at `base_offset`. Raises OSError."""
        kept = [entry for entry in self._entries if entry.last_offset < end_offset]
        if len(kept) < len(self._entries):
            self._become(kept)
            self._write(base_offset)

    def rewrite(self, base_offset: int, end_offset: int, gone: Collection[int]) -> None:
        """The segments in [`base_offset`, `end_offset`) are about to become one, without the markers at the offsets
        `gone`. Raises OSError.
        """
        first, last = (bisect_left(self._entries, offset, key=_by_end) for offset in (base_offset, end_offset))
        if first == last:
            return
        if gone:
            self._become([entry for entry in self._entries if entry.last_offset not in gone])
        self._write(base_offset, end_offset)

    def forget_below(self, start_offset: int) -> None:
        """The segments below this offset went and took their indexes along."""
        gone = self._entries[: bisect_left(self._entries, start_offset, key=_by_end)]
        if not gone:
            return
        del self._entries[: len(gone)]
        for producer_id, count in Counter(entry.producer_id for entry in gone).items():
            of_producer = self._by_producer[producer_id]
            del of_producer[:count]
            if not of_producer:
                del self._by_producer[producer_id]
        self._lacking = [base for base in self._lacking if base >= start_offset]

    def clear(self) -> None:
        """The segments went and took their indexes along."""
        self._become([])
        self._unsynced.clear()
        self._lacking.clear()

    def _become(self, entries: list[AbortedTransaction]) -> None:
        self._entries, self._by_producer = [], {}
        for entry in entries:
            self._add(entry)

    def _write(self, base_offset: int, end_offset: int | None = None) -> None:
        """A whole file anew, at once and durably."""
        path = self._path(base_offset)
        self._unsynced.pop(path, None)
        end = None if end_offset is None else bisect_left(self._entries, end_offset, key=_by_end)
        entries = self._entries[bisect_left(self._entries, base_offset, key=_by_end) : end]
        if entries:
            content = b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)
            self._disk.replace_file(path, content, durable=True)
        else:
            self._disk.remove(path)
        self._lacking = [
            base for base in self._lacking if base < base_offset or (end_offset is not None and base >= end_offset)
        ]

    def covers(self, producer_id: int, offset: int) -> bool:
        """Whether the record that this producer wrote there belongs to an aborted transaction."""
        return covered(self._by_producer.get(producer_id, ()), offset)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that have records in [`start_offset`, `end_offset`), or may have."""
        found = []
        for number in range(bisect_left(self._entries, start_offset, key=_by_end), len(self._entries)):
            entry = self._entries[number]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return found


def covered(of_producer: Sequence[AbortedTransaction], offset: int) -> bool:
    """Whether the record that the producer of these wrote there belongs to one of them."""
    at = bisect_left(of_producer, offset, key=_by_end)
    return at < len(of_producer) and of_producer[at].first_offset <= offset


def _decoded(content: bytes) -> Iterator[AbortedTransaction]:
    for version, *numbers in _ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]):
        if version != VERSION:
            return
        yield AbortedTransaction(*numbers)
