"""Who has room for what: cores and memory that tasks need, of those that members have.

A task that says nothing needs nothing, and a member that says nothing has enough. No member is given more than it has,
counting what it still has to end; what has no room anywhere is given to nobody until there is some.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from penstock.work.plan import Member, Plan, Task


def bounded(plan: Plan, tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    """The plan, where it gives a member more than it has changed: what a member runs stays, as far as there is room.

    What is too much goes, the largest first, to whoever runs it or has the most free cores.
    """
    known = {task.name: task for task in tasks}
    if not any(task.cores or task.memory_mb for task in tasks):
        return plan
    owners = {name: member.name for member in members for name in member.owned}
    rooms = {member.name: Room(member) for member in members}
    too_much: list[Task] = []
    for member in members:
        mine = sorted(plan[member.name], key=lambda name: owners.get(name) != member.name)
        too_much += [known[name] for name in mine if not rooms[member.name].takes(known[name])]
    for task in sorted(too_much, key=lambda task: (-task.cores, -task.memory_mb)):
        first = owners.get(task.name)
        for room in sorted(rooms.values(), key=lambda room: (room.name != first, -room.cores)):
            if room.takes(task):
                break
    return {name: tuple(rooms[name].tasks) for name in plan}


def beside_what_ends(plan: Plan, tasks: Sequence[Task], members: Iterable[Member]) -> Plan:
    """Without new tasks for which a member has room only when it has ended others."""
    known = {task.name: task for task in tasks}
    return {**plan, **{member.name: _given(plan.get(member.name, ()), known, member) for member in members}}


def _given(mine: Sequence[str], known: Mapping[str, Task], member: Member) -> tuple[str, ...]:
    """A task that is none any more may need anything until it has ended."""
    room = Room(member)
    for name in member.owned:
        room.fill(known.get(name))
    return tuple(name for name in mine if name in member.owned or room.takes(known[name]))


class Room:
    """What a member has left: without a limit there is always enough."""

    def __init__(self, member: Member) -> None:
        self.name = member.name
        self.tasks: list[str] = []
        self.cores = math.inf if member.cores is None else member.cores
        self._memory_mb = math.inf if member.memory_mb is None else member.memory_mb

    def takes(self, task: Task) -> bool:
        """Whether there is room; then it has less."""
        if (task.cores and task.cores > self.cores) or (task.memory_mb and task.memory_mb > self._memory_mb):
            return False
        self.fill(task)
        return True

    def fill(self, task: Task | None) -> None:
        """Whether or not there is room; None needs all that there is."""
        if task is None:
            self.cores, self._memory_mb = (0 if math.isfinite(left) else left for left in (self.cores, self._memory_mb))
            return
        self.tasks.append(task.name)
        self.cores -= task.cores
        self._memory_mb -= task.memory_mb
