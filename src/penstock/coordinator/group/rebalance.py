"""How a group gets from one generation to the next.

| event | in state | what follows |
| --- | --- | --- |
| a member is new, changed, gone | Empty | PreparingRebalance; the initial delay runs, again while new members arrive |
| | Stable | PreparingRebalance; all are called back by REBALANCE_IN_PROGRESS in their heartbeats |
| | CompletingRebalance | the same, and the parked SyncGroups are answered REBALANCE_IN_PROGRESS at once |
| | PreparingRebalance | nothing new; perhaps all have joined now |
| all have joined, or rebalance timeout | PreparingRebalance | laggards go; CompletingRebalance, or Empty if all did |
| the leader's assignment is committed | CompletingRebalance | Stable (sync.py) |
| someone has not asked for its assignment for a rebalance timeout | CompletingRebalance, Stable | it goes; as above |
| no heartbeat for a session timeout | any | the member goes; as above |

Static members (KIP-345) do not go as laggards: they have their session timeout to come back.
"""

from penstock.coordinator.group.answers import join_error, sync_error
from penstock.coordinator.group.effects import Rebalanced, Token
from penstock.coordinator.group.group import ClassicGroup, GroupState
from penstock.coordinator.group.history import ALSO_LENGTH, Rebalance
from penstock.coordinator.group.member import Member
from penstock.coordinator.group.table import GroupTable
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse


