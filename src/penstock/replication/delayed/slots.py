"""Entries by the time at which they are due, 8 bytes each: slots of one width, and the parts in which a slot lies."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from penstock.replication.delayed.near import Entry

MOST_OPENED: Final = 1_000
"""Entries that go from a slot to the level below in one step, which takes 3 ms. A slot's parts have no more, either."""
FEWEST_TAKEN: Final = 20
"""First entries that leave a part together, if it has as many."""
LONGEST_SHIFT: Final = 28
"""A slot is 2^shift ms wide, and the widest one so many."""
OFFSET_BITS: Final = 36
"""An entry in a slot is one number of 64 bits: when it is due within the slot, and the low bits of where it waits."""
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
assert LONGEST_SHIFT + OFFSET_BITS <= 64


class Part:
    """Some entries of a slot, few enough to be looked at in one step; they waited from `first` to `last`."""

    __slots__ = ("_base_ms", "_base_offset", "block", "first", "last", "packed")

    def __init__(self, slot_ms: int, waited_at: int) -> None:
        """For entries of one block of offsets that are due in the slot that begins then."""
        self.block = waited_at >> OFFSET_BITS
        self._base_ms, self._base_offset = slot_ms, self.block << OFFSET_BITS
        self.packed = array("Q")
        self.first = self.last = waited_at

    def add(self, due_ms: int, waited_at: int) -> None:
        self.packed.append((due_ms - self._base_ms) << OFFSET_BITS | (waited_at & _OFFSET_MASK))
        if waited_at > self.last:
            self.last = waited_at
        elif waited_at < self.first:
            self.first = waited_at

    def __len__(self) -> int:
        return len(self.packed)

    def __iter__(self) -> Iterator[Entry]:
        return map(Entry._make, self._entries(self.packed))

    def sort(self) -> None:
        """With the first entry last, from where it is taken."""
        self.packed = array("Q", sorted(self.packed, reverse=True))

    @property
    def head(self) -> Entry | None:
        """The first entry of a part that is sorted."""
        if not self.packed:
            return None
        packed = self.packed[-1]
        return Entry(self._base_ms + (packed >> OFFSET_BITS), self._base_offset | (packed & _OFFSET_MASK))

    def take_head(self, most: int, before: Entry | None) -> list[tuple[int, int]]:
        """The first entries of a part that is sorted, those before another one; some in any case, as where parts have
        the same times it would be one at a time.
        """
        packed = self.packed
        begin = max(len(packed) - most, 0)
        if before is not None:
            end = (before.due_ms - self._base_ms << OFFSET_BITS) + before.waited_at - self._base_offset
            some = max(len(packed) - FEWEST_TAKEN, begin)
            begin = min(bisect_left(packed, True, begin, key=lambda one: one < end), some)
        taken = packed[begin:]
        del packed[begin:]
        taken.reverse()
        return list(self._entries(taken))

    def _entries(self, some: Iterable[int]) -> Iterator[tuple[int, int]]:
        base_ms, base_offset = self._base_ms, self._base_offset
        return ((base_ms + (one >> OFFSET_BITS), base_offset | (one & _OFFSET_MASK)) for one in some)

    def offsets(self) -> Iterator[int]:
        """Where they wait."""
        return (self._base_offset | (packed & _OFFSET_MASK) for packed in self.packed)

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """When each is due, and where it waits."""
        taken = self.packed[-most:]
        del self.packed[-most:]
        return list(self._entries(taken))

    def drop(self, dead: set[int]) -> None:
        """Those that wait there."""
        base = self._base_offset
        self.packed = array("Q", [one for one in self.packed if base | (one & _OFFSET_MASK) not in dead])


class Slots:
    """One level: entries by the number of the slot in which they are due."""

    __slots__ = ("order", "parts", "shift")

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.parts: dict[int, list[Part]] = {}
        self.order: list[int] = []

    def add(self, due_ms: int, waited_at: int) -> None:
        number = due_ms >> self.shift
        slot = self.parts.get(number)
        if slot is None:
            slot = self.parts[number] = [Part(number << self.shift, waited_at)]
            heapq.heappush(self.order, number)
        part = slot[-1]
        if len(part.packed) >= MOST_OPENED or waited_at >> OFFSET_BITS != part.block:
            part = Part(number << self.shift, waited_at)
            slot.append(part)
        part.add(due_ms, waited_at)

    def has_one_before(self, until_ms: int) -> bool:
        """Whether a slot begins before."""
        return bool(self.order) and self.order[0] << self.shift < until_ms

    @property
    def first_count(self) -> int:
        """Entries of the first slot."""
        return sum(map(len, self.parts[self.order[0]]))

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """Of the first slot: when each is due, and where it waits."""
        part = self.parts[self.order[0]][-1]
        taken = part.take_some(most)
        if not part.packed:
            self.take_part()
        return taken

    def take_part(self) -> Part:
        """Of the first slot."""
        slot = self.parts[self.order[0]]
        part = slot.pop()
        if not slot:
            del self.parts[heapq.heappop(self.order)]
        return part

    def __iter__(self) -> Iterator[Part]:
        return chain.from_iterable(self.parts.values())
