"""What the records of a streams group add up to, and where it is found fast: who runs a task, and as what."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.epochs import EMPTY, EpochView
from penstock.coordinator.group.parts import ONE, DecidedParts, PartRecord
from penstock.coordinator.group.streams.assignors.tasks import NO_TASKS, Roles, Task, each_task
from penstock.coordinator.group.streams.description import DESCRIPTION, DescriptionValue
from penstock.coordinator.group.streams.records import (
    ASSIGNMENT,
    CODEC,
    CURRENT,
    GROUP,
    KEYS,
    MEMBER,
    TARGET,
    TOPOLOGY,
)
from penstock.coordinator.group.streams.values import NEWCOMER, NO_TOPOLOGY, Current, GroupEpoch, Held, Member, Topology

NOT_READY: Final = "NotReady"
NOBODY: Final = frozenset[str]()


class StreamsRecord(PartRecord):
    """`name` is the id of a member."""

    kind = "streams"
    keys = KEYS
    decoded = staticmethod(CODEC.decoded)

    def encode(self) -> KeyValue:
        return CODEC.encoded(self.key, self.group_id, self.name, self.value)

    @staticmethod
    def new_state() -> "StreamsState":
        return StreamsState()


class StreamsView(EpochView[GroupEpoch, Member, Roles, Current]):
    """What the records say, and no more."""

    __slots__ = ()

    keys = KEYS
    group_key, assignment_key, member_key, target_key, current_key = GROUP, ASSIGNMENT, MEMBER, TARGET, CURRENT
    first_epoch = GroupEpoch(1, 0)
    newcomer = NEWCOMER
    no_target = NO_TASKS

    @property
    def topology(self) -> Topology | None:
        found: Topology | None = self._parts[TOPOLOGY].get(ONE)
        return found

    @property
    def description(self) -> DescriptionValue | None:
        """Of the topology that the group has."""
        found: DescriptionValue | None = self._parts[DESCRIPTION].get(ONE)
        return found if found is not None and found.topology_epoch == self.topology_epoch else None

    @property
    def topology_epoch(self) -> int:
        topology = self.topology
        return NO_TOPOLOGY if topology is None else topology.epoch

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        topology = self.topology
        if topology is None or topology.epoch != self.group.validated_topology_epoch:
            return NOT_READY
        return super().state


class _Runners:
    """The members that run each task in one role, or have not said yet that they have given it up."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[Task, dict[str, None]] = {}

    def add(self, member_id: str, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._of.setdefault(task, {})[member_id] = None

    def remove(self, member_id: str, tasks: Iterable[Task]) -> None:
        for task in tasks:
            members = self._of.get(task)
            if members is not None:
                members.pop(member_id, None)
                if not members:
                    del self._of[task]

    def of(self, task: Task) -> Collection[str]:
        return self._of.get(task, ())


class StreamsState(StreamsView, DecidedParts):
    """A group as it was decided."""

    __slots__ = ("_active", "_sources", "_standby", "_warmup", "static_ids")

    committed: StreamsView

    def __init__(self) -> None:
        DecidedParts.__init__(self, StreamsView())
        self._active, self._standby, self._warmup = _Runners(), _Runners(), _Runners()
        self._sources: dict[str, str] = {}
        """Topic to the subtopology that reads it."""
        self.static_ids: dict[str, str] = {}
        """Group instance id to member id."""

    def put(self, key: int, name: str, value: Any) -> Any:
        before = super().put(key, name, value)
        if key == CURRENT:
            self._index_tasks(name, before, value)
        elif key == MEMBER:
            self._index_instance(name, before, value)
        elif key == TOPOLOGY:
            self._sources = {} if value is None else dict(value.source_of)
        return before

    def _index_tasks(self, member_id: str, before: Current | None, now: Current | None) -> None:
        for current, change in ((before, _Runners.remove), (now, _Runners.add)):
            if current is not None:
                change(self._active, member_id, _both(current, "active"))
                change(self._standby, member_id, _both(current, "standby"))
                change(self._warmup, member_id, _both(current, "warmup"))

    def _index_instance(self, member_id: str, before: Member | None, now: Member | None) -> None:
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member_id:
            del self.static_ids[instance_id]
        if now is not None and now.instance_id is not None:
            self.static_ids[now.instance_id] = member_id

    # -- who runs what ------------------------------------------------------------------------------------------------

    def active_runner(self, task: Task) -> str:
        """The member; empty for nobody."""
        return next(iter(self._active.of(task)), "")

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """The process whose member has it, or has not said yet that it has given it up."""
        runners = self._active.of((subtopology, partition))
        return next(self._processes(runners)) if runners else None

    def standby_processes(self, subtopology: str, partition: int) -> frozenset[str]:
        runners = self._standby.of((subtopology, partition))
        return frozenset(self._processes(runners)) if runners else NOBODY

    def warmup_processes(self, subtopology: str, partition: int) -> frozenset[str]:
        runners = self._warmup.of((subtopology, partition))
        return frozenset(self._processes(runners)) if runners else NOBODY

    def _processes(self, member_ids: Iterable[str]) -> Iterator[str]:
        members = self.members
        return (members[one].process_id if one in members else "" for one in member_ids)

    # -- what is read -------------------------------------------------------------------------------------------------

    def reads(self, topic: str) -> bool:
        """No empty group reads anything: so its offsets may expire."""
        return bool(self.members) and topic in self._sources

    def subtopology_of(self, topic: str) -> str | None:
        return self._sources.get(topic)


def _both(current: Current, role: str) -> Iterator[Task]:
    held: tuple[Held, Held] = (current.assigned, current.revoking)
    return (task for one in held for task in each_task(getattr(one, role)))
