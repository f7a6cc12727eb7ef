"""What a member of a streams group is told.

| status | what it says |
| --- | --- |
| STALE_TOPOLOGY | the group has a newer topology than the member |
| MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS | no task can run (`topology.py`) |
| SHUTDOWN_APPLICATION | some member wants all of them to end |
| ASSIGNMENT_DELAYED | the next assignment waits for more members, or as the last one is new |
| MISSING_CLIENT_TAGS | the member has no such tags as standby tasks are spread by |
"""

from typing import Final

from penstock.coordinator.group.epochs import JOINS
from penstock.coordinator.group.streams.assignors.tasks import Tasks
from penstock.coordinator.group.streams.endpoints import endpoints
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.requests import Request, Response, said_by
from penstock.coordinator.group.streams.state import StreamsView
from penstock.coordinator.group.streams.table import StreamsTable
from penstock.coordinator.group.streams.values import Current
from penstock.protocol.messages.streams_group_heartbeat import Status, StreamsGroupHeartbeatResponseTaskIds

STALE_TOPOLOGY: Final = 0
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
NEW_FIELDS_SINCE: Final = 1
"""The version of the heartbeat that knows of missing tags and of descriptions."""


def statuses(
    house: StreamsTable, group: StreamsGroup, member_id: str, api_version: int, *, is_early: bool
) -> list[Status]:
    state, found = group.state, list[tuple[int, str]]()
    member, configured = state.members[member_id], group.configured
    if member.topology_epoch < state.topology_epoch:
        detail = (
            f"The member has the topology of epoch {member.topology_epoch}, the group that of {state.topology_epoch}"
        )
        found.append((STALE_TOPOLOGY, detail))
    if is_early:
        found.append((ASSIGNMENT_DELAYED, "The next assignment waits: for more members, or as the last one is new"))
    if configured is not None and configured.status is not None:
        found.append((configured.status, configured.detail))
    if group.shut_down_by:
        found.append((SHUTDOWN_APPLICATION, f"Member {group.shut_down_by} wants the whole application to end"))
    missing = frozenset(house.tags(group.group_id)) - frozenset(key for key, _ in member.tags)
    if missing and api_version >= NEW_FIELDS_SINCE:
        named = ", ".join(f"client.tag.{tag}" for tag in sorted(missing))
        found.append(
            (MISSING_CLIENT_TAGS, f"Standby tasks are spread by tags that the member does not have: set {named}")
        )
    return [Status(status_code=code, status_detail=detail) for code, detail in found]


def needs_description(state: StreamsView, api_version: int) -> bool:
    """Whether a member is to send what `--describe --topology` shows: nobody has, of this topology."""
    group, epoch = state.group, state.topology_epoch
    return api_version >= NEW_FIELDS_SINCE and epoch not in (
        group.stored_description_epoch,
        group.failed_description_epoch,
    )


def plain(house: StreamsTable, group: StreamsGroup, member_id: str) -> Response:
    """Nothing is new."""
    group_id = group.group_id
    return Response(
        member_id=member_id,
        member_epoch=group.state.current(member_id).epoch,
        heartbeat_interval_ms=house.heartbeat_interval_ms(group_id),
        task_offset_interval_ms=house.task_offset_interval_ms(group_id),
        acceptable_recovery_lag=house.recovery_lag(group_id),
        endpoint_information_epoch=group.endpoint_epoch,
        status=[],
    )


def whole(
    house: StreamsTable, group: StreamsGroup, request: Request, before: Current, current: Current, told: list[Status]
) -> Response:
    """With the tasks of who joins, has not heard of all, has got others, or says that it has others."""
    response = plain(house, group, request.member_id)
    response.status = told
    roles, said = current.assigned.roles, said_by(request)
    has_heard_all = request.member_epoch == before.epoch != JOINS
    if not has_heard_all or before.assigned.roles != roles or (said is not None and said != roles):
        response.active_tasks = _tasks(roles.active)
        response.standby_tasks = _tasks(roles.standby)
        response.warmup_tasks = _tasks(roles.warmup)
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoints(group, house.topics)
    return response


def _tasks(tasks: Tasks) -> list[StreamsGroupHeartbeatResponseTaskIds]:
    return [
        StreamsGroupHeartbeatResponseTaskIds(subtopology_id=name, partitions=list(partitions))
        for name, partitions in tasks.items()
    ]
