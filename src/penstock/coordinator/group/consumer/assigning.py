"""The target of each member, worked out when the group's epoch is ahead of the assignment's, though not too often.

Where that takes long it is done in a thread (`Calculation`), and members go on with the targets that they have.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.coordinator.effects import Calculation
from penstock.coordinator.group.assigned_group import some_targets
from penstock.coordinator.group.consumer import timing
from penstock.coordinator.group.consumer.assignors import range as by_range
from penstock.coordinator.group.consumer.assignors import uniform
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec, Target, Targets
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import ASSIGNMENT, TARGET
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode

SLICE_MS: Final = 1
"""Between some of very many targets and the next ones."""

_Worked = tuple[str, str | None, Target]
"""A member, its instance, and what it is to have."""

ASSIGNORS: Final[dict[str, Callable[[Spec], Targets]]] = {"uniform": uniform.assign, "range": by_range.assign}


def due(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> Spec | None:
    """What targets are to be worked out of; None if they are not to be, or not yet."""
    state = group.state
    if state.assignment.epoch >= state.epoch or group.assigning is not None:
        return None
    is_early = state.assignment.wait_ms(house.assignment_interval_ms(group.group_id), now_ms) > 0
    return None if is_early else _spec(house, group)


def assign(house: ConsumerTable, draft: Draft[AnyRecord], group: ConsumerGroup, spec: Spec, now_ms: int) -> None:
    """Only what does not take long (`Spec.size`)."""
    group.put_targets(draft, TARGET, _assignor(house, group)(spec))
    put(draft, group.group_id, ASSIGNMENT, "", AssignmentEpoch(group.state.epoch, now_ms))


def begin(draft: Draft[AnyRecord], group: ConsumerGroup) -> None:
    """A group whose first targets are being worked out has an assignment that gives nobody anything: a member has to
    have an epoch, as one that sends 0 joins.
    """
    if not group.state.assignment.epoch:
        put(draft, group.group_id, ASSIGNMENT, "", AssignmentEpoch(max(group.state.epoch - 1, 1), 0))


def send(house: ConsumerTable, group: ConsumerGroup, spec: Spec) -> None:
    """Have it worked out elsewhere. What the group's state is by now only a write that fails may take back."""
    group.assigning = errand = object()
    then = partial(_worked_out, house, group, errand, spec, group.state.epoch)
    house.table.send(Calculation(partial(_assignor(house, group), spec)), then)


def _assignor(house: ConsumerTable, group: ConsumerGroup) -> Callable[[Spec], Targets]:
    return ASSIGNORS[group.state.preferred_assignor(house.settings.assignors)]


def _spec(house: ConsumerTable, group: ConsumerGroup) -> Spec:
    state = group.state
    partitions = house.topics.partitions(state.topics)
    ids: dict[frozenset[str], frozenset[Any]] = {}
    readers: dict[str, Reader] = {}
    for member_id, member in state.members.items():
        names = state.topics_of(member)
        if names not in ids:
            ids[names] = frozenset(house.topics.partitions(names))
        readers[member_id] = Reader(member.instance_id, ids[names], state.target(member_id))
    return Spec(readers, partitions)


def _worked_out(
    house: ConsumerTable,
    group: ConsumerGroup,
    errand: object,
    spec: Spec,
    epoch: int,
    targets: Targets | None,
    error: ErrorCode,
    now_ms: int,
) -> None:
    """Members may have come or gone meanwhile: then the group is at a later epoch, and this is done again. What a
    write that failed has taken back is not what was asked for (`timing.wrote`).
    """
    if group.assigning is not errand:
        return
    if targets is None or group.is_dead:
        group.assigning = None
        return
    left = deque((member_id, spec.readers[member_id].instance_id, target) for member_id, target in targets.items())
    _write_some(house, group, errand, left, epoch, now_ms)


def _write_some(
    house: ConsumerTable, group: ConsumerGroup, errand: object, left: deque[_Worked], epoch: int, now_ms: int
) -> None:
    """A part of very many targets at a time; the epoch comes with the last. Until then members may take what is free of
    the new ones, which is safe in any order.
    """
    if group.assigning is not errand or group.is_dead:
        return
    draft, state = house.table.draft(), group.state
    present = some_targets(left, house.table.settings.members_at_once, state.members, state.static_ids)
    group.put_targets(draft, TARGET, present)
    if left:
        house.table.start_timer(_write_some, now_ms + SLICE_MS, house, group, errand, left, epoch)
    else:
        group.assigning = None
        put(draft, group.group_id, ASSIGNMENT, "", AssignmentEpoch(epoch, now_ms))
    house.write(draft, now_ms, then=partial(timing.wrote, house, group))
