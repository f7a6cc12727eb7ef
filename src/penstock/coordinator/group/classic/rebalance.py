"""How a group gets from one generation to the next.

| event | in state | what follows |
| --- | --- | --- |
| a member is new, changed, gone | Empty | PreparingRebalance; the initial delay runs, again while new members arrive |
| | Stable | PreparingRebalance; all are called back by REBALANCE_IN_PROGRESS in their heartbeats |
| | CompletingRebalance | the same, and the parked SyncGroups are answered REBALANCE_IN_PROGRESS at once |
| | PreparingRebalance | nothing new; perhaps all have joined now |
| all have joined, or rebalance timeout | PreparingRebalance | laggards go; CompletingRebalance, or Empty if all did |
| the leader's assignment is committed | CompletingRebalance | Stable (`membership.py`) |
| a member has not asked for its assignment for a rebalance timeout | CompletingRebalance, Stable | it goes; as above |
| no heartbeat for a session timeout | any | the member goes; as above |

Static members (KIP-345) do not go as laggards: they have their session timeout to come back.

Whoever lets a timeout pass is named when two thirds of it have.

Where thousands go, or are told, that is done for some at a time; the others follow by the group's timers.
"""

from collections import deque
from itertools import islice
from typing import Final

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.answers import join_error, sync_error
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.history import ALSO_LENGTH, Rebalance, named
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.records import GroupRecord
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import Continuation, nothing
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.requests.own_apis import What

SENT_ON_MS: Final = 1_000
"""How long at least what was parked with another coordinator has to come."""
SLICE_MS: Final = 1
"""Between some of very many members and the next ones."""

# -- phases -----------------------------------------------------------------------------------------------------------


def begin_or_go_on(table: GroupTable, group: ClassicGroup, cause: str, now_ms: int) -> None:
    """Called when members have changed: begins a rebalance, or sees if the one under way can go on."""
    if group.can_rebalance:
        begin(table, group, cause, now_ms)
    else:
        if group.rebalance is not None and len(group.rebalance.also) < ALSO_LENGTH:
            group.rebalance.also.append(cause)
        go_on(table, group, now_ms)


