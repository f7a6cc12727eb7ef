"""What DescribeGroups says of a group."""

from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember


def describe_group(group: ClassicGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """A missing group is Dead, from version 6 on an error (KIP-1043). Only Stable shows metadata and assignments."""
    if group is None or group.state is GroupState.DEAD:
        answer = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if api_version >= 6:
            answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            answer.error_message = f"Group {group_id} not found."
        return answer
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
