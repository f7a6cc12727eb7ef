"""What waits in one partition, in the order of (due, arrival): 8 bytes an entry but for what is due next or has an id.

Entries lie in arrays by the time at which they are due, in slots of about three days and, when such a slot is near, of
nine minutes, and of a second. When a second begins its arrays are sorted, and the first entries of all, as many as are
soon delivered, are in heaps. So memory grows by the entry and not by the object, also where very many are due in the
same millisecond, and an entry is moved four times, however long it waits.

| event     | cause                                                 | what waits                                     |
| --------- | ----------------------------------------------------- | ---------------------------------------------- |
| `add`     | a record was held                                     | it; no longer what had its id                  |
| `cancel`  | a record that cancels an id                           | no longer what had the id                      |
| `hasten`  | a record that hastens an id                           | what has the id, due before all others         |
| `moved`   | a record that waited is in the log as one that is due | no longer this one                             |
| `carried` | it was held anew, at the log's end                    | the same, in another place                     |
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from penstock.protocol.delayed import NO_ID, Row
from penstock.replication.delayed.begun import Begun
from penstock.replication.delayed.near import NEVER_MS, Entry, Near
from penstock.replication.delayed.runs import FEWEST, Run, Runs
from penstock.replication.delayed.slots import LONGEST_SHIFT, MOST_OPENED, Part, Slots

SHIFTS: Final = (10, 19, LONGEST_SHIFT)
"""A slot of a level is 2^shift ms wide; the widest is last."""
RUNS_OPEN_WITH: Final = 1
"""A run is opened when a slot of this level begins in which one of its records is due."""
BLOCK_SHIFT: Final = 10
"""How many entries lie in a block of 2^shift offsets is counted, so that the oldest is known."""
MOST_GONE: Final = 10_000
"""So many entries, or half of what waits, may be dead in their slots before these are cleared of them."""
CLEARED_A_DEATH: Final = 4
"""Entries that are looked at for that each time when one more dies."""
MOST_AT_ONCE: Final = 1_000_000
"""Entries of a second that are near as a whole, all in all, at 110 bytes each. What is more is sorted in its slot."""
MOST_NEAR: Final = 300_000
"""Entries of such a second that are near at a time. Records that are cut out of a batch together are among them."""


class Waiting:
    """A number of entries, with what is asked of them."""

    __slots__ = (
        "_begun",
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
        self._levels = [Slots(shift) for shift in SHIFTS]
        self._until_ms = [0 for _ in SHIFTS]
        """Slots of a level that begin before are opened: what is due then goes to the level below, or is near. Of a
        wider level it is never earlier.
        """
        self._runs = Runs()
        self._begun = Begun()
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
        self._clearing: list[Part | Run] = []
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
        if entry.due_ms < self._until_ms[0]:
            self.near.add(*entry)
        else:
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
        """The first ones, which go on waiting until they are `moved`; none, too, while there is more to open. Perhaps
        fewer than `most`, where very many are due.
        """
        if not self._open(now_ms):
            return []
        self.is_opened = True
        found, begun = self.near.take(now_ms, most), self._begun.head
        return found if begun is None else found[: bisect_left(found, begun)]

    @property
    def next_due_ms(self) -> int | None:
        """Not after the next entry is due; None if nothing waits."""
        times = [level.order[0] << level.shift for level in self._levels if level.order]
        shift = SHIFTS[RUNS_OPEN_WITH]
        firsts = [first.due_ms for first in (self._begun.head, self.near.first) if first is not None]
        next_ms = min([*times, self._runs.next_due_ms >> shift << shift, *firsts])
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
        """Where those have waited which are in slots or runs, or whose second has begun, and others."""
        if not rows:
            return set()
        first, last = min(row.waited_at for row in rows), max(row.waited_at for row in rows)
        found = {row.waited_at for row in rows if row.waited_at in self._runs}
        slots = [
            level.parts.get(number, ())
            for level in self._levels
            for number in {row.due_ms >> level.shift for row in rows}
        ]
        for part in chain(self._begun, *slots):
            if part.first <= last and first <= part.last:
                found.update(part.offsets())
        return found - self._gone

    def entries(self) -> list[Entry]:
        """All, in order."""
        far = (entry for part in self._parts() for entry in part)
        runs = (Entry(*entry) for run in self._runs for entry in run)
        near = (Entry(due_ms, at) for at, due_ms in self.near.due_ms.items())
        return sorted([*near, *(entry for entry in chain(far, runs) if entry.waited_at not in self._gone)])

    # within

    def _parts(self) -> Iterator[Part]:
        return chain(self._begun, *self._levels)

    def _put(self, due_ms: int, waited_at: int) -> None:
        """In a slot of the widest level where that has not begun; of the last one it may have."""
        _, near_ms, far_ms = self._until_ms
        level = 2 if due_ms >= far_ms else 1 if due_ms >= near_ms else 0
        self._levels[level].add(due_ms, waited_at)

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
        seconds, *wider = self._levels
        for level, until_ms in zip(reversed(wider), reversed(self._until_ms), strict=False):
            while level.has_one_before(until_ms):
                if room <= 0:
                    return False
                room -= self._put_some(level.take_some(room))
        while seconds.has_one_before(self._until_ms[0]):
            if room <= 0:
                return False
            if self._begun.head is None and len(self.near.due_ms) + seconds.first_count <= MOST_AT_ONCE:
                room -= self._put_near(seconds.take_some(room))
            else:
                part = seconds.take_part()
                room -= len(part)
                self._begun.add(part)
        return self._bring_near(room)

    def _bring_near(self, room: int) -> bool:
        """The first of those whose second has begun; whether there are enough, and all that come before others."""
        while (head := self._begun.head) is not None:
            if len(self.near.due_ms) >= MOST_NEAR and (first := self.near.first) is not None and first < head:
                return True
            if room <= 0:
                return False
            room -= self._put_near(self._begun.take_some(room))
        return True

    def _put_near(self, taken: list[tuple[int, int]]) -> int:
        return self._put_some(taken, self.near.add)

    def _put_some(self, taken: list[tuple[int, int]], put: Callable[[int, int], None] | None = None) -> int:
        """Those that still wait go where they belong by now, or where they are put; returns how many were taken."""
        put = put or self._put
        for due_ms, waited_at in taken:
            if waited_at in self._gone:
                self._gone.discard(waited_at)
            else:
                put(due_ms, waited_at)
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
            self._clearing = [*self._runs, *self._parts()]
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