class Rebalancing:
    """Carries the groups of a table through their rebalances."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    # -- phases -------------------------------------------------------------------------------------------------------

    def begin_or_go_on(self, group: ClassicGroup, cause: str, now_ms: int) -> None:
        """Something about the members has changed: begin a rebalance, or see if the one under way can go on."""
        if group.can_rebalance:
            self.begin(group, cause, now_ms)
        else:
            if group.rebalance is not None and len(group.rebalance.also) < ALSO_LENGTH:
                group.rebalance.also.append(cause)
            self.go_on(group, now_ms)

    def begin(self, group: ClassicGroup, cause: str, now_ms: int) -> None:
        """Enter PreparingRebalance."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._dismiss_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._stop_timers(group)
        self._end_history(group, "interrupted", now_ms)
        group.rebalance = Rebalance(now_ms, cause, group.generation)
        group.initial_delay = group.state is GroupState.EMPTY
        group.new_member_added = False
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        if group.initial_delay:
            delay_ms = self._table.settings.initial_rebalance_delay_ms
            self._delay_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
        elif group.all_joined:
            self._complete_join(group, now_ms)
        else:
            self._wait_for_joins(group, now_ms)

    def go_on(self, group: ClassicGroup, now_ms: int) -> None:
        """End PreparingRebalance if nobody is missing; the initial delay runs its course whoever is there."""
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined and not group.initial_delay:
            self._complete_join(group, now_ms)

    def fail_assignment(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """The leader's assignment could not be stored: all try again."""
        self._dismiss_syncs(group, error, now_ms)
        self.begin_or_go_on(group, f"the assignment could not be stored ({error.name})", now_ms)

    def finish(self, group: ClassicGroup, now_ms: int) -> None:
        """The group is stable: remember how it came to be."""
        self._end_history(group, "stable", now_ms)

    def _delay_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
        group.join_timer = self._table.start_timer(
            self._initial_delay_over, now_ms + delay_ms, group, delay_ms, remaining_ms
        )

    def _initial_delay_over(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
        """Wait once more if somebody arrived meanwhile, but not beyond the rebalance timeout."""
        if group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            next_delay_ms = min(self._table.settings.initial_rebalance_delay_ms, remaining_ms)
            self._delay_initial(group, next_delay_ms, max(remaining_ms - delay_ms, 0), now_ms)
        else:
            self._complete_join(group, now_ms)

    def _wait_for_joins(self, group: ClassicGroup, now_ms: int) -> None:
        group.join_timer = self._table.start_timer(self._complete_join, now_ms + group.rebalance_timeout_ms, group)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        """Form the next generation of those who have joined, and tell them."""
        assert group.state is GroupState.PREPARING_REBALANCE
        self._stop_timers(group)
        group.initial_delay = False
        laggards = [m for m in group.members.values() if m.join_token is None and m.instance_id is None]
        for member in laggards:
            self._note_removed(group, member)
            self.drop_member(group, member)
        if group.members and not group.elect_joined_leader():
            self._wait_for_joins(group, now_ms)  # Only static members are left: their sessions end this wait.
            return
        group.next_generation(now_ms)
        if not group.members:
            self._end_history(group, "empty", now_ms)
            # Should this write fail, the log keeps the last generation, whose members would expire after a restart.
            self._table.append_group(group, None, lambda error, now_ms: None)
            return
        for member in group.members.values():
            group.unsynced[member.member_id] = None
            self.answer_join(group, member, self.join_answer(group, member), now_ms)
        timeout_ms = now_ms + group.rebalance_timeout_ms
        group.sync_timer = self._table.start_timer(self._pending_sync_expired, timeout_ms, group)

    def _pending_sync_expired(self, group: ClassicGroup, now_ms: int) -> None:
        """Whoever joined and then never asked for its assignment is gone."""
        absent = [group.members[member_id] for member_id in group.unsynced]
        if not absent or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        names = ", ".join(member.member_id for member in absent)
        for member in absent:
            self.drop_member(group, member)
        self.begin(group, f"{names} did not ask for an assignment within the rebalance timeout", now_ms)

    def _stop_timers(self, group: ClassicGroup) -> None:
        for timer in (group.join_timer, group.sync_timer):
            if timer is not None:
                timer.deadline_ms = None
        group.join_timer = group.sync_timer = None

    def _dismiss_syncs(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """Take all assignments back and answer the parked SyncGroups with `error`."""
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                self.answer_sync(member, sync_error(error), now_ms)

    # -- members ------------------------------------------------------------------------------------------------------

    def add_member(self, group: ClassicGroup, member: Member, protocol_type: str, token: Token, now_ms: int) -> None:
        """Take a new member in; its JoinGroup waits. Nobody who parks there can heartbeat, so that wait has a limit."""
        group.add(member, protocol_type)
        group.park_join(member, token)
        group.new_member_added = group.initial_delay  # More may arrive: the initial delay starts anew.
        self._begin_session(group, member)
        self._table.timers.set(member.session, now_ms + self._table.settings.new_member_join_timeout_ms)

    def restore_member(self, group: ClassicGroup, member: Member, protocol_type: str, now_ms: int) -> None:
        """Take in a member that was read from the log: its session starts now."""
        group.add(member, protocol_type)
        member.is_new = False
        self._begin_session(group, member)
        self.touch(member, now_ms)

    def touch(self, member: Member, now_ms: int) -> None:
        """The member has shown that it lives."""
        session, deadline_ms = member.session, now_ms + member.session_timeout_ms
        if session.queued_ms is not None and session.queued_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
        else:
            self._table.timers.set(session, deadline_ms)

    def drop_member(self, group: ClassicGroup, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Take a member out, and answer what it waits for. The caller sees to the rebalance."""
        member.session.deadline_ms = None
        self._table.reply(group.take_join(member), join_error(error, member.member_id))
        sync_token, member.sync_token = member.sync_token, None
        self._table.reply(sync_token, sync_error(error))
        group.remove(member)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Take back a member id that was handed out and not used."""
        group.pending.pop(member_id).deadline_ms = None

    def _begin_session(self, group: ClassicGroup, member: Member) -> None:
        def expire(now_ms: int) -> None:
            self._session_expired(group, member, now_ms)

        member.on_session_expired(expire)

    def _session_expired(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        if member.waits and not member.is_new:
            self.touch(member, now_ms)
            return
        if member.is_new:
            cause = f"member {member.member_id} was given up while it waited to join"
        else:
            cause = f"member {member.member_id} sent no heartbeat for {member.session_timeout_ms} ms"
        self.drop_member(group, member)
        self.begin_or_go_on(group, cause, now_ms)

    # -- answers ------------------------------------------------------------------------------------------------------

    def join_answer(self, group: ClassicGroup, member: Member) -> JoinGroupResponse:
        """Tell a member of the present generation; only the leader learns who the others are."""
        leads = member.member_id == group.leader_id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.member_list() if leads else [],
        )

    def answer_join(self, group: ClassicGroup, member: Member, response: JoinGroupResponse, now_ms: int) -> None:
        """Answer the parked JoinGroup of a member, whose session then goes on by heartbeats."""
        token = group.take_join(member)
        if token is not None:
            self._table.reply(token, response)
            member.is_new = False
            self.touch(member, now_ms)

    def answer_sync(self, member: Member, response: object, now_ms: int) -> None:
        """Answer the parked SyncGroup of a member, whose session then goes on by heartbeats."""
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self._table.reply(token, response)
            self.touch(member, now_ms)

    def fence_sync(self, member: Member, now_ms: int) -> None:
        """The member id of this parked SyncGroup is another instance's by now (KIP-345)."""
        self.answer_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID), now_ms)

    # -- history ------------------------------------------------------------------------------------------------------

    def _note_removed(self, group: ClassicGroup, member: Member) -> None:
        assert group.rebalance is not None
        group.rebalance.removed.append(member.member_id)

    def _end_history(self, group: ClassicGroup, outcome: str, now_ms: int) -> None:
        rebalance, group.rebalance = group.rebalance, None
        if rebalance is None:
            return
        rebalance.ended_ms = now_ms
        rebalance.outcome = outcome
        rebalance.generation = group.generation if outcome != "interrupted" else -1
        rebalance.members = len(group.members)
        group.history.append(rebalance)
        self._table.effects.append(Rebalanced(group.group_id, rebalance))
