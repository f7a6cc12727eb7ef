"""From the record of a group to the group: what a new coordinator knows of it."""

from collections.abc import Iterator

from penstock.coordinator.group.classic import rebalance, unsettled
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.member import Caller, Member, said_in
from penstock.coordinator.group.records import GroupMetadataValue, MemberMetadata
from penstock.coordinator.group.table import GroupTable


def restore_group(table: GroupTable, group_id: str, value: GroupMetadataValue, now_ms: int) -> Iterator[None]:
    """Members keep their generation, and their session timeouts count from now."""
    group = ClassicGroup(group_id, value.current_state_timestamp)
    table.groups[group_id] = group
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    for item in value.members:
        member = _member(item, value.protocol)
        rebalance.restore_member(table, group, member, value.protocol_type, now_ms, is_new=item.is_new)
        yield
    if value.members:
        group.led_by(value.leader)
        group.state = GroupState.STABLE  # A group with members is written when it becomes stable.
    if value.unsettled is not None:
        unsettled.go_on(table, group, value.unsettled, now_ms)
        return
    maximum = table.settings.max_size
    if len(group.members) > maximum:
        rebalance.begin(table, group, f"more members than group.max.size={maximum} allows", now_ms)


def _member(item: MemberMetadata, protocol_name: str | None) -> Member:
    rebalance_timeout_ms = item.rebalance_timeout if item.rebalance_timeout > 0 else item.session_timeout
    member = Member(
        item.member_id,
        item.group_instance_id,
        Caller(item.client_id, item.client_host, -1),
        rebalance_timeout_ms,
        item.session_timeout,
        said_in(item, protocol_name),
    )
    member.assignment = bytes(item.assignment)
    return member
