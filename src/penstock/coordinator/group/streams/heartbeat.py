"""StreamsGroupHeartbeat: a member joins, goes on, or leaves, by the epoch that it sends.

| epoch sent | what it means |
| --- | --- |
| 0 | join, or join again under the same id |
| that of the member | go on |
| the one before it | the answer was lost, and is given again, if the member says that it has no more than it got |
| any other | FENCED_MEMBER_EPOCH |
| -1 | leave; a static member for good |
| -2 | a static member goes, and comes back: whoever brings its instance id takes its place, and its target |

What changes is written in one batch: the member, the topology, the group's epoch, targets, and what the member has from
now on. The answer goes out when that is committed, or, where nothing changes, when all that was decided before it is.
"""

from functools import partial

from penstock.coordinator.effects import Token
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.epochs import JOINS, LEAVES_FOR_NOW
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.streams import answers, assigning, leaving, timing
from penstock.coordinator.group.streams.assignors.spec import Spec
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.current import Wanted, reconciled
from penstock.coordinator.group.streams.group import NO_OFFSETS, Offsets, StreamsGroup
from penstock.coordinator.group.streams.records import CURRENT, MEMBER, TARGET, TOPOLOGY
from penstock.coordinator.group.streams.requests import (
    Heard,
    Request,
    check_request,
    check_tasks,
    invalid,
    member_said_by,
    offsets_said_by,
    refused,
    said_by,
    topology_said_by,
    when_written,
)
from penstock.coordinator.group.streams.table import StreamsTable, put, put_epoch, take_out
from penstock.coordinator.group.streams.topology import Configured, configure
from penstock.coordinator.group.streams.values import NEWCOMER, NO_TOPOLOGY, STABLE, Current, InternalTopic, Member
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

_NOBODY = Member()


class _Decided(Value):
    """What a heartbeat comes to, before it takes effect."""

    before: Current
    current: Current
    configured: Configured
    offsets: Offsets
    elsewhere: Spec | None
    """What targets are to be worked out of that take long."""
    is_first: bool
    """The group was empty."""
    has_moved: bool
    """Those that ask members for their state are to ask at another endpoint."""


def heartbeat(house: StreamsTable, token: Token, request: Request, caller: Caller, now_ms: int) -> None:
    """Answered with a `Heard`."""
    group = house.find(request.group_id)
    if group is not None and _goes_on(house, group, request, caller):
        timing.touch(house, group, request.member_id, now_ms)
        heard = Heard(answers.plain(house, group, request.member_id))
        house.write(house.table.draft(), now_ms, token=token, answer=partial(when_written, heard))
        return
    draft = house.table.draft()
    try:
        check_request(request)
        if request.member_epoch < JOINS:
            leaving.leave(house, token, request, now_ms)
            return
        group, heard = _take_part(house, draft, request, caller, now_ms)
    except KafkaError as error:
        draft.take_back()
        refusal = refused(error.code, error.message)
        house.write(house.table.draft(), now_ms, token=token, answer=partial(when_written, refusal))
        return
    then = partial(timing.wrote, house, group)
    house.write(draft, now_ms, then=then, token=token, answer=partial(when_written, heard))


def _goes_on(house: StreamsTable, group: StreamsGroup, request: Request, caller: Caller) -> bool:
    """Whether nothing is to be done but to note that the member lives: so it is with nearly all heartbeats."""
    state = group.state
    current = state.currents.get(request.member_id)
    if (
        current is None
        or current.epoch != request.member_epoch
        or current.state != STABLE
        or current.epoch != state.assignment.epoch
        or state.epoch != current.epoch
        or group.checked_version != house.topics.version
        or group.configured is None
        or not group.configured.is_ready
        or group.is_dead
        or group.shut_down_by
        or group.endpoint_epoch != request.endpoint_information_epoch
        or request.member_epoch <= JOINS
        or _says_something(request)
    ):
        return False
    member = state.members[request.member_id]
    return (
        member.client_id == caller.client_id
        and member.client_host == caller.client_host
        and request.instance_id in (None, member.instance_id)
        and not answers.needs_description(state, caller.api_version)
        and state.group.assignment_configs == house.assignment_configs(group.group_id)
        and not answers.statuses(house, group, request.member_id, caller.api_version, is_early=False)
    )


def _says_something(request: Request) -> bool:
    said = (
        request.topology,
        request.active_tasks,
        request.standby_tasks,
        request.warmup_tasks,
        request.rack_id,
        request.process_id,
        request.user_endpoint,
        request.client_tags,
        request.task_offsets,
        request.task_end_offsets,
    )
    return request.rebalance_timeout_ms != -1 or request.shutdown_application or any(one is not None for one in said)


