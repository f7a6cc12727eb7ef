"""The bytes and names on a simulated disk: what the page cache has, and what would be left after a power cut.

| what was done               | after a power cut                                                             |
| --------------------------- | ----------------------------------------------------------------------------- |
| written, not synced         | any part of it, torn at any byte; holes are zeros                             |
| synced                      | all of it                                                                     |
| in a sync that failed       | none of it, although the page cache has it and later syncs succeed            |
| created, renamed or removed | the first few of a directory's changes since it was synced, none or all       |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

SECTOR_BYTES = 512


@dataclass(slots=True)
class File:
    """One file, whatever its names. `changes`: (position, data) since the last sync; data None is a truncation."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0
    has_lost: bool = False
    """Whether a sync failed: what was to be synced is in the page cache only."""

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        _put(self.content, data, position)
        self.changes.append((position, data))
        self.modified_ms = now_ms

    def truncate(self, size: int, now_ms: int) -> None:
        _cut(self.content, size)
        self.changes.append((size, None))
        self.modified_ms = now_ms

    def sync(self) -> None:
        """All of it outlives a power cut, but for what an earlier sync lost."""
        if self.changes:
            self.durable = bytes(self._without_losses()) if self.has_lost else bytes(self.content)
            self.changes.clear()

    def _without_losses(self) -> bytearray:
        left = bytearray(self.durable)
        for position, data in self.changes:
            if data is None:
                _cut(left, position)
            else:
                _put(left, data, position)
        return left

    def forget_cache(self) -> None:
        """The next read comes from the disk."""
        if self.has_lost:
            self.content = self._without_losses()
            self.has_lost = False

    def fail_to_sync(self) -> None:
        """The page cache counts the changes as written, and the disk has none of them."""
        self.has_lost = self.has_lost or bool(self.changes)
        self.changes.clear()

    def lose_power(self, random: Random) -> None:
        """Keeps what was synced, and any part of the rest."""
        self.has_lost = False
        left = bytearray(self.durable)
        fate = random.choice(("none", "all", "prefix", "sectors"))
        kept = len(self.changes) if fate in ("all", "sectors") else 0
        if fate == "prefix" and self.changes:
            kept = random.randrange(len(self.changes) + 1)
        for number, (position, data) in enumerate(self.changes[:kept]):
            if data is None:
                _cut(left, position)
            elif fate == "sectors":
                _put_some_sectors(left, data, position, random)
            elif fate == "prefix" and number == kept - 1:
                _put(left, data[: random.randrange(len(data) + 1)], position)
            else:
                _put(left, data, position)
        self.content = left
        self.durable = bytes(left)
        self.changes.clear()


def _put(content: bytearray, data: bytes, position: int) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _put_some_sectors(content: bytearray, data: bytes, position: int, random: Random) -> None:
    for start in range(0, len(data), SECTOR_BYTES):
        if random.random() < 0.7:
            _put(content, data[start : start + SECTOR_BYTES], position + start)


@dataclass(slots=True)
class Directory:
    """Names. `changes` since the last sync: ("link", name, what), ("unlink", name, None) or ("rename", old, new)."""

    entries: dict[str, File | Directory] = field(default_factory=dict)
    durable: dict[str, File | Directory] = field(default_factory=dict)
    changes: list[tuple[str, str, File | Directory | str | None]] = field(default_factory=list)

    def link(self, name: str, what: File | Directory) -> None:
        self._change(("link", name, what))

    def unlink(self, name: str) -> None:
        self._change(("unlink", name, None))

    def rename(self, old: str, new: str) -> None:
        """Atomic."""
        self._change(("rename", old, new))

    def _change(self, change: tuple[str, str, File | Directory | str | None]) -> None:
        _apply(self.entries, change)
        self.changes.append(change)

    def sync(self) -> None:
        """The names outlive a power cut."""
        if self.changes:
            self.durable = dict(self.entries)
            self.changes.clear()

    def lose_power(self, random: Random) -> None:
        """Keeps the names that were synced, and the first few changes after that."""
        left = dict(self.durable)
        kept = random.choice((0, len(self.changes), random.randrange(len(self.changes) + 1)))
        for change in self.changes[:kept]:
            _apply(left, change)
        self.entries = left
        self.durable = dict(left)
        self.changes.clear()
        for what in left.values():
            what.lose_power(random)

    def files(self) -> Iterator[File]:
        """In all directories below as well."""
        for what in self.entries.values():
            if isinstance(what, File):
                yield what
            else:
                yield from what.files()


def _apply(entries: dict[str, File | Directory], change: tuple[str, str, File | Directory | str | None]) -> None:
    kind, name, other = change
    if kind == "link":
        assert isinstance(other, File | Directory)
        entries[name] = other
    elif kind == "unlink":
        entries.pop(name, None)
    else:
        assert isinstance(other, str)
        if name in entries:
            entries[other] = entries.pop(name)
