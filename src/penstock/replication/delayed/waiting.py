"""What waits in one partition, in the order of (due, arrival): 8 bytes an entry but for what is due next or has an id.

Entries lie in arrays by the time at which they are due, in slots of about three days and, when such a slot is near, of
nine minutes, and of a second; what is due within the present second is in heaps. So memory grows by the entry and not
by the object, and an entry is moved four times, however long it waits.

| event     | cause                                                 | what waits                                     |
| --------- | ----------------------------------------------------- | ---------------------------------------------- |
| `add`     | a record was held                                     | it; no longer what had its id                  |
| `cancel`  | a record that cancels an id                           | no longer what had the id                      |
| `hasten`  | a record that hastens an id                           | what has the id, due before all others         |
| `moved`   | a record that waited is in the log as one that is due | no longer this one                             |
| `carried` | it was held anew, at the log's end                    | the same, in another place                     |
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from penstock.protocol.delayed import NO_ID, Row
from penstock.replication.delayed.near import NEVER_MS, Entry, Near
from penstock.replication.delayed.runs import FEWEST, Run, Runs

SHIFTS: Final = (10, 19, 28)
"""A slot of a level is 2^shift ms wide; the widest is last."""
RUNS_OPEN_WITH: Final = 1
"""A run is opened when a slot of this level begins in which one of its records is due."""
BLOCK_SHIFT: Final = 10
"""How many entries lie in a block of 2^shift offsets is counted, so that the oldest is known."""
MOST_GONE: Final = 10_000
"""So many entries, or half of what waits, may be dead in their slots before these are cleared of them."""
CLEARED_A_DEATH: Final = 4
"""Entries that are looked at for that each time when one more dies."""
MOST_OPENED: Final = 1_000
"""Entries that go from a slot to the level below in one step, which takes 3 ms. A slot's parts have no more, either."""

OFFSET_BITS: Final = 36
"""An entry in a slot is one number of 64 bits: when it is due within the slot, and the low bits of where it waits."""
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
assert max(SHIFTS) + OFFSET_BITS <= 64


class _Part:
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


class _Slots:
    """One level: entries by the number of the slot in which they are due."""

    __slots__ = ("order", "parts", "shift")

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.parts: dict[int, list[_Part]] = {}
        self.order: list[int] = []

    def add(self, due_ms: int, waited_at: int) -> None:
        number = due_ms >> self.shift
        slot = self.parts.get(number)
        if slot is None:
            slot = self.parts[number] = [_Part(number << self.shift, waited_at)]
            heapq.heappush(self.order, number)
        part = slot[-1]
        if len(part.packed) >= MOST_OPENED or waited_at >> OFFSET_BITS != part.block:
            part = _Part(number << self.shift, waited_at)
            slot.append(part)
        part.add(due_ms, waited_at)

    def take_some(self, most: int) -> list[tuple[int, int]]:
        """Of the first slot: when each is due, and where it waits."""
        number = self.order[0]
        slot = self.parts[number]
        taken = slot[-1].take_some(most)
        if not slot[-1].packed:
            slot.pop()
        if not slot:
            del self.parts[number]
            heapq.heappop(self.order)
        return taken

    def __iter__(self) -> Iterator[_Part]:
        return chain.from_iterable(self.parts.values())


