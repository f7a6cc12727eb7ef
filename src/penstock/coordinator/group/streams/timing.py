"""The timers of a group: a session for each member, one for each that is to give something up, and the first delay.

All but the last follow from the records as decided. A write that fails takes them back with the records (`settle`).

| timer | begins | when it ends |
| --- | --- | --- |
| session | with each heartbeat | the member goes |
| rebalance | when the member is told to give something up, for as long as it asked for | it goes, if it still has to |
| delay | when the first member joins an empty group | the first targets are worked out |

Of the first two a part (`patience_ms`) comes first, after which the member is named.
"""

from collections.abc import Iterator
from functools import partial

from penstock.coordinator.group import patience
from penstock.coordinator.group.assigned_group import UNCHECKED, Wait
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.group.streams.assignors.tasks import each_task
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.table import StreamsTable
from penstock.coordinator.group.streams.values import UNREVOKED_TASKS, Held
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import What


def touch(house: StreamsTable, group: StreamsGroup, member_id: str, now_ms: int) -> None:
    timeout_ms = patience_ms(house.session_timeout_ms(group.group_id))
    group.touch(house.table.timers, member_id, now_ms, timeout_ms, _session_passes, house)


def follow(house: StreamsTable, group: StreamsGroup, member_id: str, now_ms: int) -> None:
    """Begin or end the wait for what the member is to give up, as its record says."""
    current, member = group.state.current(member_id), group.state.members.get(member_id)
    wait = group.rebalances.get(member_id)
    if current.state != UNREVOKED_TASKS or current.epoch < 0:
        group.stop_rebalance(member_id)
    elif wait is None or wait.epoch != current.epoch:
        group.stop_rebalance(member_id)
        timeout_ms = 0 if member is None else member.rebalance_timeout_ms
        fire = partial(_rebalance_passes, house, group, member_id, current.epoch)
        timer = house.table.start_timer(fire, now_ms + patience_ms(timeout_ms))
        group.rebalances[member_id] = Wait(timer, current.epoch, now_ms, now_ms + timeout_ms)


def settle(house: StreamsTable, group: StreamsGroup, now_ms: int) -> None:
    """Each member has the timers that it is to have, and nobody else has any."""
    for _ in settling(house, group, now_ms):
        pass


def settling(house: StreamsTable, group: StreamsGroup, now_ms: int) -> Iterator[None]:
    """As `settle`, a step for each member."""
    members = group.state.members
    for member_id in dict.fromkeys([*group.sessions, *group.rebalances, *group.offsets]):
        if member_id not in members:
            group.forget(member_id)
    for member_id in members:
        if member_id not in group.sessions:
            touch(house, group, member_id, now_ms)
        follow(house, group, member_id, now_ms)
        yield


def wrote(house: StreamsTable, group: StreamsGroup, error: ErrorCode, now_ms: int) -> None:
    """A write about the group has ended. One that failed is taken back, and so are all after it."""
    if error is ErrorCode.NONE or house.table.groups.get(group.group_id) is not group:
        return
    group.assigning, group.checked_version, group.configured, group.endpoints = None, UNCHECKED, None, None
    if group.exists:
        settle(house, group, now_ms)
    else:
        house.table.drop_group(group, now_ms)
        house.table.restore_group(group.group_id, now_ms)


def put_out(house: StreamsTable, group: StreamsGroup, member_id: str, what: What, why: str, now_ms: int) -> None:
    if group.is_dead or member_id not in group.state.members:
        return
    house.table.note(f"group {group.group_id}: member {member_id} {why}, and is out")
    house.table.historian.because(group.group_id, member_id, what)
    draft = house.table.draft()
    house.remove(draft, group, member_id)
    house.write(draft, now_ms, then=partial(wrote, house, group))


def _session_passes(house: StreamsTable, group: StreamsGroup, member_id: str, now_ms: int) -> None:
    timeout_ms = house.session_timeout_ms(group.group_id)
    fence = partial(put_out, house, group, member_id)
    patience.session_passes(house.table, group, member_id, timeout_ms, fence, now_ms)


def _rebalance_passes(house: StreamsTable, group: StreamsGroup, member_id: str, epoch: int, now_ms: int) -> None:
    current = group.state.current(member_id)
    if member_id not in group.rebalances or current.state != UNREVOKED_TASKS or current.epoch != epoch:
        return
    fence = partial(put_out, house, group, member_id)
    patience.rebalance_passes(house.table, group, member_id, f"{_count(current.revoking)} tasks", fence, now_ms)


def _count(held: Held) -> int:
    return sum(1 for role in (held.active, held.standby, held.warmup) for _ in each_task(role))
