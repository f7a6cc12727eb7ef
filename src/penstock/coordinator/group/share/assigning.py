"""The target of each member, worked out when the group's epoch is ahead of the assignment's, though not too often.

Only what is initialized at the share coordinator is given to anybody. Where that takes long it is done in a thread
(`Calculation`), and members go on with the targets that they have.
"""

from collections import deque
from functools import partial
from typing import Final
from uuid import UUID

from penstock.coordinator.effects import Calculation
from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.consumer.assignors.spec import Target, Targets
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share import assignor, timing
from penstock.coordinator.group.share.assignor import Reader, Spec
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import ASSIGNMENT, TARGET
from penstock.coordinator.group.share.table import ShareGroupTable, put
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode

SLICE_MS: Final = 1
"""Between some of very many targets and the next ones."""


def is_pending(house: ShareGroupTable, group: ShareGroup) -> bool:
    """Whether something that members read is initialized, and belongs to nobody, or the other way round."""
    state = group.state
    given: dict[UUID, set[int]] = {}
    for target in state.targets.values():
        for topic, indexes in target.items():
            given.setdefault(topic, set()).update(indexes)
    return bool(state.members) and any(
        state.reads(found.name) and given.get(topic) != set(found.partitions)
        for topic, found in state.partitions.initialized.items()
    )


def due(house: ShareGroupTable, group: ShareGroup, now_ms: int) -> Spec | None:
    """What targets are to be worked out of; None if they are not to be, or not yet."""
    state = group.state
    if state.assignment.epoch >= state.epoch or group.assigning is not None:
        return None
    is_early = state.assignment.wait_ms(house.assignment_interval_ms(group.group_id), now_ms) > 0
    return None if is_early else _spec(house, group)


def assign(house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup, spec: Spec, now_ms: int) -> None:
    """Only what does not take long (`Spec.size`)."""
    group.put_targets(draft, TARGET, assignor.assign(spec))
    put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(group.state.epoch, now_ms))


def begin(draft: Draft[AnyRecord], group: ShareGroup) -> None:
    """A member has to have an epoch, as one that sends 0 joins, also where its first target is not there yet."""
    if not group.state.assignment.epoch:
        put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(max(group.state.epoch - 1, 1), 0))


def send(house: ShareGroupTable, group: ShareGroup, spec: Spec) -> None:
    """Have it worked out elsewhere."""
    group.assigning = errand = object()
    then = partial(_worked_out, house, group, errand, group.state.epoch)
    house.table.send(Calculation(partial(assignor.assign, spec)), then)


def _spec(house: ShareGroupTable, group: ShareGroup) -> Spec:
    state = group.state
    ids: dict[tuple[str, ...], frozenset[UUID]] = {}
    readers: dict[str, Reader] = {}
    for member_id, member in state.members.items():
        if member.topics not in ids:
            ids[member.topics] = house.topics.ids_of(member.topics)
        readers[member_id] = Reader(ids[member.topics], state.target(member_id))
    return Spec(readers, state.partitions.assignable)


def _worked_out(
    house: ShareGroupTable,
    group: ShareGroup,
    errand: object,
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
    else:
        _write_some(house, group, errand, deque(targets.items()), epoch, now_ms)


def _write_some(
    house: ShareGroupTable, group: ShareGroup, errand: object, left: deque[tuple[str, Target]], epoch: int, now_ms: int
) -> None:
    """A part of very many targets at a time; the epoch comes with the last."""
    if group.assigning is not errand or group.is_dead:
        return
    draft = house.table.draft()
    some = [left.popleft() for _ in range(min(len(left), house.table.settings.members_at_once))]
    initialized = group.state.partitions.assignable
    group.put_targets(
        draft,
        TARGET,
        {member_id: _only(target, initialized) for member_id, target in some if member_id in group.state.members},
    )
    if left:
        house.table.start_timer(_write_some, now_ms + SLICE_MS, house, group, errand, left, epoch)
    else:
        group.assigning, group.checked_version = None, UNCHECKED  # more may have begun meanwhile
        put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(epoch, now_ms))
    house.write(draft, now_ms, then=partial(timing.wrote, house, group))


def _only(target: Target, initialized: Target) -> Target:
    """What is initialized still: a topic may have gone meanwhile."""
    return {topic: indexes for topic, indexes in target.items() if topic in initialized}
