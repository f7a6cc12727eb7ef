"""Entries of a second that has begun, where these are very many: in parts that are sorted.

An entry takes the 8 bytes that it took in its slot. The first ones are taken from here to be delivered, so that only
some are where each can be looked for by its offset.
"""

import heapq
from collections.abc import Iterator

from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.slots import Part


class Begun:
    """Whoever clears a part of entries that wait no longer leaves it sorted."""

    __slots__ = ("_heads", "_number", "_parts")

    def __init__(self) -> None:
        self._parts: dict[int, Part] = {}
        self._heads: list[tuple[Entry, int]] = []
        """A heap: the first entry of each part, or one that was before it, and the part's key."""
        self._number = 0

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts.values())

    def add(self, part: Part) -> None:
        part.sort()
        head = part.head
        if head is not None:
            self._number += 1
            self._parts[self._number] = part
            heapq.heappush(self._heads, (head, self._number))

    @property
    def head(self) -> Entry | None:
        """No entry is before it; None if there is none."""
        return self._heads[0][0] if self._heads else None

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """The first one and others of its part, also some that do not come next: when each is due, and where it waits.
        None where what was the first has been cleared away.
        """
        known, number = self._heads[0]
        part = self._parts[number]
        behind = min((head for head, _ in self._heads[1:3]), default=None)
        taken = part.take_head(most, behind) if part.head == known else []
        head = part.head
        if head is None:
            heapq.heappop(self._heads)
            del self._parts[number]
        else:
            heapq.heapreplace(self._heads, (head, number))
        return taken
