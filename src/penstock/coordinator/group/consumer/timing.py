"""The timers of a group's members: a session for each, one for each that is to give something up, and for each classic
member that is to come. Members that let them run out are put out.

Sessions and rebalances follow from the records as decided. A write that fails takes them back with the records
(`settle`).

| timer | begins | when it ends |
| --- | --- | --- |
| session | with each heartbeat | the member goes |
| rebalance | when the member is told to give something up, for as long as it asked for | it goes, if it still has to |
| call | when a classic member is told to join again, or has joined and is to sync | it goes |

Of each a part (`patience_ms`) comes first, after which the member is named.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from penstock.coordinator.effects import Token
from penstock.coordinator.group import patience
from penstock.coordinator.group.assigned_group import UNCHECKED, Wait
from penstock.coordinator.group.consumer import downgrade, fencing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.values import NEWCOMER, UNREVOKED_PARTITIONS, partitions_of
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.machine import Answer, nothing_to_say
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import What


def touch(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    timeout_ms = silence_ms(house, group, member_id)
    group.touch(house.table.timers, member_id, now_ms, timeout_ms, _session_passes, house)


def silence_ms(house: ConsumerTable, group: ConsumerGroup, member_id: str) -> int:
    """For how long a member may send nothing before it is named."""
    return patience_ms(_session_timeout_ms(house, group, member_id))


def _session_timeout_ms(house: ConsumerTable, group: ConsumerGroup, member_id: str) -> int:
    """A classic member says it itself."""
    member = group.state.members.get(member_id)
    if member is None or member.classic is None:
        return house.session_timeout_ms(group.group_id)
    timeout_ms: int = member.classic.session_timeout_ms
    return timeout_ms


def follow(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Begin or end the wait for what the member is to give up, as its record says."""
    current, member = group.state.current(member_id), group.state.members.get(member_id)
    wait = group.rebalances.get(member_id)
    is_classic = member is not None and member.classic is not None  # it is called, and to come by then
    if current.state != UNREVOKED_PARTITIONS or current.epoch < 0 or is_classic:
        group.stop_rebalance(member_id)
    elif wait is None or wait.epoch != current.epoch:
        group.stop_rebalance(member_id)
        timeout_ms = 0 if member is None else member.rebalance_timeout_ms
        fire = partial(_rebalance_passes, house, group, member_id, current.epoch)
        timer = house.table.start_timer(fire, now_ms + patience_ms(timeout_ms))
        group.rebalances[member_id] = Wait(timer, current.epoch, now_ms, now_ms + timeout_ms)


def call(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """A classic member is to come from now on within its rebalance timeout: to join, or to sync when it has joined."""
    group.stop_call(member_id)
    timeout_ms = group.state.members[member_id].rebalance_timeout_ms
    timer = house.table.start_timer(partial(_call_passes, house, group, member_id), now_ms + patience_ms(timeout_ms))
    group.calls[member_id] = Wait(timer, group.state.epoch, now_ms, now_ms + timeout_ms)


def call_if_not(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """It is told again, and has no more time than it had."""
    if member_id not in group.calls:
        call(house, group, member_id, now_ms)


def settle(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> None:
    """Each member has the timers that it is to have, and nobody else has any."""
    for _ in settling(house, group, now_ms):
        pass


def settling(house: ConsumerTable, group: ConsumerGroup, now_ms: int) -> Iterator[None]:
    """As `settle`, a step for each member."""
    members = group.state.members
    for member_id in list(group.sessions):
        if member_id not in members:
            group.stop_session(member_id)
    for member_id in list(group.rebalances):
        if member_id not in members:
            group.stop_rebalance(member_id)
    for member_id in list(group.calls):
        if member_id not in members or members[member_id].classic is None:
            group.stop_call(member_id)
    usual_ms, currents = patience_ms(house.session_timeout_ms(group.group_id)), group.state.currents
    timers = house.table.timers
    for member_id, member in members.items():
        if member_id not in group.sessions:
            timeout_ms = usual_ms if member.classic is None else silence_ms(house, group, member_id)
            group.touch(timers, member_id, now_ms, timeout_ms, _session_passes, house)
        if member_id in group.rebalances or currents.get(member_id, NEWCOMER).state == UNREVOKED_PARTITIONS:
            follow(house, group, member_id, now_ms)
        yield


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


def _session_passes(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    timeout_ms = _session_timeout_ms(house, group, member_id)
    fence = partial(_fence, house, group, member_id)
    patience.session_passes(house.table, group, member_id, timeout_ms, fence, now_ms)


def _rebalance_passes(house: ConsumerTable, group: ConsumerGroup, member_id: str, epoch: int, now_ms: int) -> None:
    current = group.state.current(member_id)
    if member_id not in group.rebalances or current.state != UNREVOKED_PARTITIONS or current.epoch != epoch:
        return
    what = f"{len(partitions_of(current.revoking))} partitions"
    fence = partial(_fence, house, group, member_id)
    patience.rebalance_passes(house.table, group, member_id, what, fence, now_ms)


def _call_passes(house: ConsumerTable, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    wait, member = group.calls.get(member_id), group.state.members.get(member_id)
    if wait is None or member is None or member.classic is None:
        group.stop_call(member_id)
    elif now_ms < wait.until_ms:
        timer = house.table.start_timer(wait.timer.fire, wait.until_ms, *wait.timer.of)
        group.calls[member_id] = wait.replace(timer=timer)
        why = f"is to join or to sync since {now_ms - wait.since_ms} ms"
        patience.name(house.table, group, member_id, why, wait.until_ms - now_ms, now_ms)
    else:
        group.stop_call(member_id)
        why = "has neither joined nor synced within its rebalance timeout"
        _fence(house, group, member_id, What.REBALANCE_TIMEOUT, why, now_ms)


def _fence(house: ConsumerTable, group: ConsumerGroup, member_id: str, what: What, why: str, now_ms: int) -> None:
    if group.is_dead or member_id not in group.state.members:
        return
    house.table.note(f"group {group.group_id}: member {member_id} {why}, and is out")
    put_out(house, group, {member_id: what}, f"member {member_id} {why}", now_ms)


def put_out(
    house: ConsumerTable,
    group: ConsumerGroup,
    going: Mapping[str, What],
    cause: str,
    now_ms: int,
    *,
    token: Token | None = None,
    answer: Answer = nothing_to_say,
) -> None:
    """Members go, all of them at once. A group in which only classic members are left is a classic one with that."""
    for member_id, what in going.items():
        house.table.historian.because(group.group_id, member_id, what)
    draft = house.table.draft()
    if downgrade.is_due(house, group, going):
        for member_id in going:
            fencing.take_out(draft, group, member_id)
        downgrade.downgrade(house, draft, group, group.state.epoch, cause, now_ms)
        then = partial(downgrade.wrote, house, group.group_id)
        house.write(draft, now_ms, then=then, token=token, answer=answer)
        downgrade.take_effect(house, group, now_ms)
    else:
        fencing.remove(house, draft, group, list(going))
        house.write(draft, now_ms, then=partial(wrote, house, group), token=token, answer=answer)
