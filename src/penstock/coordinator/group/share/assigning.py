"""The target of each member, worked out when the group's epoch is ahead of the assignment's, though not too often.

Only what is initialized at the share coordinator is given to anybody. Where that takes long it is done in a thread
(`Elsewhere`), and members go on with the targets that they have.
"""

from functools import partial
from uuid import UUID

from penstock.coordinator.group.consumer.elsewhere import Elsewhere
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share import assignor, timing
from penstock.coordinator.group.share.assignor import Reader, Spec
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import ASSIGNMENT, TARGET
from penstock.coordinator.group.share.table import ShareGroupTable, put
from penstock.coordinator.machine import Draft


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
    Elsewhere(house, group, {}, partial(timing.wrote, house, group)).send(partial(assignor.assign, spec))


def _spec(house: ShareGroupTable, group: ShareGroup) -> Spec:
    state = group.state
    ids: dict[tuple[str, ...], frozenset[UUID]] = {}
    readers: dict[str, Reader] = {}
    for member_id, member in state.members.items():
        if member.topics not in ids:
            ids[member.topics] = house.topics.ids_of(member.topics)
        readers[member_id] = Reader(ids[member.topics], state.target(member_id))
    return Spec(readers, state.partitions.assignable)
