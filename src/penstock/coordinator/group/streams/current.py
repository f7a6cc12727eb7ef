"""How a member comes to its target: what it keeps, what it has to give up first, and what it may take.

| state | what is asked | what follows |
| --- | --- | --- |
| STABLE, at the target's epoch | | nothing |
| STABLE, at another epoch | does it have what is not in the target? | give up, or take |
| UNREVOKED_TASKS | does it still own what it is to give up, or not say? | it waits, at its old epoch |
| | otherwise | give up, or take |
| UNRELEASED_TASKS | | give up, or take: perhaps more is free by now |
| any other | does it say that it owns nothing? | take; otherwise FENCED_MEMBER_EPOCH |

Give up: UNREVOKED_TASKS, at the old epoch. Take: what is free, at the target's epoch; UNRELEASED_TASKS if some of the
target is not, else STABLE.

| a task is free as | if |
| --- | --- |
| active | nobody has it active, and the member's process has it in no role |
| standby, warm-up | the member's process has it in no role |

What the member itself has is not in its way where it changes roles without a break, so that it keeps what it has on
disk:

| from | to | |
| --- | --- | --- |
| active | standby | at once; it is still to give up the active one |
| standby | warm-up, and back | at once, with nothing to give up |
| standby, warm-up | active | when the active one is free; until then it keeps what it has |
"""

from collections.abc import Callable, Collection
from typing import Final

from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, by_subtopology, each_task
from penstock.coordinator.group.streams.values import STABLE, UNRELEASED_TASKS, UNREVOKED_TASKS, Current, Held
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

_ACTIVE: Final = 0
_STANDBY: Final = 1
_WARMUP: Final = 2
_ROLES: Final = (_ACTIVE, _STANDBY, _WARMUP)

_BECOMES: Final = frozenset(
    {(_ACTIVE, _STANDBY), (_STANDBY, _ACTIVE), (_STANDBY, _WARMUP), (_WARMUP, _ACTIVE), (_WARMUP, _STANDBY)}
)
"""What the member has as the first may become the second, without a break."""


class Wanted(Value):
    """What a member is to come to, and who has what now, as assigned or still to give up."""

    epoch: int
    target: Roles
    active_process: Callable[[str, int], str | None]
    """The process of the member that has the task active."""
    standby_processes: Callable[[str, int], Collection[str]]
    warmup_processes: Callable[[str, int], Collection[str]]


_Set = dict[Task, int]
"""Tasks in their order, with the epoch in which the member got them, which only counts for active ones."""


def reconciled(current: Current, process_id: str, wanted: Wanted, said: Roles | None) -> Current:
    """The same object if the member stays as it is. `said` is what it says that it owns, None if it does not say.
    KafkaError(FENCED_MEMBER_EPOCH).

    A member that has given up what it was to is at the next epoch, as Kafka counts.
    """
    if current.state == STABLE:
        return current if current.epoch == wanted.epoch else _next(current, process_id, current.epoch, wanted, said)
    if current.state == UNREVOKED_TASKS:
        if _owns_any(said, _sets(current.revoking)):
            return current
        return _next(current, process_id, current.epoch + 1, wanted, said)
    if current.state == UNRELEASED_TASKS:
        return _next(current, process_id, current.epoch, wanted, said)
    if said is None or not said.is_empty:
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "the member is in a state of a newer coordinator: rejoin")
    return _next(current, process_id, wanted.epoch, wanted, said)


def _next(current: Current, process_id: str, epoch: int, wanted: Wanted, said: Roles | None) -> Current:
    has, goals = _sets(current.assigned), _goals(wanted)
    kept = [{task: since for task, since in has[role].items() if task in goals[role]} for role in _ROLES]
    revoking = [{task: since for task, since in has[role].items() if task not in goals[role]} for role in _ROLES]
    new = [[task for task in goals[role] if task not in has[role]] for role in _ROLES]
    free = [
        {task: wanted.epoch for task in new[role] if _is_free(task, role, has, process_id, wanted)} for role in _ROLES
    ]
    is_unreleased = any(len(free[role]) < len(new[role]) for role in _ROLES)

    _change_at_once(has, kept, revoking, free)
    for role in (_STANDBY, _WARMUP):
        revoking[role] = {task: since for task, since in revoking[role].items() if task not in goals[_ACTIVE]}
    waits = any(revoking) and _owns_any(said, revoking)
    for role in (_STANDBY, _WARMUP):
        waiting = (task for task in has[role] if task in goals[_ACTIVE] and (waits or task not in free[_ACTIVE]))
        kept[role].update(dict.fromkeys(waiting, 0))
    if waits:
        return Current(epoch, current.epoch, UNREVOKED_TASKS, _held(kept), _held(revoking))
    assigned = _held([kept[role] | free[role] for role in _ROLES])
    return Current(wanted.epoch, current.epoch, UNRELEASED_TASKS if is_unreleased else STABLE, assigned)


def _is_free(task: Task, role: int, has: list[_Set], process_id: str, wanted: Wanted) -> bool:
    active, standby, warmup = (
        wanted.active_process(*task),
        wanted.standby_processes(*task),
        wanted.warmup_processes(*task),
    )
    if active is None and not standby and not warmup:
        return True  # so it is with nearly all tasks
    if role == _ACTIVE and active is not None:
        return False
    in_process = active == process_id, process_id in standby, process_id in warmup
    return not any(in_process[of] and (task not in has[of] or (of, role) not in _BECOMES) for of in _ROLES)


def _change_at_once(has: list[_Set], kept: list[_Set], revoking: list[_Set], free: list[_Set]) -> None:
    """What need not wait till the member has nothing to give up."""
    for before, after in ((_ACTIVE, _STANDBY), (_STANDBY, _WARMUP), (_WARMUP, _STANDBY)):
        for task in has[before]:
            if task in free[after]:
                kept[after][task] = free[after].pop(task)
                if before != _ACTIVE:
                    revoking[before].pop(task, None)


def _owns_any(said: Roles | None, revoking: list[_Set]) -> bool:
    """A member that does not say may own everything."""
    if said is None:
        return True
    owned = (said.active, said.standby, said.warmup)
    return any(task in revoking[role] for role in _ROLES for task in each_task(owned[role]))


def _sets(held: Held) -> list[_Set]:
    active = {(sub, partition): epoch for sub, since in held.active.items() for partition, epoch in since.items()}
    return [active, dict.fromkeys(each_task(held.standby), 0), dict.fromkeys(each_task(held.warmup), 0)]


def _goals(wanted: Wanted) -> list[_Set]:
    target = wanted.target
    return [dict.fromkeys(each_task(tasks), wanted.epoch) for tasks in (target.active, target.standby, target.warmup)]


def _held(sets: list[_Set]) -> Held:
    active: dict[str, dict[int, int]] = {}
    for (subtopology, partition), since in sets[_ACTIVE].items():
        active.setdefault(subtopology, {})[partition] = since
    return Held(active, by_subtopology(sets[_STANDBY]), by_subtopology(sets[_WARMUP]))
