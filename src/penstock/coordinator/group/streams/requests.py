"""What is asked of a StreamsGroupHeartbeat before anything is looked up, what it says, and how one is refused."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.epochs import JOINS, LEAVES_FOR_NOW
from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, Tasks, each_task
from penstock.coordinator.group.streams.group import Offsets
from penstock.coordinator.group.streams.records import any_pairs
from penstock.coordinator.group.streams.topology import check
from penstock.coordinator.group.streams.values import InternalTopic, Member, Topology, topology_of
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from penstock.protocol.value import Value

Request = StreamsGroupHeartbeatRequest
Response = StreamsGroupHeartbeatResponse

MOST_BYTES: Final = 32_767
"""Of what a member is called: the keys of records hold no more."""
_TEXTS: Final = (
    ("MemberId", "member_id"),
    ("GroupId", "group_id"),
    ("InstanceId", "instance_id"),
    ("RackId", "rack_id"),
)
_TASKS: Final = (("ActiveTasks", "active_tasks"), ("StandbyTasks", "standby_tasks"), ("WarmupTasks", "warmup_tasks"))

# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE


class Heard(Value):
    """What a member is answered, and the topics that are to be created for it first."""

    response: Response
    missing: tuple[InternalTopic, ...] = ()


def check_request(request: Request) -> None:
    """Raises KafkaError."""
    for name, attribute in _TEXTS:
        text = getattr(request, attribute)
        if text is not None and not text.strip():
            raise invalid(f"{name} is empty")
        if len((text or "").encode()) > MOST_BYTES:
            raise invalid(f"{name} has more than {MOST_BYTES:,} bytes")
    if request.member_epoch == JOINS:
        _check_first(request)
    elif request.topology is not None:
        raise invalid("Topology is only to be told where a member joins")
    if request.member_epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise invalid("InstanceId is null, and only static members come back")
    if request.member_epoch < LEAVES_FOR_NOW:
        raise invalid(f"MemberEpoch is {request.member_epoch}")
    told = [getattr(request, attribute) is not None for _, attribute in _TASKS]
    if any(told) and not all(told):
        raise invalid("a member says of all kinds of tasks what it has, or of none")


def _check_first(request: Request) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs is missing, where a member joins")
    for name, attribute in _TASKS:
        if getattr(request, attribute):
            raise invalid(f"{name} is not empty, where a member joins")
    if request.topology is None:
        raise invalid("Topology is missing, where a member joins")


def invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


# -- what it says -----------------------------------------------------------------------------------------------------


def topology_said_by(request: Request) -> Topology | None:
    """Raises KafkaError."""
    if request.topology is None:
        return None
    topology = topology_of(request.topology)
    check(topology)
    return topology


def said_by(request: Request) -> Roles | None:
    """What the member says that it has; None if it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Roles(_tasks(active), _tasks(standby), _tasks(warmup))


def _tasks(said: Sequence[StreamsGroupHeartbeatRequestTaskIds]) -> Tasks:
    found: dict[str, tuple[int, ...]] = {}
    for one in said:
        partitions = tuple(sorted({*found.get(one.subtopology_id, ()), *one.partitions}))
        if partitions:
            found[one.subtopology_id] = partitions
    return found


def check_tasks(said: Roles | None, tasks: Mapping[str, int]) -> None:
    """Whether there are such; raises KafkaError. `tasks`: how many each subtopology has."""
    for role in () if said is None else (said.active, said.standby, said.warmup):
        for subtopology, partition in each_task(role):
            if subtopology not in tasks:
                raise invalid(f"the topology has no subtopology {subtopology}")
            if not 0 <= partition < tasks[subtopology]:
                raise invalid(f"subtopology {subtopology} has {tasks[subtopology]} tasks, and no task {partition}")


def offsets_said_by(request: Request, before: Offsets, tasks: Mapping[str, int]) -> Offsets:
    """What it leaves out stays as it was; of tasks that there are not, nothing is kept. Raises KafkaError."""
    reached, ends = request.task_offsets, request.task_end_offsets
    return Offsets(
        before.reached if reached is None else _offsets(reached, tasks),
        before.ends if ends is None else _offsets(ends, tasks),
    )


def _offsets(said: Sequence[TaskOffset], tasks: Mapping[str, int]) -> dict[Task, int]:
    found: dict[Task, int] = {}
    for one in said:
        task = one.subtopology_id, one.partition
        if task in found:
            raise invalid(f"two offsets are told of task {one.subtopology_id}_{one.partition}")
        if 0 <= one.partition < tasks.get(one.subtopology_id, 0):
            found[task] = one.offset
    return found


def member_said_by(request: Request, before: Member, caller: Caller) -> Member:
    """What a request leaves out stays as it was; who joins has the endpoint that it says, or none."""
    endpoint = request.user_endpoint
    kept = None if request.member_epoch == JOINS else before.endpoint
    return Member(
        _or(request.instance_id, before.instance_id),
        _or(request.rack_id, before.rack_id),
        caller.client_id,
        caller.client_host,
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        before.topology_epoch if request.topology is None else request.topology.epoch,
        before.process_id if request.process_id is None else request.process_id,
        kept if endpoint is None else (endpoint.host, endpoint.port),
        before.tags if request.client_tags is None else any_pairs(request.client_tags),
    )


def _or(said: str | None, before: str | None) -> str | None:
    return before if said is None else said


# -- answers ----------------------------------------------------------------------------------------------------------


def refused(error: ErrorCode, why: str | None = None) -> Heard:
    return Heard(StreamsGroupHeartbeatResponse(error_code=error, error_message=why or None))


def when_written(heard: Heard, error: ErrorCode) -> Heard:
    return heard if error is _NONE else refused(error)
