"""The target of each member, worked out when the group's epoch is ahead of the assignment's, though not too often.

Where that takes long it is done in a thread (`Elsewhere`), and members go on with the targets that they have.
"""

from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer import timing
from penstock.coordinator.group.consumer.assignors import range as by_range
from penstock.coordinator.group.consumer.assignors import uniform
from penstock.coordinator.group.consumer.assignors.spec import Reader, Spec, Targets
from penstock.coordinator.group.consumer.elsewhere import Elsewhere
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import ASSIGNMENT, TARGET
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft

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
    """Have it worked out elsewhere."""
    instances = {member_id: reader.instance_id for member_id, reader in spec.readers.items()}
    errand = Elsewhere(house, group, instances, partial(timing.wrote, house, group))
    errand.send(partial(_assignor(house, group), spec))


def _assignor(house: ConsumerTable, group: ConsumerGroup) -> Callable[[Spec], Targets]:
    return ASSIGNORS[group.state.preferred_assignor(house.settings.assignors)]


def _spec(house: ConsumerTable, group: ConsumerGroup) -> Spec:
    state = group.state
    partitions = house.topics.partitions(state.topics)
    ids: dict[tuple[str | None, tuple[str, ...]], frozenset[UUID]] = {}
    readers: dict[str, Reader] = {}
    for member_id, member in state.members.items():
        said = member.pattern, member.topics  # by thousands of members, of thousands of topics
        if said not in ids:
            ids[said] = house.topics.ids_of(state.topics_of(member))
        readers[member_id] = Reader(member.instance_id, ids[said], state.target(member_id))
    return Spec(readers, partitions)