class Waiting:
    """A number of entries, with what is asked of them."""

    __slots__ = (
        "_blocks",
        "_clearing",
        "_count",
        "_credit",
        "_gone",
        "_ids",
        "_levels",
        "_places",
        "_runs",
        "_until_ms",
        "is_opened",
        "near",
    )

    def __init__(self) -> None:
        self._levels = [_Slots(shift) for shift in SHIFTS]
        self._until_ms = [0 for _ in SHIFTS]
        """Slots of a level that begin before are opened: what is due then goes to the level below, or is near. Of a
        wider level it is never earlier.
        """
        self._runs = Runs()
        self.near = Near()
        self.is_opened = False
        """Whether all that was due has been near once. Before that, what waits may be in a slot which began three days
        before it is due; after that, a slot is opened when it begins.
        """
        self._gone = set[int]()
        """Where entries in slots have waited that wait no longer."""
        self._ids: dict[int, Entry] = {}
        self._places: dict[int, int] = {}
        """Where entries that were carried lie now, by where they waited first."""
        self._blocks: dict[int, int] = {}
        """In their order, as what is held lies behind all that was before."""
        self._count = 0
        self._clearing: list[_Part | Run] = []
        self._credit = 0

    def __len__(self) -> int:
        return self._count

    # events

    def add(self, entry: Entry, id_: int, place: int) -> None:
        """`place` is the offset of a batch that holds it."""
        if id_ != NO_ID:
            self.cancel(id_)
            self._ids[id_] = entry
        if place != entry.waited_at:
            self._places[entry.waited_at] = place
        self._count += 1
        self._counted(place, 1)
        self._put(*entry)

    def add_plain(self, times: Sequence[int], first: int) -> bool:
        """As `add` of records without ids that are due then, in the order in which they lie, the first of them at this
        offset, behind all others. Returns whether they are a run now, as many are that are all due later: that takes a
        tenth of the time, as a log may have millions.
        """
        first_ms = min(times)
        is_run = len(times) >= FEWEST and first_ms >= self._until_ms[RUNS_OPEN_WITH]
        if is_run:
            self._runs.add(times, first, first_ms)
        else:
            for waited_at, due_ms in enumerate(times, first):
                self._put(due_ms, waited_at)
        self._count += len(times)
        self._counted_all(first, len(times), 1)
        return is_run

    def reserve(self, first: int, count: int) -> None:
        """So many records from this offset on, behind all others, may come to wait there later (`add`)."""
        self._counted_all(first, count, 1)

    def release(self, first: int, count: int) -> None:
        """What was reserved. Those that have been added wait."""
        self._counted_all(first, count, -1)

    def cancel(self, id_: int) -> Entry | None:
        """What had the id."""
        entry = self._ids.pop(id_, None)
        if entry is not None:
            self._remove(entry.waited_at)
        return entry

    def hasten(self, id_: int) -> None:
        """What has the id goes before all others."""
        entry = self._ids.get(id_)
        if entry is not None and entry.due_ms:
            place = self.place_of(entry.waited_at)
            self._counted(place, 1)  # first: the blocks stay in their order
            self.cancel(id_)
            hastened = self._ids[id_] = entry._replace(due_ms=0)
            if place != entry.waited_at:
                self._places[entry.waited_at] = place
            self._count += 1
            self.near.add(*hastened)

    def moved(self, waited_at: int, id_: int) -> None:
        """It was waiting."""
        if id_ != NO_ID:
            known = self._ids.get(id_)
            if known is not None and known.waited_at == waited_at:
                del self._ids[id_]
        self._remove(waited_at)

    def carried(self, waited_at: int, place: int) -> None:
        """It is waiting."""
        self._counted(self.place_of(waited_at), -1)
        self._places[waited_at] = place
        self._counted(place, 1)

    # what is due

    def due(self, now_ms: int, most: int) -> list[Entry]:
        """The first ones, which go on waiting until they are `moved`; none, too, while there is more to open."""
        if not self._open(now_ms):
            return []
        self.is_opened = True
        return self.near.take(now_ms, most)

    @property
    def next_due_ms(self) -> int | None:
        """Not after the next entry is due; None if nothing waits."""
        times = [level.order[0] << level.shift for level in self._levels if level.order]
        shift = SHIFTS[RUNS_OPEN_WITH]
        next_ms = min([*times, self._runs.next_due_ms >> shift << shift, self.near.next_due_ms])
        return None if next_ms == NEVER_MS else next_ms

    # where it lies

    def place_of(self, waited_at: int) -> int:
        """The offset of a batch that holds an entry, or an offset within that batch."""
        return self._places.get(waited_at, waited_at)

    @property
    def oldest_place(self) -> int | None:
        """No entry lies before this offset; None if nothing waits."""
        block = next(iter(self._blocks), None)
        return None if block is None else block << BLOCK_SHIFT

    def of_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those of a held batch that still wait, with when they are due by now."""
        asked = list(rows)
        far = self._far([row for row in asked if row.due_ms >= 0])
        found: list[Row] = []
        for row in asked:
            near_ms = self.near.due_ms.get(row.waited_at)
            if near_ms is not None:
                found.append(row._replace(due_ms=near_ms))
            elif row.waited_at in far:
                found.append(row)
        return found

    def _far(self, rows: list[Row]) -> set[int]:
        """Where those have waited which are in slots or runs, and others."""
        first = min((row.waited_at for row in rows), default=0)
        last = max((row.waited_at for row in rows), default=-1)
        found = {row.waited_at for row in rows if row.waited_at in self._runs}
        for level in self._levels:
            for number in {row.due_ms >> level.shift for row in rows}:
                for part in level.parts.get(number, ()):
                    if part.first <= last and first <= part.last:
                        found.update(part.offsets())
        return found - self._gone

    def entries(self) -> list[Entry]:
        """All, in order."""
        far = (entry for level in self._levels for part in level for entry in part)
        runs = (Entry(*entry) for run in self._runs for entry in run)
        near = (Entry(due_ms, at) for at, due_ms in self.near.due_ms.items())
        return sorted([*near, *(entry for entry in chain(far, runs) if entry.waited_at not in self._gone)])

    # within

    def _put(self, due_ms: int, waited_at: int) -> None:
        if due_ms < self._until_ms[0]:
            self.near.add(due_ms, waited_at)
            return
        for level, until_ms in zip(reversed(self._levels), reversed(self._until_ms), strict=True):
            if due_ms >= until_ms:
                level.add(due_ms, waited_at)
                return

    def _open(self, now_ms: int) -> bool:
        """A step of it; whether all that may be due now is near."""
        for number, level in enumerate(self._levels):
            until_ms = ((now_ms >> level.shift) + 1) << level.shift
            self._until_ms[number] = max(self._until_ms[number], until_ms)
        room = MOST_OPENED
        while self._runs.next_due_ms < self._until_ms[RUNS_OPEN_WITH]:
            if room <= 0:
                return False
            room -= self._put_some(self._runs.take_some(room))
        for level, until_ms in zip(reversed(self._levels), reversed(self._until_ms), strict=True):
            while level.order and level.order[0] << level.shift < until_ms:
                if room <= 0:
                    return False
                room -= self._put_some(level.take_some(room))
        return True

    def _put_some(self, taken: list[tuple[int, int]]) -> int:
        """Those that still wait go where they belong by now; returns how many were taken."""
        for due_ms, waited_at in taken:
            if waited_at in self._gone:
                self._gone.discard(waited_at)
            else:
                self._put(due_ms, waited_at)
        return len(taken)

    def _remove(self, waited_at: int) -> None:
        self._count -= 1
        self._counted(self._places.pop(waited_at, waited_at), -1)
        if self.near.due_ms.pop(waited_at) is None:
            self._gone.add(waited_at)
            self._credit += CLEARED_A_DEATH
            if len(self._gone) > max(MOST_GONE, self._count >> 1):
                self._clear_a_part()

    def _clear_a_part(self) -> None:
        """Of what is dead in it, once as many have died as that is worth. A run is opened for that."""
        if not self._clearing:
            self._clearing = [*self._runs, *(part for level in self._levels for part in level)]
        part = self._clearing[-1]
        if len(part) > self._credit:
            return
        self._clearing.pop()
        self._credit = 0
        dead = self._gone.intersection(part.offsets())
        if not dead:
            return
        if isinstance(part, Run):
            self._runs.discard(part)
            self._put_some(part.take_some(len(part)))
        else:
            self._gone -= dead
            part.drop(dead)

    def _counted_all(self, first: int, count: int, more: int) -> None:
        end = first + count
        for block in range(first >> BLOCK_SHIFT, ((end - 1) >> BLOCK_SHIFT) + 1):
            begin = max(first, block << BLOCK_SHIFT)
            self._counted(begin, more * (min(end, (block + 1) << BLOCK_SHIFT) - begin))

    def _counted(self, place: int, more: int) -> None:
        block = place >> BLOCK_SHIFT
        count = self._blocks.get(block, 0) + more
        if count:
            self._blocks[block] = count
        else:
            del self._blocks[block]
