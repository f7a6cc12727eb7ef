"""What of a partition is delivered next: where it waits, by the ms in which it is due.

Of each ms there is a heap of its own. Where a million are due in a second, in disorder, what is looked through for the
next one has a thousand entries and not a million, and these are numbers: nothing for the collector.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

NEVER_MS: Final = 1 << 63
_SHARD_SHIFT: Final = 12


class Entry(NamedTuple):
    """`waited_at` is the offset at which it was first held."""

    due_ms: int
    waited_at: int


_entry: Final[Callable[[tuple[int, int]], Entry]] = partial(tuple.__new__, Entry)
"""In half of the time: a million may be due in a second."""
_NONE: Final[Mapping[int, int]] = {}


class Times:
    """When each is due, by its offset, in dicts of some thousand: of a million one takes 20 ms at once as it grows."""

    __slots__ = ("_count", "_shards")

    def __init__(self) -> None:
        self._shards: dict[int, dict[int, int]] = {}
        self._count = 0

    def __setitem__(self, waited_at: int, due_ms: int) -> None:
        shard = self._shards.get(waited_at >> _SHARD_SHIFT)
        if shard is None:
            shard = self._shards[waited_at >> _SHARD_SHIFT] = {}
        self._count += waited_at not in shard
        shard[waited_at] = due_ms

    def get(self, waited_at: int) -> int | None:
        shard = self._shards.get(waited_at >> _SHARD_SHIFT)
        return None if shard is None else shard.get(waited_at)

    def each(self, offsets: Iterable[int]) -> list[int | None]:
        """As `get`."""
        shard_of = self._shards.get
        return [shard_of(at >> _SHARD_SHIFT, _NONE).get(at) for at in offsets]

    def pop(self, waited_at: int) -> int | None:
        shard = self._shards.get(waited_at >> _SHARD_SHIFT)
        if shard is None:
            return None
        due_ms = shard.pop(waited_at, None)
        self._count -= due_ms is not None
        if not shard:
            del self._shards[waited_at >> _SHARD_SHIFT]
        return due_ms

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[int, int]]:
        return chain.from_iterable(shard.items() for shard in self._shards.values())


class Near:
    """`due_ms` has when each is due, by its offset. Whoever takes one out of it has taken it from all of this."""

    __slots__ = ("_first", "_heaps", "_order", "due_ms")

    def __init__(self) -> None:
        self.due_ms = Times()
        self._heaps: dict[int, list[int]] = {}
        """By when they are due; also offsets that wait no longer, or are due at another time."""
        self._order: list[int] = []
        """A heap of the keys of these."""
        self._first: list[Entry] = []
        """Taken from the heaps, in order, to be moved."""

    def add(self, due_ms: int, waited_at: int) -> None:
        self.due_ms[waited_at] = due_ms
        self._put(due_ms, waited_at)

    def _put(self, due_ms: int, waited_at: int) -> None:
        heap = self._heaps.get(due_ms)
        if heap is None:
            self._heaps[due_ms] = [waited_at]
            heapq.heappush(self._order, due_ms)
        else:
            heapq.heappush(heap, waited_at)

    def take(self, now_ms: int, most: int) -> list[Entry]:
        """The first that are due, which go on waiting."""
        found = self._still_first()
        if found and (found[-1].due_ms > now_ms or self._begins_before(found[-1])):
            for entry in found:  # the clock was set back, or what came since is due before
                self._put(*entry)
            found = []
        while self._order and self._order[0] <= now_ms and len(found) < most:
            self._take_of(self._order[0], most, found)
        self._first = found
        return found[:most]

    def _take_of(self, due_ms: int, most: int, found: list[Entry]) -> None:
        heap = self._heaps[due_ms]
        while heap and len(found) < most:
            first = [heapq.heappop(heap) for _ in range(min(most - len(found), len(heap)))]
            times = zip(first, self.due_ms.each(first), strict=True)
            found += [_entry((due_ms, at)) for at, its_ms in times if its_ms == due_ms]
        if not heap:
            self._first_is_empty()

    def _first_is_empty(self) -> None:
        del self._heaps[heapq.heappop(self._order)]

    def _begins_before(self, entry: Entry) -> bool:
        return bool(self._order) and (self._order[0], self._heaps[self._order[0]][0]) < entry

    def _still_first(self) -> list[Entry]:
        found = self._first
        times = self.due_ms.each([at for _, at in found])
        return [entry for entry, due_ms in zip(found, times, strict=True) if due_ms == entry[0]]

    @property
    def first(self) -> Entry | None:
        """Of all."""
        self._first = self._still_first()
        while self._order:
            due_ms = self._order[0]
            heap = self._heaps[due_ms]
            while heap and self.due_ms.get(heap[0]) != due_ms:
                heapq.heappop(heap)
            if heap:
                return min([Entry(due_ms, heap[0]), *self._first[:1]])
            self._first_is_empty()
        return self._first[0] if self._first else None

    def of(self, offsets: Iterable[int]) -> list[int]:
        """Which of those wait here."""
        asked = list(offsets)
        return [at for at, due_ms in zip(asked, self.due_ms.each(asked), strict=True) if due_ms is not None]

    def numbers(self, offsets: Iterable[int], until_ms: int) -> list[int]:
        """The places in `offsets` of those that are due by then."""
        times = enumerate(self.due_ms.each(offsets))
        return [number for number, due_ms in times if due_ms is not None and due_ms <= until_ms]
