"""JoinGroup: who may join, under which id, and whether that calls for a rebalance.

A member that is known and joins again:

| state | same metadata | other metadata |
| --- | --- | --- |
| PreparingRebalance | parked | parked |
| CompletingRebalance | the present generation at once (it missed the answer) | a new rebalance |
| Stable, follower | the present generation at once | a new rebalance |
| Stable, leader | a new rebalance: it may know of more partitions | a new rebalance |

A newcomer without an id gets one: at once parked as a member, or from version 4 on first sent back with
MEMBER_ID_REQUIRED (KIP-394). A static instance that comes back takes its own place again (KIP-345).
"""

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic import rebalance
from penstock.coordinator.group.classic.answers import join_error, sync_error
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState, find_classic
from penstock.coordinator.group.classic.member import Caller, Member, Protocols, Said
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.requests.own_apis import What

REASON_LENGTH = 255
MOST_PROTOCOLS = 1_000
"""Which one all members know is found out in one turn of the loop."""


class Join:
    __slots__ = ("caller", "protocols", "rebalance_timeout_ms", "request", "token")

    def __init__(self, token: Token, request: JoinGroupRequest, caller: Caller) -> None:
        self.token = token
        self.request = request
        self.caller = caller
        self.protocols: Protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms if caller.api_version >= 1 else request.session_timeout_ms
        )

    @property
    def reason(self) -> str:
        """The client gives it (KIP-800)."""
        return f" (client: {self.request.reason[:REASON_LENGTH]})" if self.request.reason else ""

    def new_member(self, member_id: str) -> Member:
        request = self.request
        return Member(
            member_id,
            request.group_instance_id,
            self.caller,
            self.rebalance_timeout_ms,
            request.session_timeout_ms,
            self.protocols,
        )


def join_group(table: GroupTable, token: Token, request: JoinGroupRequest, caller: Caller, now_ms: int) -> None:
    join = Join(token, request, caller)
    error = check_request(table, request)
    group = find_classic(table.groups, request.group_id)
    if error is ErrorCode.NONE and group is None:
        error = _check_first(table, join, now_ms)
        if error is ErrorCode.NONE:
            group = ClassicGroup(request.group_id, now_ms)
            table.take_place(group, now_ms)
    if error is ErrorCode.NONE and group is not None:
        error = _check_group(table, group, join, now_ms)
    if error is not ErrorCode.NONE or group is None:
        table.reply(token, join_error(error, request.member_id))
    elif request.member_id:
        _join_known(table, group, join, now_ms)
    else:
        _join_unknown(table, group, join, now_ms)


# -- may it join? -----------------------------------------------------------------------------------------------------


