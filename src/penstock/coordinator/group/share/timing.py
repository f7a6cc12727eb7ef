"""The sessions of a group's members, which follow from the records as decided, and members that go.

A write that fails takes the sessions back with the records (`settle`).
"""

from collections.abc import Iterator
from functools import partial

from penstock.coordinator.group.assigned_group import UNCHECKED
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.records import CURRENT, MEMBER, TARGET
from penstock.coordinator.group.share.table import ShareGroupTable, put
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode


def touch(house: ShareGroupTable, group: ShareGroup, member_id: str, now_ms: int) -> None:
    timeout_ms = house.session_timeout_ms(group.group_id)
    group.touch(house.table.timers, member_id, now_ms, timeout_ms, _session_expired, house)


def settle(house: ShareGroupTable, group: ShareGroup, now_ms: int) -> None:
    """Each member has a session, and nobody else has one."""
    for _ in settling(house, group, now_ms):
        pass


def settling(house: ShareGroupTable, group: ShareGroup, now_ms: int) -> Iterator[None]:
    """As `settle`, a step for each member."""
    members = group.state.members
    for member_id in list(group.sessions):
        if member_id not in members:
            group.stop_session(member_id)
    for member_id in members:
        if member_id not in group.sessions:
            touch(house, group, member_id, now_ms)
        yield


def wrote(house: ShareGroupTable, group: ShareGroup, error: ErrorCode, now_ms: int) -> None:
    """A write about the group has ended. One that failed is taken back, and so are all after it."""
    if error is ErrorCode.NONE or house.table.groups.get(group.group_id) is not group:
        return
    group.assigning, group.checked_version = None, UNCHECKED
    if group.exists:
        settle(house, group, now_ms)
    else:
        house.table.drop_group(group, now_ms)
        house.table.restore_group(group.group_id, now_ms)


def remove(house: ShareGroupTable, draft: Draft[AnyRecord], group: ShareGroup, member_id: str) -> None:
    """It is a member. The group goes to its next epoch."""
    for key in (CURRENT, TARGET, MEMBER):
        put(draft, group.group_id, key, member_id, None)
    group.stop_session(member_id)
    house.next_epoch(draft, group)


def _session_expired(house: ShareGroupTable, group: ShareGroup, member_id: str, now_ms: int) -> None:
    group.stop_session(member_id)
    timeout_ms = house.session_timeout_ms(group.group_id)
    draft = house.table.draft()
    remove(house, draft, group, member_id)
    house.table.note(f"group {group.group_id}: member {member_id} sent no heartbeat for {timeout_ms} ms, and is out")
    house.write(draft, now_ms, then=partial(wrote, house, group))
