"""Members go: what is written when some leave, fall silent, or are put out."""

from collections.abc import Sequence

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, LEGACY, MEMBER, TARGET
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import GroupEpoch
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft


def remove(house: ConsumerTable, draft: Draft[AnyRecord], group: ConsumerGroup, member_ids: Sequence[str]) -> None:
    """All of them are members. The group goes to its next epoch; one without members needs no new assignment."""
    for member_id in member_ids:
        take_out(draft, group, member_id)
        group.stop_session(member_id)
        group.stop_rebalance(member_id)
        group.stop_call(member_id)
    drop_unread_expressions(draft, group)
    next_epoch(house, draft, group)
    if not group.state.members:
        group.assigning = None  # what is being worked out is for members that are gone, and for an earlier epoch
        put(draft, group.group_id, ASSIGNMENT, "", AssignmentEpoch(group.state.epoch, 0))


def take_out(draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str) -> None:
    for key in (CURRENT, TARGET, MEMBER):
        put(draft, group.group_id, key, member_id, None)


def drop_unread_expressions(draft: Draft[AnyRecord], group: ConsumerGroup) -> None:
    for expression in list(group.state.expressions):
        if not group.state.readers(expression):
            put(draft, group.group_id, EXPRESSION, expression, None)


def next_epoch(house: ConsumerTable, draft: Draft[AnyRecord], group: ConsumerGroup) -> None:
    state = group.state
    metadata_hash = house.topics.hash_of(state.topics, state.group.metadata_hash)
    put(draft, group.group_id, GROUP, "", GroupEpoch(state.epoch + 1, metadata_hash))
    if state.has_legacy:
        put(draft, group.group_id, LEGACY, "", None)