# -- to take part -----------------------------------------------------------------------------------------------------


def _take_part(
    house: StreamsTable, draft: Draft[AnyRecord], request: Request, caller: Caller, now_ms: int
) -> tuple[StreamsGroup, Heard]:
    """Raises KafkaError; the caller takes the draft back."""
    group, member_id = _group_for(house, draft, request), request.member_id
    _check_room(house, group, request)
    decided = _decide(house, draft, group, request, caller, now_ms)
    # From here on nothing is refused.
    group.configured, group.checked_version = decided.configured, house.topics.version
    if house.table.groups.get(group.group_id) is not group:
        house.table.take_place(group, now_ms)
        timing.settle(house, group, now_ms)
    if decided.offsets is not NO_OFFSETS:
        group.offsets[member_id] = decided.offsets
    if decided.is_first:
        assigning.begin_delay(house, group, now_ms)
    if decided.elsewhere is not None:
        assigning.send(house, group, decided.elsewhere)
    timing.touch(house, group, member_id, now_ms)
    timing.follow(house, group, member_id, now_ms)
    if len(group.sessions) > len(group.state.members):
        timing.settle(house, group, now_ms)  # a static member's place was taken
    if decided.has_moved:
        group.endpoint_epoch += 1
    if request.shutdown_application:
        leaving.shut_down(house, group, member_id)
    is_early = assigning.is_early(house, group, now_ms)
    statuses = answers.statuses(house, group, member_id, caller.api_version, is_early=is_early)
    response = answers.whole(house, group, request, decided.before, decided.current, statuses)
    response.topology_description_required = answers.needs_description(group.state, caller.api_version)
    return group, Heard(response, _to_be_created(group, member_id, decided.configured))


def _to_be_created(group: StreamsGroup, member_id: str, configured: Configured) -> tuple[InternalTopic, ...]:
    """As this member. One that came with an older topology has named other topics: what somebody else named is not
    created with its rights.
    """
    state = group.state
    is_its_own = state.members[member_id].topology_epoch == state.topology_epoch
    return configured.missing if is_its_own else ()


def _decide(
    house: StreamsTable, draft: Draft[AnyRecord], group: StreamsGroup, request: Request, caller: Caller, now_ms: int
) -> _Decided:
    member_id, said = request.member_id, said_by(request)
    is_first = not group.state.members
    before = _admitted(draft, group, request)
    former = group.state.members.get(member_id, _NOBODY)
    member = member_said_by(request, former, caller)
    if member != former:
        put(draft, group.group_id, MEMBER, member_id, member)
    _put_topology(draft, group, request)
    configured = _configured(house, group)
    if configured.is_ready:
        check_tasks(said, configured.tasks or {})
    offsets = offsets_said_by(request, group.offsets.get(member_id, NO_OFFSETS), configured.tasks or {})
    _next_epoch(house, draft, group, configured, is_new=_is_another(former, member))
    spec = None
    if not (is_first and house.initial_delay_ms(group.group_id)):
        spec = assigning.due(house, group, configured, now_ms)
    is_long = spec is not None and assigning.is_long(house, group, spec)
    if spec is not None and not is_long:
        assigning.assign(house, draft, group, spec, now_ms)
    assigning.begin(draft, group)
    current = _reconcile(draft, group, member_id, said)
    has_moved = member.endpoint != former.endpoint or (
        member.endpoint is not None and before.assigned.roles != current.assigned.roles
    )
    return _Decided(before, current, configured, offsets, spec if is_long else None, is_first, has_moved)


def _group_for(house: StreamsTable, draft: Draft[AnyRecord], request: Request) -> StreamsGroup:
    """A new one where a member joins, also in the place of an empty one of another kind. Raises KafkaError."""
    group_id = request.group_id
    other = house.table.groups.get(group_id)
    if other is not None and other.is_dead:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id} is being deleted")
    if isinstance(other, StreamsGroup):
        return other
    if request.member_epoch != JOINS:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no streams group {group_id}")
    if other is not None:
        house.make_room(draft, other, "streams")
    return house.new_group(group_id)


def _check_room(house: StreamsTable, group: StreamsGroup, request: Request) -> None:
    """Raises KafkaError(GROUP_MAX_SIZE_REACHED)."""
    state, most = group.state, house.settings.max_size
    is_known = request.member_id in state.members or request.instance_id in state.static_ids
    if request.member_epoch == JOINS and not is_known and len(state.members) >= most:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group.streams.max.size={most} lets no more members in")