def check_request(table: GroupTable, request: JoinGroupRequest) -> ErrorCode:
    """Whatever the group is."""
    settings = table.settings
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _check_first(table: GroupTable, join: Join, now_ms: int) -> ErrorCode:
    other = table.groups.get(join.request.group_id)  # of another kind
    if other is not None and other.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if other is not None and not other.may_expire:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if join.request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not join.request.protocol_type or not join.protocols:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not _may_say(table, Said(), join, None):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if other is not None and table.image.group(other.kind, other.group_id) is not None:
        table.make_way(other, now_ms)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def _check_group(table: GroupTable, group: ClassicGroup, join: Join, now_ms: int) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _has_room(table, group, join):
        _make_room(table, group, join, now_ms)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(join.request.protocol_type, join.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_room(table: GroupTable, group: ClassicGroup, join: Join) -> bool:
    """Whether group.max.size lets the member in, and what it says has room. Ids that were handed out count, but for the
    one that is used now.
    """
    member_id = join.request.member_id or group.static_ids.get(join.request.group_instance_id or "", "")
    if not _may_say(table, group.said, join, group.members.get(member_id)):
        return False
    promised = 0 if member_id else len(group.pending)
    if group.state is GroupState.EMPTY:
        return promised < table.settings.max_size
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Members that have not come back yet may never do so: first come, first served.
        is_in = member is not None and member.join_token is not None
        return is_in or group.joined + promised < table.settings.max_size
    return member is not None or len(group.members) + promised < table.settings.max_size


def _may_say(table: GroupTable, said: Said, join: Join, member: Member | None) -> bool:
    """All groups of a partition share what there is, but for a little that each has: strangers may have the rest."""
    more, settings = said.more(join.protocols, None if member is None else member.protocols), table.settings
    return (
        more <= 0 or table.said.total + more <= settings.said_bytes or said.size + more <= settings.said_bytes_of_group
    )


def _make_room(table: GroupTable, group: ClassicGroup, join: Join, now_ms: int) -> None:
    """The member finds no room: the rebalance is not to wait for it."""
    member_id = join.request.member_id
    if member_id in group.pending:
        rebalance.drop_pending(group, member_id)
    elif group.check_member(member_id, join.request.group_instance_id) is ErrorCode.NONE:
        rebalance.drop_member(table, group, group.members[member_id], What.PUT_OUT)
    else:
        return
    rebalance.go_on(table, group, now_ms)


# -- without an id ----------------------------------------------------------------------------------------------------


def _join_unknown(table: GroupTable, group: ClassicGroup, join: Join, now_ms: int) -> None:
    instance_id = join.request.group_instance_id
    if instance_id is not None:
        member_id = table.new_member_id(instance_id)
        if instance_id in group.static_ids:
            _replace_static(table, group, group.members[group.static_ids[instance_id]], member_id, join, now_ms)
        else:
            _add(table, group, member_id, join, now_ms)
        return
    member_id = table.new_member_id(join.caller.client_id)
    if join.caller.api_version >= 4:
        deadline_ms = now_ms + join.request.session_timeout_ms
        promise(table, group, member_id, deadline_ms)
        table.reply(join.token, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(table, group, member_id, join, now_ms)


def promise(table: GroupTable, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
    """A member is expected to join with this id until then."""
    group.pending[member_id] = table.start_timer(_pending_expired, deadline_ms, table, group, member_id)


def _pending_expired(table: GroupTable, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    del group.pending[member_id]
    rebalance.go_on(table, group, now_ms)


def _add(table: GroupTable, group: ClassicGroup, member_id: str, join: Join, now_ms: int) -> None:
    member = join.new_member(member_id)
    rebalance.add_member(table, group, member, join.request.protocol_type, join.token, now_ms)
    rebalance.begin_or_go_on(table, group, f"member {member_id} is new{join.reason}", now_ms)


# -- with an id -------------------------------------------------------------------------------------------------------


def _join_known(table: GroupTable, group: ClassicGroup, join: Join, now_ms: int) -> None:
    request = join.request
    member_id, instance_id = request.member_id, request.group_instance_id
    if member_id in group.pending and instance_id is None:
        rebalance.drop_pending(group, member_id)
        _add(table, group, member_id, join, now_ms)
        return
    error = group.check_member(member_id, instance_id)
    if error is not ErrorCode.NONE:
        table.reply(join.token, join_error(error, member_id))
        return
    member = group.members[member_id]
    cause = _cause_to_rebalance(group, member, join)
    if group.state is GroupState.PREPARING_REBALANCE:
        _park_changed(table, group, member, join, now_ms)
        rebalance.go_on(table, group, now_ms)
    elif cause:
        _park_changed(table, group, member, join, now_ms)
        rebalance.begin(table, group, cause, now_ms)
    else:
        member.heard(table.timers, now_ms)
        table.reply(join.token, rebalance.join_answer(group, member))


def _cause_to_rebalance(group: ClassicGroup, member: Member, join: Join) -> str:
    """Empty if the member only needs to hear of the present generation."""
    if member.protocols != join.protocols:
        return f"member {member.member_id} changed its metadata{join.reason}"
    if group.state is GroupState.STABLE and member.member_id == group.leader_id:
        return f"leader {member.member_id} joined again{join.reason}"
    return ""


def _park_changed(table: GroupTable, group: ClassicGroup, member: Member, join: Join, now_ms: int) -> None:
    """Take over the member's new metadata, and park its request."""
    earlier = group.take_join(member)
    table.reply(earlier, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    group.set_protocols(member, join.protocols)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    group.park_join(member, join.token, now_ms)
    if not member.is_new:
        member.touch(table.timers, now_ms)


# -- static members ---------------------------------------------------------------------------------------------------


def _replace_static(
    table: GroupTable, group: ClassicGroup, member: Member, member_id: str, join: Join, now_ms: int
) -> None:
    """A known instance is back without its id: the old id is fenced, its assignment and its place stay."""
    _fence(table, group, member, now_ms)
    group.rename_static_member(member, member_id)
    member.client_id, member.client_host = join.caller.client_id, join.caller.client_host
    _park_changed(table, group, member, join, now_ms)
    name = f"static member {join.request.group_instance_id}"
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id already.
        rebalance.begin(table, group, f"{name} came back while the group was being assigned{join.reason}", now_ms)
    elif group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        _store_replacement(table, group, member, join, now_ms)
    else:
        changes = " and changes the group's protocol" if group.state is GroupState.STABLE else ""
        cause = f"{name} came back{changes}{join.reason}"
        rebalance.begin_or_go_on(table, group, cause, now_ms)


def _fence(table: GroupTable, group: ClassicGroup, member: Member, now_ms: int) -> None:
    fenced = ErrorCode.FENCED_INSTANCE_ID
    table.reply(group.take_join(member), join_error(fenced, member.member_id))
    rebalance.answer_sync(table, member, sync_error(fenced), now_ms)


def _store_replacement(table: GroupTable, group: ClassicGroup, member: Member, join: Join, now_ms: int) -> None:
    """Persist the new id; the group stays as it is. A rebalance that begins meanwhile answers instead."""
    generation, before = group.generation, table.image.group(group.kind, group.group_id)

    def then(error: ErrorCode, now_ms: int) -> None:
        if member.join_token is not join.token or group.state is not GroupState.STABLE:
            return  # It was answered by what came between, or because this write was late.
        assert group.generation == generation
        if error is ErrorCode.NONE:
            assert before.leader is not None
            answer = _replacement_answer(group, member, join, before.leader)
        else:
            answer = join_error(group_write_error(error))
            group.take_back_static_member(member, before)
        rebalance.answer_join(table, group, member, answer, now_ms)

    rebalance.append_group(table, group, None, then, now_ms, when_late=then)


def _replacement_answer(group: ClassicGroup, member: Member, join: Join, old_leader: str) -> JoinGroupResponse:
    """From version 9 on a leader is told not to assign (KIP-814); before, that its old id leads: it follows then."""
    answer = rebalance.join_answer(group, member)
    if member.member_id == group.leader_id:
        if join.caller.api_version >= 9:
            answer.skip_assignment = True
        else:
            answer.leader = old_leader
            answer.members = []
    return answer
