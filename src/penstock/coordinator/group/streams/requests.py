"""What is asked of a StreamsGroupHeartbeat before anything is looked up, what it says, and how one is refused."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.epochs import JOINS, LEAVES_FOR_NOW
from penstock.coordinator.group.streams.assignors.tasks import Roles, Task, Tasks, each_task
from penstock.coordinator.group.streams.group import Offsets
from penstock.coordinator.group.streams.records import any_pairs
from penstock.coordinator.group.streams.topology import MAX_TASKS, check, check_size
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
MOST_WORD_BYTES: Final = 1_024
"""Of what else it says of itself, which is kept for each member, and partly told to all others."""
MOST_TAGS: Final = 20
_TEXTS: Final = (
    ("MemberId", "member_id", MOST_BYTES),
    ("GroupId", "group_id", MOST_BYTES),
    ("InstanceId", "instance_id", MOST_BYTES),
    ("RackId", "rack_id", MOST_WORD_BYTES),
)
_TASKS: Final = (("ActiveTasks", "active_tasks"), ("StandbyTasks", "standby_tasks"), ("WarmupTasks", "warmup_tasks"))
_OFFSETS: Final = (("TaskOffsets", "task_offsets"), ("TaskEndOffsets", "task_end_offsets"))

# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE


class Heard(Value):
    """What a member is answered, and the topics that are to be created for it first."""

    response: Response
    missing: tuple[InternalTopic, ...] = ()


def check_request(request: Request) -> None:
    """Raises KafkaError."""
    for name, attribute, most in _TEXTS:
        text = getattr(request, attribute)
        if text is not None and not text.strip():
            raise invalid(f"{name} is empty")
        _check_length(name, text or "", most)
    _check_words(request)
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
    _check_tasks_are_few(request)


def _check_words(request: Request) -> None:
    tags = request.client_tags or ()
    if len(tags) > MOST_TAGS:
        raise invalid(f"{len(tags)} ClientTags are more than the {MOST_TAGS} that a member may have")
    for tag in tags:
        _check_length("a key of ClientTags", tag.key, MOST_WORD_BYTES)
        _check_length("a value of ClientTags", tag.value, MOST_WORD_BYTES)
    _check_length("ProcessId", request.process_id or "", MOST_WORD_BYTES)
    if request.user_endpoint is not None:
        _check_length("the host of UserEndpoint", request.user_endpoint.host, MOST_WORD_BYTES)


def _check_length(name: str, text: str, most: int) -> None:
    if len(text.encode()) > most:
        raise invalid(f"{name} has more than {most:,} bytes")


def _check_tasks_are_few(request: Request) -> None:
    for name, attribute in (*_TASKS, *_OFFSETS):
        if len(getattr(request, attribute) or ()) > MAX_TASKS:
            raise _too_many(name)
    for name, attribute in _TASKS:
        if sum(len(one.partitions) for one in getattr(request, attribute) or ()) > MAX_TASKS:
            raise _too_many(name)


def _too_many(name: str) -> KafkaError:
    return invalid(f"{name} has more tasks than the {MAX_TASKS} that a group may have")


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
    check_size(request.topology)
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
    found: dict[str, set[int]] = {}
    for one in said:
        if one.partitions:
            found.setdefault(one.subtopology_id, set()).update(one.partitions)
    return {subtopology: tuple(sorted(partitions)) for subtopology, partitions in found.items()}


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