def _admitted(draft: Draft[AnyRecord], group: StreamsGroup, request: Request) -> Current:
    """What the member has before this heartbeat; a static one that was away has its place under its new id."""
    state, member_id, instance_id = group.state, request.member_id, request.instance_id
    is_joining = request.member_epoch == JOINS
    if instance_id is not None:
        holder = state.static_ids.get(instance_id)
        if is_joining and holder is not None:
            return _take_over(draft, group, holder, request)
        if not is_joining:
            leaving.check_instance(holder, member_id, instance_id)
    if member_id not in state.members:
        if is_joining:
            return NEWCOMER
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {group.group_id}")
    current = state.current(member_id)
    _check_epoch(current, request)
    return current


def _take_over(draft: Draft[AnyRecord], group: StreamsGroup, holder: str, request: Request) -> Current:
    """A static member has its place, its target too, under its new id. Raises KafkaError."""
    state, group_id, member_id = group.state, group.group_id, request.member_id
    member, target, current = state.members[holder], state.target(holder), state.current(holder)
    if current.epoch != LEAVES_FOR_NOW:
        why = f"the instance {request.instance_id} is in use by {holder}"
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, why)
    take_out(draft, group_id, holder)
    taken = current.replace(epoch=JOINS, previous_epoch=JOINS)
    put(draft, group_id, MEMBER, member_id, member)
    put(draft, group_id, TARGET, member_id, target)
    put(draft, group_id, CURRENT, member_id, taken)
    return taken


def _check_epoch(current: Current, request: Request) -> None:
    sent, known = request.member_epoch, current.epoch
    if sent in (JOINS, known):
        return
    if sent == current.previous_epoch and sent < known and _is_within(said_by(request), current.assigned.roles):
        return  # the answer with the newer epoch was lost
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, f"epoch {sent} is not {known}: give up all tasks, and join again")


def _is_within(said: Roles | None, assigned: Roles) -> bool:
    if said is None:
        return False
    pairs = ((said.active, assigned.active), (said.standby, assigned.standby), (said.warmup, assigned.warmup))
    return all(
        frozenset(partitions) <= frozenset(given.get(subtopology, ()))
        for told, given in pairs
        for subtopology, partitions in told.items()
    )


def _put_topology(draft: Draft[AnyRecord], group: StreamsGroup, request: Request) -> None:
    """The first one counts. Who comes with an older one is told so; with another one, refused. Raises KafkaError."""
    topology, known = topology_said_by(request), group.state.topology
    if known is None and topology is None:
        why = "the group has no topology: give up all tasks, and join again"
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, why)
    if topology is None or (known is not None and known.epoch > topology.epoch):
        return
    if known is None:
        put(draft, group.group_id, TOPOLOGY, ONE, topology)
    elif known != topology:
        raise invalid("the topology is another one than the group's, which stays: use another application.id")


def _configured(house: StreamsTable, group: StreamsGroup) -> Configured:
    """Raises KafkaError."""
    known, topology = group.configured, group.state.topology
    if known is not None and group.checked_version == house.topics.version:
        return known
    assert topology is not None
    return configure(topology, house.topics.partition_count)


def _is_another(former: Member, member: Member) -> bool:
    """Whether targets are to be worked out anew. A static member may come back from elsewhere."""
    if member.instance_id is None:
        return member != former

    def wanted(one: Member) -> object:
        return one.topology_epoch, one.rack_id, one.tags, one.process_id

    return former.instance_id is None or wanted(member) != wanted(former)


def _next_epoch(
    house: StreamsTable, draft: Draft[AnyRecord], group: StreamsGroup, configured: Configured, *, is_new: bool
) -> None:
    """If the members, the topics, the topology or what an assignor is told call for one."""
    state, known = group.state, group.state.group
    topology, metadata_hash = state.topology, known.metadata_hash
    if group.configured is not configured and topology is not None:
        metadata_hash = house.topics.hash_of(topology.required_topics, metadata_hash)
    said = known.replace(
        metadata_hash=metadata_hash,
        validated_topology_epoch=state.topology_epoch if configured.is_ready else NO_TOPOLOGY,
        assignment_configs=house.assignment_configs(group.group_id),
    )
    if is_new or said != known:
        put_epoch(draft, group, said)


def _reconcile(draft: Draft[AnyRecord], group: StreamsGroup, member_id: str, said: Roles | None) -> Current:
    """Raises KafkaError."""
    state = group.state
    current, epoch = state.current(member_id), state.assignment.epoch
    if not current.is_reconciled_to(epoch):
        wanted = Wanted(
            epoch, state.target(member_id), state.active_process, state.standby_processes, state.warmup_processes
        )
        following = reconciled(current, state.members[member_id].process_id, wanted, said)
        if following != current:
            put(draft, group.group_id, CURRENT, member_id, following)
            return following
    return current
