"""What is asked of assignors that others wrote."""

from penstock.coordinator.group.streams.assignors.spec import Spec, Targets
from penstock.coordinator.group.streams.assignors.tasks import Task, each_task


class WrongAssignmentError(Exception):
    """An assignor did what no assignor may. Its text is for operators."""


def checked(spec: Spec, targets: Targets) -> Targets:
    """The same. WrongAssignmentError unless each task is active once, a process has a task in one role only, and
    nothing is given to strangers.
    """
    active: dict[Task, str] = {}
    in_process: set[tuple[str, Task]] = set()
    for member_id, roles in targets.items():
        worker = spec.members.get(member_id)
        if worker is None:
            raise WrongAssignmentError(f"member {member_id} is not in the group")
        for task in each_task(roles.active):
            other = active.setdefault(task, member_id)
            if other != member_id:
                raise WrongAssignmentError(f"task {_named(task)} is active at {other} and at {member_id}")
        for task in (*each_task(roles.active), *each_task(roles.standby), *each_task(roles.warmup)):
            if not 0 <= task[1] < spec.tasks.get(task[0], 0):
                raise WrongAssignmentError(f"there is no task {_named(task)}")
            if (worker.process_id, task) in in_process:
                raise WrongAssignmentError(f"process {worker.process_id} has task {_named(task)} twice")
            in_process.add((worker.process_id, task))
    missing = next((task for task in spec.tasks_of(spec.tasks) if task not in active), None)
    if missing is not None:
        raise WrongAssignmentError(f"nobody has task {_named(missing)} active")
    return targets


def _named(task: Task) -> str:
    return f"{task[0]}_{task[1]}"
