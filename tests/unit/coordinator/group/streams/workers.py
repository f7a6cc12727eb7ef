"""Members with tasks in a short hand, and what holds of every assignment."""

from collections.abc import Collection, Mapping

from penstock.coordinator.group.streams.assignors.spec import (
    RACK_AWARE_TAGS,
    STANDBY_REPLICAS,
    Spec,
    Targets,
    Worker,
)
from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, Tasks, each_task

ONE = "s"
"""The subtopology of tasks that are given by numbers alone."""
Some = Collection[int] | Mapping[str, Collection[int]]


def tasks(some: Some) -> Tasks:
    by_subtopology = some if isinstance(some, Mapping) else {ONE: some} if some else {}
    return {subtopology: tuple(sorted(partitions)) for subtopology, partitions in by_subtopology.items()}


def worker(
    process: str,
    active: Some = (),
    standby: Some = (),
    offsets: Mapping[int, int] | None = None,
    **tags: str,
) -> Worker:
    return Worker(
        process_id=process,
        tags=tags,
        held=Roles(tasks(active), tasks(standby)),
        offsets={(ONE, partition): offset for partition, offset in (offsets or {}).items()},
    )


def spec(
    members: Mapping[str, Worker], count: int | Mapping[str, int], replicas: int | None = None, tags: str = ""
) -> Spec:
    """With a number of replicas, 0 too, all is stateful."""
    counts = count if isinstance(count, Mapping) else {ONE: count}
    stateful = frozenset() if replicas is None else frozenset(counts)
    configs = {STANDBY_REPLICAS: str(replicas or 0)} | ({RACK_AWARE_TAGS: tags} if tags else {})
    return Spec(members, counts, stateful, configs)


def check(given: Spec, targets: Targets) -> None:
    """Each task is active once, and has as many standbys as there are processes for; no process has a task twice."""
    assert set(targets) == set(given.members)
    active = sorted(task for roles in targets.values() for task in each_task(roles.active))
    assert active == sorted((sub, number) for sub, count in given.tasks.items() for number in range(count))
    in_process = [
        (given.members[member_id].process_id, task)
        for member_id, roles in targets.items()
        for task in (*each_task(roles.active), *each_task(roles.standby))
    ]
    assert len(set(in_process)) == len(in_process)
    processes = {member.process_id for member in given.members.values()}
    replicas: dict[Task, int] = {}
    for roles in targets.values():
        for task in each_task(roles.standby):
            replicas[task] = replicas.get(task, 0) + 1
    wanted = min(given.standby_replicas, len(processes) - 1)
    assert replicas == {task: wanted for task in active if task[0] in given.stateful and wanted}


def counts(targets: Targets) -> dict[str, int]:
    """How many active tasks each has."""
    return {member_id: sum(map(len, roles.active.values())) for member_id, roles in targets.items()}