def begin(table: GroupTable, group: ClassicGroup, cause: str, now_ms: int) -> None:
    if group.state is GroupState.COMPLETING_REBALANCE:
        _dismiss_syncs(table, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    _stop_timers(group)
    interrupted = group.rebalance
    _end_history(table, group, "interrupted", now_ms)
    group.rebalance = Rebalance(now_ms, cause, group.generation)
    if interrupted is not None:
        group.rebalance.interrupts(interrupted)
    group.initial_delay = group.state is GroupState.EMPTY
    group.new_member_added = False
    group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
    if group.initial_delay:
        delay_ms = table.settings.initial_rebalance_delay_ms
        _delay_initial(table, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
    elif group.all_joined:
        _complete_join(table, group, now_ms)
    else:
        _wait_for_joins(table, group, now_ms)


def go_on(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    """End PreparingRebalance if no member is missing; the initial delay runs its course in any case."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined and not group.initial_delay:
        _complete_join(table, group, now_ms)


def fail_assignment(table: GroupTable, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
    """The leader's assignment could not be stored: all members try again."""
    _dismiss_syncs(table, group, error, now_ms)
    begin_or_go_on(table, group, f"the assignment could not be stored ({error.name})", now_ms)


def go_on_joining(table: GroupTable, group: ClassicGroup, cause: str, now_ms: int, *, is_first: bool) -> None:
    """Another coordinator waited for joins: the members that it had come here, too. No member is hurried."""
    group.rebalance = Rebalance(now_ms, cause, group.generation)
    group.initial_delay = is_first
    if is_first:
        delay_ms = max(table.settings.initial_rebalance_delay_ms, SENT_ON_MS)
        _delay_initial(table, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
    else:
        _wait_for_joins(table, group, now_ms)


def go_on_syncing(table: GroupTable, group: ClassicGroup, cause: str, now_ms: int) -> None:
    """Another coordinator has formed this generation; its leader has not assigned yet."""
    group.rebalance = Rebalance(now_ms, cause, group.generation - 1)
    group.unsynced = dict.fromkeys(group.members)
    _wait_for_syncs(table, group, now_ms)


def finish(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    _end_history(table, group, "stable", now_ms)


def _delay_initial(table: GroupTable, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
    group.join_timer = table.start_timer(_initial_delay_over, now_ms + delay_ms, table, group, delay_ms, remaining_ms)


def _initial_delay_over(table: GroupTable, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
    """Wait once more if members arrived meanwhile, but not beyond the rebalance timeout."""
    if group.new_member_added and remaining_ms > 0:
        group.new_member_added = False
        next_delay_ms = min(table.settings.initial_rebalance_delay_ms, remaining_ms)
        _delay_initial(table, group, next_delay_ms, max(remaining_ms - delay_ms, 0), now_ms)
    else:
        _complete_join(table, group, now_ms)


def _wait_for_joins(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    group.join_timer = table.start_timer(_name_absent, _patience_ends_ms(group, now_ms), table, group)


def _patience_ends_ms(group: ClassicGroup, now_ms: int) -> int:
    """Members have the rebalance timeout; when most of it has passed, those are named who are waited for."""
    if group.rebalance is not None:
        group.rebalance.until_ms = now_ms + group.rebalance_timeout_ms
    return now_ms + patience_ms(group.rebalance_timeout_ms)


def _name_absent(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    absent = [name for name, one in group.members.items() if one.join_token is None and one.instance_id is None]
    until_ms = _name(table, group, absent, "to join again", now_ms)
    group.join_timer = table.start_timer(_complete_join, until_ms, table, group)


def _name_unsynced(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    until_ms = _name(table, group, list(group.unsynced), "to ask for an assignment", now_ms)
    group.sync_timer = table.start_timer(_pending_sync_expired, until_ms, table, group)


def _name(table: GroupTable, group: ClassicGroup, member_ids: list[str], what: str, now_ms: int) -> int:
    """Until when they have time."""
    left_ms = group.rebalance_timeout_ms - patience_ms(group.rebalance_timeout_ms)
    until_ms = now_ms + left_ms if group.rebalance is None else group.rebalance.until_ms
    if member_ids and now_ms < until_ms:
        line = f"waits for {named(member_ids)} {what}, for {until_ms - now_ms} ms more"
        table.name(f"group {group.group_id}: {line}", now_ms)
    return until_ms


def _complete_join(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    """Form the next generation of the members that have joined, and tell them."""
    assert group.state is GroupState.PREPARING_REBALANCE
    assert group.rebalance is not None
    _stop_timers(group)
    group.initial_delay = False
    absent = (m for m in group.members.values() if m.join_token is None and m.instance_id is None)
    laggards = list(islice(absent, table.settings.members_at_once))
    for member in laggards:
        group.rebalance.removed.append(member.member_id)
        drop_member(table, group, member, What.REBALANCE_TIMEOUT)
    if len(laggards) == table.settings.members_at_once:
        group.join_timer = table.start_timer(_complete_join, now_ms + SLICE_MS, table, group)
        return
    if group.members and not group.elect_joined_leader():
        _wait_for_joins(table, group, now_ms)  # Only static members are left: their sessions end this wait.
        return
    group.next_generation(now_ms)
    group.rebalance.formed_ms = now_ms
    if not group.members:
        # Should this write fail, the log keeps the last generation, whose members expire after a restart.
        append_group(table, group, None, nothing, now_ms)
        _end_history(table, group, "empty", now_ms)
        return
    group.unsynced = dict.fromkeys(group.members)
    _wait_for_syncs(table, group, now_ms)
    _answer_joins(table, group, deque((one, one.join_token) for one in group.members.values()), now_ms)


def _answer_joins(
    table: GroupTable, group: ClassicGroup, joined: deque[tuple[Member, Token | None]], now_ms: int
) -> None:
    """Of a large group some at a time. If it rebalances meanwhile, the others have joined that already."""
    for _ in range(min(len(joined), table.settings.members_at_once)):
        member, token = joined.popleft()
        if token is not None and member.join_token is token:
            answer_join(table, group, member, join_answer(group, member), now_ms)
        elif group.members.get(member.member_id) is member:
            member.touch(table.timers, now_ms)  # a static one that has not rejoined
    if joined:
        group.join_timer = table.start_timer(_answer_joins, now_ms + SLICE_MS, table, group, joined)


def _wait_for_syncs(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    group.sync_timer = table.start_timer(_name_unsynced, _patience_ends_ms(group, now_ms), table, group)


def _pending_sync_expired(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    """Members that joined and then never asked for their assignment are gone."""
    absent = list(group.unsynced)
    if absent and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        begin(table, group, f"{named(absent)} did not ask for an assignment within the rebalance timeout", now_ms)
        _drop_unsynced(table, group, now_ms)


def _drop_unsynced(table: GroupTable, group: ClassicGroup, now_ms: int) -> None:
    """Some at a time; one that has joined the rebalance that this has begun stays."""
    for member_id in list(islice(group.unsynced, table.settings.members_at_once)):
        del group.unsynced[member_id]
        if group.members[member_id].join_token is None:
            drop_member(table, group, group.members[member_id], What.REBALANCE_TIMEOUT)
    if group.unsynced:
        group.sync_timer = table.start_timer(_drop_unsynced, now_ms + SLICE_MS, table, group)
    else:
        go_on(table, group, now_ms)


def _stop_timers(group: ClassicGroup) -> None:
    for timer in (group.join_timer, group.sync_timer):
        if timer is not None:
            timer.deadline_ms = None
    group.join_timer = group.sync_timer = None


def _dismiss_syncs(table: GroupTable, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
    for member in group.members.values():
        if member.sync_token is not None:
            answer_sync(table, member, sync_error(error), now_ms)


# -- members ----------------------------------------------------------------------------------------------------------


def add_member(
    table: GroupTable, group: ClassicGroup, member: Member, protocol_type: str, token: Token, now_ms: int
) -> None:
    """The JoinGroup waits. A member that is parked cannot heartbeat, so that wait has a limit."""
    group.said.count_in(table.said)
    group.add(member, protocol_type)
    group.park_join(member, token, now_ms)
    group.new_member_added = group.initial_delay  # More may arrive: the initial delay starts anew.
    member.on_session_expired(_session_passes, table, group, member)
    table.timers.set(member.session, now_ms + table.settings.new_member_join_timeout_ms)


def restore_member(
    table: GroupTable, group: ClassicGroup, member: Member, protocol_type: str, now_ms: int, *, is_new: bool
) -> None:
    """The member is from the log: its session starts now."""
    group.said.count_in(table.said)
    group.add(member, protocol_type)
    member.is_new = is_new
    member.on_session_expired(_session_passes, table, group, member)
    if is_new:
        table.timers.set(member.session, now_ms + table.settings.new_member_join_timeout_ms)
    else:
        member.touch(table.timers, now_ms)


def drop_member(table: GroupTable, group: ClassicGroup, member: Member, why: What) -> None:
    """Answers what it waits for. The caller sees to the rebalance."""
    table.historian.because(group.group_id, member.member_id, why, member.instance_id)
    member.end_session()
    table.reply(group.take_join(member), join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
    table.reply(member.take_sync(), sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member)
    table.commits_first.done((group.group_id, member.member_id))


def drop_pending(group: ClassicGroup, member_id: str) -> None:
    group.pending.pop(member_id).deadline_ms = None


def _session_passes(table: GroupTable, group: ClassicGroup, member: Member, now_ms: int) -> None:
    if member.waits and not member.is_new:
        member.touch(table.timers, now_ms)
    elif member.is_new or member.is_late:
        _end_session(table, group, member, now_ms)
    else:
        member.is_late = True
        passed_ms = patience_ms(member.session_timeout_ms)
        left_ms = member.session_timeout_ms - passed_ms
        table.timers.set(member.session, now_ms + left_ms)
        why = f"has sent no heartbeat for {passed_ms} ms, and is out in {left_ms} ms"
        table.name(f"group {group.group_id}: member {member.member_id} {why}", now_ms)


def _end_session(table: GroupTable, group: ClassicGroup, member: Member, now_ms: int) -> None:
    if member.is_new:
        cause = f"member {member.member_id} was given up while it waited to join"
    else:
        cause = f"member {member.member_id} sent no heartbeat for {member.session_timeout_ms} ms"
    drop_member(table, group, member, What.SESSION_TIMEOUT)
    begin_or_go_on(table, group, cause, now_ms)


# -- answers ----------------------------------------------------------------------------------------------------------


def join_answer(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """Only the leader learns the other members."""
    leads = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.member_list() if leads else [],
    )


def answer_join(
    table: GroupTable, group: ClassicGroup, member: Member, response: JoinGroupResponse, now_ms: int
) -> None:
    """The member's session then goes on by heartbeats."""
    token = group.take_join(member)
    if token is not None:
        table.reply(token, response)
        member.is_new = False
        member.touch(table.timers, now_ms)


def answer_sync(table: GroupTable, member: Member, response: object, now_ms: int) -> None:
    """The member's session then goes on by heartbeats."""
    token = member.take_sync()
    if token is not None:
        table.reply(token, response)
        member.touch(table.timers, now_ms)


def append_group(
    table: GroupTable,
    group: ClassicGroup,
    assignments: dict[str, bytes] | None,
    then: Continuation,
    now_ms: int,
    when_late: Continuation = nothing,
) -> None:
    """Without `assignments` members keep theirs."""
    record = GroupRecord(group.group_id, group.to_value(assignments))
    table.append([record], now_ms, then=then, when_late=when_late)


def _end_history(table: GroupTable, group: ClassicGroup, outcome: str, now_ms: int) -> None:
    rebalance, group.rebalance = group.rebalance, None
    if rebalance is None:
        return
    rebalance.ended_ms = now_ms
    rebalance.outcome = outcome
    rebalance.generation = group.generation if outcome != "interrupted" else -1
    rebalance.members = len(group.members)
    table.note(f"group {group.group_id}: {rebalance.describe()}")
