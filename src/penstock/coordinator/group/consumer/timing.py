"""The timers of a group's members: a session for each, and one for each that is to give something up.

They follow from the records as decided. A write that fails takes them back with the records (`settle`).

| timer | begins | when it ends |
| --- | --- | --- |
| session | with each heartbeat | the member goes |
| rebalance | when the member is told to give something up, for as long as it asked for | it goes, if it still has to |
"""

from functools import partial

from penstock.coordinator.group.consumer import fencing
from penstock.coordinator.group.consumer.group import UNCHECKED, ConsumerGroup
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.values import UNREVOKED_PARTITIONS
from penstock.protocol.errors import ErrorCode


def touch(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    deadline_ms = now_ms + house.session_timeout_ms(group.group_id)
    group.touch(house.table.timers, member_id, deadline_ms, partial(_session_expired, house, group, member_id))


def follow(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Begin or end the wait for what the member is to give up, as its record says."""
    current = group.state.current(member_id)
    _, epoch = group.rebalances.get(member_id, (None, None))
    if current.state != UNREVOKED_PARTITIONS or current.epoch < 0:
        group.stop_rebalance(member_id)
    elif epoch != current.epoch:
        group.stop_rebalance(member_id)
        member = group.state.members.get(member_id)
        timeout_ms = 0 if member is None else member.rebalance_timeout_ms
        fire = partial(_rebalance_expired, house, group, member_id, current.epoch)
        group.rebalances[member_id] = house.table.start_timer(fire, now_ms + timeout_ms), current.epoch


def settle(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> None:
    """Each member has the timers that it is to have, and nobody else has any."""
    members = group.state.members
    for member_id in list(group.sessions):
        if member_id not in members:
            group.stop_session(member_id)
    for member_id in list(group.rebalances):
        if member_id not in members:
            group.stop_rebalance(member_id)
    for member_id in members:
        if member_id not in group.sessions:
            touch(house, group, member_id, now_ms)
        follow(house, group, member_id, now_ms)


def wrote(house: ConsumerTable, group: ConsumerGroup, error: ErrorCode, now_ms: int) -> None:
    """A write about the group has ended. One that failed is taken back, and so are all after it."""
    if error is ErrorCode.NONE or house.table.groups.get(group.group_id) is not group:
        return
    group.assigning, group.checked_version = None, UNCHECKED
    if group.exists:
        settle(house, group, now_ms)
    else:
        house.table.drop_group(group, now_ms)
        house.table.restore_group(group.group_id, now_ms)


def _session_expired(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    group.stop_session(member_id)
    timeout_ms = house.session_timeout_ms(group.group_id)
    _fence(house, group, member_id, f"sent no heartbeat for {timeout_ms} ms", now_ms)


def _rebalance_expired(house: ConsumerTable, group: ConsumerGroup, member_id: str, epoch: int, now_ms: int) -> None:
    current = group.state.current(member_id)
    if current.state == UNREVOKED_PARTITIONS and current.epoch == epoch:
        _fence(house, group, member_id, "has not given up its partitions within its rebalance timeout", now_ms)


def _fence(house: ConsumerTable, group: ConsumerGroup, member_id: str, why: str, now_ms: int) -> None:
    if group.is_dead or member_id not in group.state.members:
        return
    draft = house.table.draft()
    fencing.remove(house, draft, group, [member_id])
    house.table.note(f"group {group.group_id}: member {member_id} {why}, and is out")
    house.write(draft, now_ms, then=partial(wrote, house, group))
