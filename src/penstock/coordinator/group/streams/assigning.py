"""The target of each member, worked out when the group's epoch is ahead of the assignment's, though not too often.

An empty group waits for more members first (`begin_delay`). While topics are missing everybody's target is nothing.
Where it may take long it is done in a thread (`Elsewhere`), and members go on with the targets that they have.
"""

from collections.abc import Callable
from functools import partial

from penstock.coordinator.group.consumer.elsewhere import Elsewhere
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.group.streams import timing
from penstock.coordinator.group.streams.assignors.registry import assignor, is_built_in, name_of
from penstock.coordinator.group.streams.assignors.spec import Spec, Targets, Worker
from penstock.coordinator.group.streams.assignors.tasks import NO_TASKS
from penstock.coordinator.group.streams.group import NO_OFFSETS, StreamsGroup
from penstock.coordinator.group.streams.records import ASSIGNMENT, TARGET
from penstock.coordinator.group.streams.table import StreamsTable, put
from penstock.coordinator.group.streams.topology import Configured
from penstock.coordinator.group.streams.values import Topology
from penstock.coordinator.machine import Draft


def is_early(house: StreamsTable, group: StreamsGroup, now_ms: int) -> bool:
    """Whether targets are to be worked out, and have to wait: for more members, or as the last ones are new."""
    assignment = group.state.assignment
    if assignment.epoch >= group.state.epoch:
        return False
    return group.is_delayed or assignment.wait_ms(house.assignment_interval_ms(group.group_id), now_ms) > 0


def due(house: StreamsTable, group: StreamsGroup, configured: Configured, now_ms: int) -> Spec | None:
    """What targets are to be worked out of; None if they are not to be, or not yet."""
    is_behind = group.state.assignment.epoch < group.state.epoch
    if not is_behind or group.assigning is not None or is_early(house, group, now_ms):
        return None
    return _spec(group, configured)


def is_long(house: StreamsTable, group: StreamsGroup, spec: Spec) -> bool:
    """An assignor of the operator's may take any time."""
    name = name_of(house.assignor_name(group.group_id), house.settings.assignors)
    return bool(spec.tasks) and (spec.size > house.settings.assigned_at_once or not is_built_in(name))


def assign(house: StreamsTable, draft: Draft[AnyRecord], group: StreamsGroup, spec: Spec, now_ms: int) -> None:
    """Only what does not take long (`is_long`)."""
    group.put_targets(draft, TARGET, _calculation(house, group, spec)())
    put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(group.state.epoch, now_ms))


def begin(draft: Draft[AnyRecord], group: StreamsGroup) -> None:
    """A member has to have an epoch, as one that sends 0 joins, also where its first target is not there yet."""
    if not group.state.assignment.epoch:
        put(draft, group.group_id, ASSIGNMENT, ONE, AssignmentEpoch(max(group.state.epoch - 1, 1), 0))


def begin_delay(house: StreamsTable, group: StreamsGroup, now_ms: int) -> None:
    delay_ms = house.initial_delay_ms(group.group_id)
    if delay_ms > 0 and not group.is_delayed:
        group.delay = house.table.start_timer(_delay_ends, now_ms + delay_ms, house, group)


def _delay_ends(house: StreamsTable, group: StreamsGroup, now_ms: int) -> None:
    """Members are told with their next heartbeats."""
    group.end_delay()
    configured = group.configured
    if group.is_dead or configured is None or not group.state.members:
        return
    spec = due(house, group, configured, now_ms)
    if spec is not None and is_long(house, group, spec):
        send(house, group, spec)
    elif spec is not None:
        draft = house.table.draft()
        assign(house, draft, group, spec, now_ms)
        house.write(draft, now_ms, then=partial(timing.wrote, house, group))


def send(house: StreamsTable, group: StreamsGroup, spec: Spec) -> None:
    """Have it worked out elsewhere."""
    instances = {member_id: member.instance_id for member_id, member in spec.members.items()}
    errand = Elsewhere(house, group, instances, partial(timing.wrote, house, group))
    errand.send(_calculation(house, group, spec))


def _calculation(house: StreamsTable, group: StreamsGroup, spec: Spec) -> Callable[[], Targets]:
    return partial(_work_out, house.assignor_name(group.group_id), house.settings.assignors, spec)


def _work_out(name: str | None, offered: tuple[str, ...], spec: Spec) -> Targets:
    """Raises KafkaError."""
    return assignor(name, offered)(spec) if spec.tasks else dict.fromkeys(spec.members, NO_TASKS)


def _spec(group: StreamsGroup, configured: Configured) -> Spec:
    state, topology = group.state, configured.topology
    workers: dict[str, Worker] = {}
    for member_id, member in state.members.items():
        offsets = group.offsets.get(member_id, NO_OFFSETS)
        workers[member_id] = Worker(
            member.instance_id,
            member.rack_id,
            member.process_id,
            dict(member.tags),
            state.target(member_id),
            offsets.reached,
            offsets.ends,
        )
    tasks = (configured.tasks or {}) if configured.is_ready else {}
    return Spec(workers, tasks, _stateful(topology), dict(state.group.assignment_configs))


def _stateful(topology: Topology | None) -> frozenset[str]:
    return frozenset(
        sub.subtopology_id for sub in (() if topology is None else topology.subtopologies) if sub.is_stateful
    )
