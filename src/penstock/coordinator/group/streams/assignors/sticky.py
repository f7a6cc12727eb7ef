"""Sticky: all members get the same number of tasks, or one more, and keep what they can of what they had.

Active tasks first, then standbys; each goes, as long as there is room below the quota,

| | active | standby |
| --- | --- | --- |
| first | to who had it active | to who had it active |
| then | to who had it as a standby, or has something of it on disk | the same |
| else | to the least loaded process | to the least loaded process that has not got it |

where of several the one counts that was to have it and has come farthest. With tags for racks, a standby is kept only
where no other process would be a better place (`racks.py`).
"""

from collections.abc import Iterator

from penstock.coordinator.group.streams.assignors.processes import LeastLoaded, Process, Quota
from penstock.coordinator.group.streams.assignors.racks import Racks
from penstock.coordinator.group.streams.assignors.spec import Spec, Targets
from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, by_subtopology, each_task


def assign(spec: Spec) -> Targets:
    work = _Work(spec)
    if not spec.members:
        return {}
    work.give_active_tasks()
    if spec.standby_replicas:
        work.give_standbys()
    return {
        member_id: Roles(by_subtopology(work.active[member_id]), by_subtopology(work.standby[member_id]))
        for member_id in spec.members
    }


class _Work:
    __slots__ = (
        "_active_quota",
        "_had_active",
        "_had_standby",
        "_process_of",
        "_processes",
        "_quota",
        "_spec",
        "active",
        "standby",
    )

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        by_process: dict[str, list[str]] = {}
        for member_id, worker in spec.members.items():
            by_process.setdefault(worker.process_id, []).append(member_id)
        largest_first = sorted(by_process.values(), key=len, reverse=True)
        self._processes = [Process(members, spec.members[members[0]].tags) for members in largest_first]
        self._process_of = {member_id: process for process in self._processes for member_id in process.counts}
        self._had_active = {
            task: member_id for member_id, worker in spec.members.items() for task in each_task(worker.held.active)
        }
        self._had_standby = _had_standby(spec)
        active = sum(spec.tasks.values())
        standbys = spec.standby_replicas * sum(spec.tasks.get(subtopology, 0) for subtopology in spec.stateful)
        self._active_quota = Quota(active, len(spec.members))
        self._quota = Quota(active + standbys, len(spec.members))
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}

    # -- active tasks -------------------------------------------------------------------------------------------------

    def give_active_tasks(self) -> None:
        """By partitions as long as they stay where they were, so that the same partitions of all subtopologies do."""
        tasks = sorted(self._spec.tasks_of(self._spec.tasks), key=_by_partition)
        tasks = [task for task in tasks if not self._kept_active(task, self._had_active.get(task))]
        tasks = [task for task in tasks if not self._kept_active(task, self._least_loaded_standby(task))]
        least_loaded = LeastLoaded(self._processes, _load)
        for task in sorted(tasks):
            process = least_loaded.first()
            self._add_active(task, process, process.least_loaded)

    def _kept_active(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_quota.each:
            return False
        self._add_active(task, process, member_id)
        return True

    def _least_loaded_standby(self, task: Task) -> str | None:
        quota = self._active_quota.each
        had = (member_id for member_id in self._had_standby.get(task, ()) if self._count(member_id) < quota)
        return self._least_loaded(had)

    def _add_active(self, task: Task, process: Process, member_id: str) -> None:
        count = process.add(member_id, task)
        self._active_quota.has(count)
        self._quota.has(count)
        self.active[member_id].append(task)

    # -- standbys -----------------------------------------------------------------------------------------------------

    def give_standbys(self) -> None:
        replicas = self._spec.standby_replicas
        tasks = sorted(self._spec.tasks_of(self._spec.stateful), key=_by_partition, reverse=True)
        racks = Racks(self._processes, self._spec.rack_aware_tags, replicas + 1)
        holders = self._active_holders()
        left = [(task, self._keep_standbys(task, replicas, racks, holders[task])) for task in tasks]
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                process = racks.best(task, holders[task])
                if process is None:
                    break
                self._add_standby(task, process, process.least_loaded, holders[task])

    def _active_holders(self) -> dict[Task, list[Process]]:
        return {
            task: [self._process_of[member_id]]
            for member_id, tasks in self.active.items()
            for task in tasks
            if task[0] in self._spec.stateful
        }

    def _keep_standbys(self, task: Task, replicas: int, racks: Racks, holders: list[Process]) -> int:
        """How many are still to be found a place for."""
        while replicas:
            member_id = self._standby_to_keep(task, racks, holders)
            if member_id is None:
                break
            self._add_standby(task, self._process_of[member_id], member_id, holders)
            replicas -= 1
        return replicas

    def _standby_to_keep(self, task: Task, racks: Racks, holders: list[Process]) -> str | None:
        before = self._had_active.get(task)
        if before is not None and self._may_keep(before, task, racks, holders):
            return before
        had = self._had_standby.get(task, ())
        return self._least_loaded(one for one in had if self._may_keep(one, task, racks, holders))

    def _may_keep(self, member_id: str, task: Task, racks: Racks, holders: list[Process]) -> bool:
        process = self._process_of[member_id]
        return (
            task not in process.has and process.counts[member_id] < self._quota.each and racks.is_best(process, holders)
        )

    def _add_standby(self, task: Task, process: Process, member_id: str, holders: list[Process]) -> None:
        self._quota.has(process.add(member_id, task))
        self.standby[member_id].append(task)
        holders.append(process)

    # -- members ------------------------------------------------------------------------------------------------------

    def _count(self, member_id: str) -> int:
        return self._process_of[member_id].counts[member_id]

    def _least_loaded(self, members: Iterator[str]) -> str | None:
        """The first, unless a later one has less and is in a process that has less."""
        found = next(members, None)
        if found is None:
            return None
        for member_id in members:
            least, process = self._process_of[found], self._process_of[member_id]
            if process.load[1] < least.load[1] and process.counts[member_id] < least.counts[found]:
                found = member_id
        return found


def _had_standby(spec: Spec) -> dict[Task, list[str]]:
    """First who was to have it, then who only has something of it on disk; in both, who has come farthest."""
    found: dict[Task, list[tuple[bool, int, str]]] = {}
    for member_id, worker in spec.members.items():
        standbys = set(each_task(worker.held.standby))
        for task in each_task(worker.held.standby):
            found.setdefault(task, []).append((False, -worker.offsets.get(task, 0), member_id))
        for task, offset in worker.offsets.items():
            if task not in standbys:
                found.setdefault(task, []).append((True, -offset, member_id))
    return {task: [member_id for _, _, member_id in sorted(had, key=_rank)] for task, had in found.items()}


def _rank(had: tuple[bool, int, str]) -> tuple[bool, int]:
    return had[:2]


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def _load(process: Process) -> tuple[int, float]:
    return process.load
