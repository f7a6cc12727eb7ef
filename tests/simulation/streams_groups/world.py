"""A coordinator of a streams group on a replicated log, its members, and what comes between them, from a seed.

Network, log and coordinator fail as in `consumer_groups/world.py`. Topics that the application needs for itself are
created late, or not, and may be deleted. Always holds:

* No task is active at two members, as the committed records say.
* What a living process runs as active it has by these records, as long as it is a member there: so no two run the same.
* No two members of one process have the same task, in whatever role: what they have on disk is in one place.
* Who was told of an epoch finds it in the committed log, or a later one.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.simulation.consumer_groups import world as consumers
from tests.simulation.consumer_groups.world import Answered, ViolationError

from penstock.coordinator.effects import Append, Effect
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.records import HISTORY_KEY_VERSION, key_version_of
from penstock.coordinator.group.settings import Bounded, GroupSettings, StreamsSettings
from penstock.coordinator.group.streams.assignors.tasks import Task, each_task
from penstock.coordinator.group.streams.requests import Heard, refused
from penstock.coordinator.group.streams.state import StreamsRecord, StreamsState
from penstock.coordinator.group.streams.values import Current, InternalTopic
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.records import RemoveTopicRecord
from penstock.protocol.errors import ErrorCode

GROUP = "wordcount"
CALLER = Caller("simulated", "/10.0.0.1", 1)
KINDS = range(17, 24)


class World(consumers.World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.truth["streams"] = {}
        self.made = 0
        """Internal topics."""

    def new_settings(self) -> GroupSettings:
        delay_ms, replicas = self.random.choice((0, 2_000)), self.random.choice((0, 1, 1))
        return GroupSettings(
            members_at_once=self.random.choice((1, 100)),
            streams=StreamsSettings(
                session_timeout=Bounded(consumers.SESSION_MS, 0, consumers.SESSION_MS),
                heartbeat_interval=Bounded(1_000, 0, 1_000),
                assignment_interval=Bounded(self.random.choice((0, 0, 1_000)), 0, 1_000),
                initial_rebalance_delay=Bounded(delay_ms, 0, delay_ms),
                standby_replicas=Bounded(replicas, 0, replicas),
                assigned_at_once=self.random.choice((0, 2_000)),
            ),
        )

    # -- topics -------------------------------------------------------------------------------------------------------

    def make_later(self, missing: tuple[InternalTopic, ...]) -> None:
        """As the client that was told of it; that may fail, and others ask as well."""
        for topic in missing:
            if not self.chance(0.2):
                delay_ms = self.random.choice((1, 50, 1_500))
                self.after(delay_ms, lambda topic=topic: self._make(topic))  # type: ignore[misc]

    def _make(self, topic: InternalTopic) -> None:
        if topic.name not in self.topics:
            self.made += 1
            self.grow(topic.name, topic.partitions)

    def remove(self, name: str) -> None:
        if self.topics.pop(name, None) is not None:
            self.image.apply(RemoveTopicRecord(topic_id=UUID(int=ord(name[0]))))
            self.image.applied_to(self.image.offset + 1)
            if self.shard is not None:
                self.shard.topics_changed(new_topics=False)

    # -- the coordinator ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        shard = GroupShard(self.settings, self.random, self.image)
        for append in self.log:
            for key, value in append.records:
                shard.read(key, value)
        self.shard = shard
        for _ in shard.restoring(self.now_ms):
            pass
        self.carry_out(shard, shard.loaded(self.now_ms))

    def _commit(self, append: Append) -> None:
        self.log.append(append)
        for key, value in append.records:
            version = key_version_of(key)
            if version != HISTORY_KEY_VERSION:
                assert version in KINDS
                StreamsRecord.decode(version, key, value).apply_to(self.truth["streams"])
        self._check_owners()

    def carry_out(self, shard: GroupShard, effects: list[Effect]) -> None:
        for effect in effects:
            heard = getattr(effect, "response", None)
            if isinstance(heard, Heard):
                self._check_told(heard)
        super().carry_out(shard, effects)

    def refusal(self, request: Any, error: ErrorCode) -> Any:
        return refused(error)

    def _take(self, shard: GroupShard, token: object, request: Any) -> list[Effect]:
        return shard.streams_heartbeat(token, request, CALLER, self.now_ms)

    def beat(self, request: Any, answered: Answered, *, may_be_late: bool) -> None:
        self.ask(request, answered, may_be_late=may_be_late)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def streams(self) -> StreamsState | None:
        found = self.truth["streams"].get(GROUP)
        return found if isinstance(found, StreamsState) and not found.is_empty else None

    def _check_told(self, heard: Heard) -> None:
        response, state = heard.response, self.streams()
        if response.error_code or response.member_epoch < 1:
            return
        epoch = 0 if state is None else state.current(response.member_id).epoch
        if -2 != epoch < response.member_epoch:
            raise ViolationError(f"{response.member_id} is told of epoch {response.member_epoch}, and is at {epoch}")

    def _check_owners(self) -> None:
        state = self.streams()
        active: dict[Task, str] = {}
        places: dict[tuple[str, Task], str] = {}
        for member_id, current in (state.currents if state is not None else {}).items():
            assert state is not None
            if member_id not in state.members:
                raise ViolationError(f"{member_id} runs something, and is no member")
            process = state.members[member_id].process_id
            for task in active_of(current):
                if task in active:
                    raise ViolationError(f"{task} is active at {active[task]} and at {member_id}")
                active[task] = member_id
            for task in {*active_of(current), *replicas_of(current)}:
                if places.setdefault((process, task), member_id) != member_id:
                    raise ViolationError(f"{task} is twice in {process}: {places[process, task]}, {member_id}")

    def check(self) -> None:
        state = self.streams()
        runners: dict[Task, str] = {}
        for client in self.clients:
            if not client.owned or state is None or client.member_id not in state.members:
                continue
            active = {task for role, task in client.owned if role == "active"}
            has = active_of(state.current(client.member_id))
            if not active <= has:
                raise ViolationError(f"{client.member_id} runs {active - has}, which it does not have")
            for task in active:
                if task in runners:
                    raise ViolationError(f"{task} is run by {runners[task]} and by {client.member_id}")
                runners[task] = client.member_id

    def check_healed(self) -> None:
        """All tasks are run, by members that have all come to the last assignment."""
        state = self.streams()
        living = [client for client in self.clients if client.is_running]
        if state is None:
            if living:
                raise ViolationError("there is no group")
            return
        if {client.member_id for client in living} != set(state.members):
            raise ViolationError(f"members are {list(state.members)}, but {[c.member_id for c in living]} live")
        if state.state != ("Stable" if living else "Empty"):
            raise ViolationError(f"the group is {state.state}: {state.currents}, {state.targets}")
        wanted = {("0", index) for index in range(self.topics["a"])} | {("1", index) for index in range(3)}
        run = [task for client in living for role, task in client.owned if role == "active"]
        if living and sorted(run) != sorted(wanted):
            raise ViolationError(f"{wanted - set(run)} are not run, {set(run) - wanted} are run needlessly")
        self._check_standbys(living)

    def _check_standbys(self, living: list[Any]) -> None:
        processes = {client.process_id for client in living}
        replicas = self.settings.streams.standby_replicas.default
        for index in range(3 if living else 0):
            count = sum(("standby", ("1", index)) in client.owned for client in living)
            if count != min(replicas, len(processes) - 1):
                raise ViolationError(f"task 1_{index} has {count} standbys in {len(processes)} processes")


def active_of(current: Current) -> set[Task]:
    return {*each_task(current.assigned.active), *each_task(current.revoking.active)}


def replicas_of(current: Current) -> set[Task]:
    held = current.assigned, current.revoking
    return {task for one in held for role in (one.standby, one.warmup) for task in each_task(role)}
