"""A consumer group becomes a classic one, when only classic members are left in it.

All records of the consumer group are taken away, and the classic one is written, in one batch. Its generation is the
group's epoch. Members are called back: the group is written as one that waits for them to join, so that another
coordinator does not take it for one that has settled. Only where all members have come to their targets, and one took
the place of a consumer by its instance id, nothing is to be done: then it is Stable.

A member's assignment is what it has, not what it is to have: should a consumer join at once, the group goes back by it.
"""

from collections.abc import Collection

from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.history import Rebalance
from penstock.coordinator.group.classic.member import Caller, Member
from penstock.coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.group.classic.unsettled import kept_record
from penstock.coordinator.group.consumer import embedded
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode


def is_due(house: ConsumerTable, group: ConsumerGroup, leaving: Collection[str] = ()) -> bool:
    """Whether the group is to be classic once these members have left it."""
    state = group.state
    left = len(state.members) - len(leaving)
    classic = state.classic_members - sum(state.members[member_id].classic is not None for member_id in leaving)
    return (
        0 < left == classic
        and left <= house.table.settings.max_size
        and house.settings.migration_policy.downgrades
        and not group.is_dead
    )


def downgrade(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    epoch: int,
    cause: str,
    now_ms: int,
    *,
    is_settled: bool = False,
) -> None:
    """Those who leave are out of the draft's members already. `take_effect` follows when the batch is appended."""
    classic = ClassicGroup(group.group_id, now_ms)
    for member_id, member in group.state.members.items():
        classic.add(_member(house, member_id, member, group.state.current(member_id)), CONSUMER_PROTOCOL_TYPE)
    classic.generation = epoch
    classic.protocol_name = classic.select_protocol()
    classic.state = GroupState.STABLE if is_settled else GroupState.PREPARING_REBALANCE
    classic.rebalance = Rebalance(now_ms, cause, epoch)
    for record in group.tombstones():
        draft.put(record)
    draft.put(kept_record(classic, now_ms))


def take_effect(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> None:
    """From here on the group is the classic one that was decided."""
    house.table.drop_group(group, now_ms)
    house.table.restore_group(group.group_id, now_ms)


def wrote(house: ConsumerTable, group_id: str, error: ErrorCode, now_ms: int) -> None:
    """The batch is committed, or has failed: then it is a consumer group as before, and whoever waits comes again."""
    if error is ErrorCode.NONE:
        return
    group = house.table.groups.get(group_id)
    if group is not None:
        group.send_away(house.table, group_write_error(error))
        house.table.drop_group(group, now_ms)
    house.table.restore_group(group_id, now_ms)


def _member(house: ConsumerTable, member_id: str, said: Subscription, current: Current) -> Member:
    protocols = [(one.name, bytes(one.metadata)) for one in said.classic.supported_protocols]
    caller = Caller(said.client_id, said.client_host, -1)
    session_ms = said.classic.session_timeout_ms
    member = Member(member_id, said.instance_id, caller, said.rebalance_timeout_ms, session_ms, protocols)
    owned = {
        topic: [*current.assigned.get(topic, ()), *current.revoking.get(topic, ())]
        for topic in dict.fromkeys([*current.assigned, *current.revoking])
    }
    member.assignment = embedded.write_assignment(owned, protocols[0][1], house.topics)
    member.is_new = False
    return member
