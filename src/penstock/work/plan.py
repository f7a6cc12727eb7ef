"""Who runs what: plans as pure functions of the tasks and the members.

The leader of a group of workers asks for a plan once in each generation. All plans give every task to exactly one
member, and none when there is no member.

* `even`: the tasks in their order are cut into runs of neighbours, one for each member; the first take one more.
* `sticky`: as even, and of all the even plans one that moves the fewest tasks.
* `weighted`: the heaviest tasks first, each to the member that is the least loaded for its capacity; a task stays where
  it is as long as that member has room.

Any other function of this shape will do as well: workers alone know it.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from penstock.protocol.value import Value

Plan = dict[str, tuple[str, ...]]
"""The names of each member's tasks, by the member's name."""


class Task(Value):
    """`weight` is in a unit of the user's own; cores and memory count where members say what they have."""

    name: str
    weight: int = 1
    cores: int = 0
    memory_mb: int = 0


class Member(Value):
    """`name` outlives a restart of the worker, `position` says how far it has come (the one with the largest leads),
    and `capacity` what it can bear compared with the others. It has so many cores and so much memory, None for enough.
    """

    name: str
    position: int = 0
    owned: tuple[str, ...] = ()
    capacity: int = 1
    cores: int | None = None
    memory_mb: int | None = None


Planner = Callable[[Sequence[Task], Sequence[Member]], Plan]


class PlanError(ValueError):
    """A plan gives a task to no member, to two, or to an unknown one."""


def even(tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    """Runs of neighbouring tasks, in the order of the members; of 5 tasks 3 members get 2, 2 and 1."""
    share, one_more = divmod(len(tasks), len(members)) if members else (0, 0)
    plan: Plan = {}
    start = 0
    for index, member in enumerate(members):
        end = start + share + (index < one_more)
        plan[member.name] = tuple(task.name for task in tasks[start:end])
        start = end
    return plan


def sticky(tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    """As many for each as `even` gives; each member keeps what it has up to that number."""
    free = {task.name: None for task in tasks}
    kept: dict[str, list[str]] = {}
    for member in members:
        kept[member.name] = [name for name in dict.fromkeys(member.owned) if name in free]
        for name in kept[member.name]:
            del free[name]
    share, one_more = divmod(len(tasks), len(members)) if members else (0, 0)
    most_first = sorted(members, key=lambda member: -len(kept[member.name]))
    quota = {member.name: share + (index < one_more) for index, member in enumerate(most_first)}
    for name, mine in kept.items():
        free.update(dict.fromkeys(mine[quota[name] :]))
        del mine[quota[name] :]
    waiting = iter([task.name for task in tasks if task.name in free])
    for name, mine in kept.items():
        mine += [task for _, task in zip(range(quota[name] - len(mine)), waiting, strict=False)]
    return {name: tuple(mine) for name, mine in kept.items()}


def weighted(tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    """The heaviest first, each to its owner if that has room for it, else to the least loaded member."""
    if not members:
        return {}
    owners = {name: member.name for member in members for name in member.owned}
    capacities = {member.name: max(1, member.capacity) for member in members}
    even_load = Fraction(sum(task.weight for task in tasks), sum(capacities.values()))
    given: dict[str, list[str]] = {member.name: [] for member in members}
    load = dict.fromkeys(given, 0)
    for task in sorted(tasks, key=lambda task: -task.weight):
        owner = owners.get(task.name)
        if owner is None or load[owner] + task.weight > even_load * capacities[owner]:
            owner = min(given, key=lambda name: Fraction(load[name] + task.weight, capacities[name]))
        given[owner].append(task.name)
        load[owner] += task.weight
    return {name: tuple(mine) for name, mine in given.items()}


def checked(plan: Plan, tasks: Sequence[Task], members: Sequence[Member]) -> Plan:
    """The plan, if it gives each task to exactly one of the members; PlanError names what is wrong."""
    strangers = plan.keys() - {member.name for member in members}
    if strangers:
        raise PlanError(f"the plan names {sorted(strangers)}, which are not members")
    given = [name for mine in plan.values() for name in mine]
    if len(given) != len(set(given)):
        twice = sorted({name for name in given if given.count(name) > 1})
        raise PlanError(f"the plan gives {twice} to more than one member")
    known = {task.name for task in tasks}
    if members and set(given) != known:
        raise PlanError(f"the plan leaves out {sorted(known - set(given))} and invents {sorted(set(given) - known)}")
    return {member.name: tuple(plan.get(member.name, ())) for member in members}
