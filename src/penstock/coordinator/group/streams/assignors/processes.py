"""Processes while tasks are given out: who has how much, and who has least.

Members of one process share its disk, so a task is in a process once, in whatever role. The least loaded process is the
one of the least loaded member; of several, the one with the fewest tasks for each member. So all members come to the
same number, or one more, and what is balanced once stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar

from penstock.coordinator.group.streams.assignors.tasks import Task

T = TypeVar("T")


class LeastLoaded(Generic[T]):
    """Things whose load only grows; of those with the same load the first one counts."""

    __slots__ = ("_heap", "_load")

    def __init__(self, things: Iterable[T], load: Callable[[T], Any]) -> None:
        self._load = load
        self._heap = [(load(thing), place, thing) for place, thing in enumerate(things)]
        heapify(self._heap)

    def first(self) -> T:
        return self._settled()[2]

    def first_where(self, is_good: Callable[[T], bool], at_most: int | None = None) -> T | None:
        """None if there is none, or none among the first ones."""
        aside: list[tuple[Any, int, T]] = []
        found = None
        while self._heap and len(aside) != at_most:
            entry = self._settled()
            if is_good(entry[2]):
                found = entry[2]
                break
            aside.append(heappop(self._heap))
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def _settled(self) -> tuple[Any, int, T]:
        """The entry of the least loaded one, of which there has to be one."""
        heap = self._heap
        while True:
            load, place, thing = entry = heap[0]
            now = self._load(thing)
            if now == load:
                return entry
            heapreplace(heap, (now, place, thing))


class Process:
    __slots__ = ("_least", "_total", "counts", "has", "load", "tags")

    def __init__(self, members: list[str], tags: Mapping[str, str]) -> None:
        self.counts = dict.fromkeys(members, 0)
        """How many tasks each member has, in all roles."""
        self.has = set[Task]()
        self.tags = tags
        self.load = (0, 0.0)
        """What the least loaded member has, and how much there is for each."""
        self._total = 0
        self._least = LeastLoaded(members, self.counts.__getitem__) if len(members) > 1 else None

    def add(self, member_id: str, task: Task) -> int:
        """How many the member has by now."""
        self.has.add(task)
        self.counts[member_id] += 1
        self._total += 1
        self.load = (self.counts[self.least_loaded], self._total / len(self.counts))
        return self.counts[member_id]

    @property
    def least_loaded(self) -> str:
        """A member."""
        return next(iter(self.counts)) if self._least is None else self._least.first()


class Quota:
    """How many tasks a member may have, so that all come to the same number, or one more."""

    __slots__ = ("_left", "_members", "each")

    def __init__(self, tasks: int, members: int) -> None:
        self._left = tasks
        self._members = members
        self.each = -(-tasks // members) if members else 0

    def has(self, count: int) -> None:
        """A member came to this number. One that is full counts no more: the others share what is left."""
        if count == self.each:
            self._members -= 1
            self._left -= count
            self.each = -(-self._left // self._members) if self._members else 0
