"""A plan that stops nothing that may stay (KIP-415): what moves is taken away in one generation and given in the next.

The leader sees what each member runs, and what the last plan gave to whom. One step gives

* to each member what the planner gives it, without what another member still runs: that one stops it, joins again, and
  the next generation finds it free;
* to no member more than it has room for (`room.py`), with what it still has to end;
* to no member what is no task any more: its owner stops it and joins again, so the leader knows when it has ended;
* back to a worker that has come back what it ran before;
* to no member what a worker ran that has left, for as long as it may come back. A worker without any work that was not
  there before takes its place at once: it has replaced the other.
"""

from collections.abc import Collection, Mapping, Sequence

from penstock.protocol.value import Value
from penstock.work.plan import Member, Plan, Planner, Task, checked
from penstock.work.room import beside_what_ends, bounded


class Waiting(Value):
    """Other members may have the task after `left_ms`, counted from this decision."""

    task: str
    worker: str
    left_ms: int


class Step(Value):
    """What a generation of workers runs, and which tasks no member may start in it.

    `moving` tasks still run on a member that is to give them up, for another one or because they are no longer to run;
    `waiting` tasks ran on workers that have left.
    """

    plan: Plan
    waiting: tuple[Waiting, ...] = ()
    moving: tuple[str, ...] = ()


def step(
    planner: Planner,
    tasks: Sequence[Task],
    members: Sequence[Member],
    last: Step,
    max_delay_ms: int,
    busy: Collection[str] = (),
) -> Step:
    """The next step after `last`, whose `left_ms` are up to date; PlanError for a faulty planner.

    `busy` tasks run on workers that are given nothing.
    """
    owners = _owners(tasks, members)
    waiting = _waiting(tasks, members, owners, last, max_delay_ms)
    waits = {one.task for one in waiting}
    returned = _with_what_they_had(members, owners, last)
    available = [task for task in tasks if task.name not in waits]
    target = bounded(checked(planner(available, returned), available, returned), available, returned)
    wanted = {
        worker: tuple(name for name in names if owners.get(name, worker) == worker and name not in busy)
        for worker, names in target.items()
    }
    plan = beside_what_ends(wanted, tasks, members)
    given = {name for names in plan.values() for name in names}
    moving = [task.name for task in available if task.name not in given and (task.name in owners or task.name in busy)]
    known = {task.name for task in tasks}
    gone = [name for name in (*(name for member in members for name in member.owned), *busy) if name not in known]
    return Step(plan, waiting, tuple(dict.fromkeys((*moving, *gone))))


def _owners(tasks: Sequence[Task], members: Sequence[Member]) -> dict[str, str]:
    """The member that runs each task. Of two that claim a task the first is believed; the other stops it."""
    owners: dict[str, str] = {}
    known = {task.name for task in tasks}
    for member in members:
        for name in member.owned:
            if name in known:
                owners.setdefault(name, member.name)
    return owners


def _waiting(
    tasks: Sequence[Task], members: Sequence[Member], owners: Mapping[str, str], last: Step, max_delay_ms: int
) -> tuple[Waiting, ...]:
    """Tasks kept for workers that are away, in the order of the tasks."""
    here = {member.name for member in members}
    before = last.plan.keys() | {one.worker for one in last.waiting}
    if any(not member.owned and member.name not in before for member in members):
        return ()
    kept = {name: Waiting(name, worker, max_delay_ms) for worker, names in last.plan.items() for name in names}
    kept |= {one.task: one for one in last.waiting}
    candidates = (kept[task.name] for task in tasks if task.name in kept and task.name not in owners)
    return tuple(one for one in candidates if one.worker not in here and one.left_ms > 0)


def _with_what_they_had(members: Sequence[Member], owners: Mapping[str, str], last: Step) -> list[Member]:
    """Each member with what it runs, and what it ran before and no other member runs."""
    had: dict[str, list[str]] = {worker: list(names) for worker, names in last.plan.items()}
    for one in last.waiting:
        had.setdefault(one.worker, []).append(one.task)
    return [
        member.replace(
            owned=tuple(
                name
                for name in dict.fromkeys((*member.owned, *had.get(member.name, ())))
                if owners.get(name, member.name) == member.name
            )
        )
        for member in members
    ]
