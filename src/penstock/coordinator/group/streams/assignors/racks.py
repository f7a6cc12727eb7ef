"""Where a standby would survive what befalls its task: by tags that say where processes are (KIP-708).

A standby's process should differ from the others that have the task, in the first tag before all, then in the second,
and so on; of those that do equally well the least loaded counts. A member that does not say its tag counts as being
with everybody.

Processes of the same tags form a group. Mostly one of the least loaded processes is as far away as can be
(`_least_cost`), so all groups are only looked at where no such one is near the top.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.coordinator.group.streams.assignors.processes import LeastLoaded, Process
from penstock.coordinator.group.streams.assignors.tasks import Task

_LOOKED_AT: Final = 32
"""Of the least loaded processes, before all groups are."""

_Values = tuple[str | None, ...]


class Racks:
    __slots__ = ("_common", "_group_of", "_groups", "_least_loaded", "_sizes", "_values", "_values_of_tag", "_weights")

    def __init__(self, processes: Sequence[Process], tags: Sequence[str], most_copies: int) -> None:
        """`most_copies` of a task, the active one included."""
        members: dict[_Values, list[Process]] = {}
        for process in processes:
            members.setdefault(tuple(process.tags.get(tag) for tag in tags), []).append(process)
        self._values = list(members)
        self._groups = [LeastLoaded(group, _load) for group in members.values()]
        self._sizes = [len(group) for group in members.values()]
        self._group_of = {process: place for place, group in enumerate(members.values()) for process in group}
        self._least_loaded = LeastLoaded(processes, _load)
        self._values_of_tag = [len({values[place] for values in members} - {None}) for place in range(len(tags))]
        self._weights = [(most_copies + 1) ** place for place in reversed(range(len(tags)))]
        self._common: dict[int, list[int]] = {}

    def is_best(self, process: Process, holders: Sequence[Process]) -> bool:
        """Whether no process that has not got the task is farther from those that have."""
        if not self._weights:
            return True
        cost = self._cost(process, holders)
        return cost == self._least_cost(holders) or cost == self._least_of_all(self._costs(holders), holders)

    def best(self, task: Task, holders: Sequence[Process]) -> Process | None:
        """Of those that have not got the task; None if all have."""
        least = self._least_cost(holders)
        found = self._least_loaded.first_where(
            lambda process: task not in process.has and self._cost(process, holders) == least, _LOOKED_AT
        )
        if found is not None:
            return found
        costs = self._costs(holders)
        least_of_all = self._least_of_all(costs, holders)
        near = [group for group, cost in zip(self._groups, costs, strict=True) if cost == least_of_all]
        firsts = (group.first_where(lambda process: task not in process.has) for group in near)
        return min((process for process in firsts if process is not None), key=_load, default=None)

    def _cost(self, process: Process, holders: Iterable[Process]) -> int:
        """By how many tags it is with the holders; what is less important counts less."""
        if not self._weights:
            return 0
        own = self._values[self._group_of[process]]
        return sum(self._shared(own, self._values[self._group_of[holder]]) for holder in holders)

    def _least_cost(self, holders: Sequence[Process]) -> int:
        """What it cannot be less than: a tag has a value that no holder has, or all have been taken so often."""
        least = 0
        values = [self._values[self._group_of[holder]] for holder in holders]
        for place, weight in enumerate(self._weights):
            said = [one[place] for one in values if one[place] is not None]
            taken = len(values) - len(said)
            if said and len(set(said)) == self._values_of_tag[place]:
                taken += min(map(said.count, said))
            least += weight * taken
        return least

    def _least_of_all(self, costs: list[int], holders: Sequence[Process]) -> int | None:
        free = list(self._sizes)
        for holder in holders:
            free[self._group_of[holder]] -= 1
        return min((cost for cost, count in zip(costs, free, strict=True) if count), default=None)

    def _costs(self, holders: Sequence[Process]) -> list[int]:
        """Of each group."""
        rows = [self._row(self._group_of[holder]) for holder in holders]
        return [sum(shared) for shared in zip(*rows, strict=True)]

    def _row(self, group: int) -> list[int]:
        row = self._common.get(group)
        if row is None:
            own = self._values[group]
            row = self._common[group] = [self._shared(own, values) for values in self._values]
        return row

    def _shared(self, one: _Values, other: _Values) -> int:
        pairs = zip(one, other, self._weights, strict=True)
        return sum(weight for mine, yours, weight in pairs if mine is None or yours is None or mine == yours)


def _load(process: Process) -> tuple[int, float]:
    return process.load
