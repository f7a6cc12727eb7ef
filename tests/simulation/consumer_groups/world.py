"""A coordinator of a group on a replicated log, its members, of one protocol or both, and what comes between them.

The network loses requests and answers, doubles requests, and brings them after their client has given them up. The log
commits late, refuses batches, and changes hands: at a kill a part of what was under way is lost. `truth` is what the
committed log says. Always holds:

* No partition is had by two members, as the committed records say.
* What a living process reads it has by these records, as long as it is a member there: so no two read the same.
* So it is while the group is classic: of its members no two read the same, but for those that have missed a generation,
  whom the classic protocol does not protect from themselves.
* A heartbeat that changes nothing is answered at once where the group is at rest, by the committed records, and there
  alone.
* The history tells of the last epochs in the log, each once, and of nothing else (`told.py`).

A late heartbeat that says what its member owns, as each JoinGroup does, is not among the faults: nothing in it tells
that it is old, so the protocol has no protection, and relies on connections to keep an order. For the same reason a
double comes at once: its answer could have an assignment that its client never hears of.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.consumer_groups.told import Told

from penstock.coordinator.effects import Append, Calculation, Effect, Errand, Note, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.records import KEYS
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState
from penstock.coordinator.group.consumer.values import partitions_of
from penstock.coordinator.group.records import HISTORY_KEY_VERSION, GroupMetadataValue, KindRecord, key_version_of
from penstock.coordinator.group.records import decode_record as decode_classic
from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GROUP = "readers"
SESSION_MS = 6_000
CALLER = Caller("simulated", "/10.0.0.1", 1)
CLASSIC_CALLER = CALLER._replace(api_version=9)
ANSWERS: dict[type, Callable[..., object]] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
}
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE)
FAULTS_END_MS = 90_000
LONGEST_STALL_MS = 2_000
LATE_MS = 3_000
"""Longer than a client waits."""

Place = tuple[UUID, int]
Answered = Callable[[Any], None]


class ViolationError(AssertionError):
    """Something that must always hold does not."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000
        self.begin_ms = self.now_ms
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self.image = ClusterImage()
        self.topics: dict[str, int] = {}
        for name in ("a", "b"):
            self.grow(name, self.random.choice((1, 3, 6)))
        self.settings = self.new_settings()
        self.log: list[Append] = []
        self.under_way: list[Append] = []
        self.truth: dict[str, dict[str, Any]] = {"consumer": {}, "classic": {}}
        self.told = Told(is_whole=self.settings.members_at_once > 1)
        self.shard: GroupShard | None = None
        self.waiting: dict[object, Answered] = {}
        self.clients: list[Any] = []
        self.fails = 0
        """Writes that were refused."""
        self.kills = self.upgrades = self.downgrades = 0
        self.start()

    def new_settings(self) -> GroupSettings:
        return GroupSettings(
            members_at_once=self.random.choice((1, 100)),
            initial_rebalance_delay_ms=self.random.choice((0, 500)),
            consumer=ConsumerSettings(
                session_timeout=Bounded(SESSION_MS, 0, SESSION_MS),
                heartbeat_interval=Bounded(1_000, 0, 1_000),
                assignment_interval=Bounded(self.random.choice((0, 0, 1_000)), 0, 1_000),
                assigned_at_once=self.random.choice((0, 2_000)),
                regex_refresh_interval_ms=20_000,
            ),
        )

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def has_faults(self) -> bool:
        return self.now_ms - self.begin_ms < FAULTS_END_MS

    def after(self, delay_ms: int, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + max(delay_ms, 1), next(self._sequence), happens))

    def run(self, for_ms: int) -> None:
        end_ms = self.now_ms + for_ms
        while (happens := self._next(end_ms)) is not None:
            happens()
            self.check()
        self.now_ms = end_ms

    def _next(self, end_ms: int) -> Callable[[], None] | None:
        """What happens next, at the time to which the clock is set; None if nothing does until then."""
        at_ms = self._events[0][0] if self._events else end_ms + 1
        deadline_ms = None if self.shard is None else self.shard.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= min(at_ms, end_ms):
            self.now_ms = max(self.now_ms, deadline_ms)
            return self._wake
        if at_ms > end_ms:
            return None
        self.now_ms, _, happens = heapq.heappop(self._events)
        return happens

    def _wake(self) -> None:
        assert self.shard is not None
        self.carry_out(self.shard, self.shard.wake(self.now_ms))

    def chance(self, share: float) -> bool:
        """Whether a fault happens now."""
        return self.has_faults and self.random.random() < share

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
        self.told.check(shard, self.now_ms)

    def kill(self) -> None:
        """Of what is under way some is in the log, and nobody is answered."""
        kept = self.random.randrange(len(self.under_way) + 1)
        for append in self.under_way[:kept]:
            self._commit(append)
        self._is_gone()

    def hand_over(self) -> None:
        """What is under way is committed first; whoever waits is sent away."""
        shard = self.shard
        if shard is None:
            return
        while self.under_way:
            self._committed(shard)
        self.carry_out(shard, shard.seal(self.now_ms))
        while self.under_way:
            self._committed(shard)
        self.carry_out(shard, shard.unload(self.now_ms))
        if self.waiting:
            raise ViolationError(f"{len(self.waiting)} requests wait for a coordinator that is gone")
        self._is_gone()

    def _is_gone(self) -> None:
        self.kills += 1
        self.shard = None
        self.under_way.clear()
        self.waiting.clear()
        self.after(self.random.randrange(1, LONGEST_STALL_MS), self.start)

    def carry_out(self, shard: GroupShard, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.under_way.append(effect)
                self.after(self.random.choice((1, 1, 5, 50, 500)), lambda: self._end_write(shard))
            elif isinstance(effect, Errand):
                self._send(shard, effect)
            elif isinstance(effect, Reply):
                answered = self.waiting.pop(effect.token, None)
                if answered is not None:
                    answered(effect.response)
            else:
                assert isinstance(effect, Note)

    def _end_write(self, shard: GroupShard) -> None:
        if shard is not self.shard or not self.under_way:
            return
        if not self.chance(0.08):
            self._committed(shard)
            return
        self.fails += 1
        failed = self.under_way[self.random.randrange(len(self.under_way))]
        self.under_way = [append for append in self.under_way if append.write_id < failed.write_id]
        self.carry_out(shard, shard.appended(failed.write_id, self.random.choice(FAILURES), self.now_ms))

    def _committed(self, shard: GroupShard) -> None:
        append = self.under_way.pop(0)
        self._commit(append)
        self.carry_out(shard, shard.appended(append.write_id, ErrorCode.NONE, self.now_ms))

    def _commit(self, append: Append) -> None:
        was_classic, before = self.state() is None, self.classic()
        had_members = before is not None and bool(before.members)
        self.log.append(append)
        self.told.before(append, self.state(), before)
        for key, value in append.records:
            version = key_version_of(key)
            if version == HISTORY_KEY_VERSION:
                continue
            record = ConsumerRecord.decode(version, key, value) if version in KEYS else decode_classic(key, value)
            assert isinstance(record, KindRecord)
            record.apply_to(self.truth[record.kind])
        self.told.after(append, self.state(), self.classic())
        is_classic, classic = self.state() is None, self.classic()
        generation = 0 if classic is None or classic.unsettled is not None else classic.generation
        for client in self.clients:
            client.has_missed_one |= client.is_classic and client.epoch < generation
        self.downgrades += is_classic and not was_classic and self.classic() is not None
        self.upgrades += was_classic and not is_classic and had_members
        if self.state() is not None and self.classic() is not None:
            raise ViolationError("the log has the group twice")
        self._check_owners()

    def _send(self, shard: GroupShard, errand: Errand) -> None:
        assert isinstance(errand.job, Calculation)
        found = errand.job.function()

        def come_back() -> None:
            if shard is self.shard:
                self.carry_out(shard, shard.came_back(errand.errand_id, found, ErrorCode.NONE, self.now_ms))

        self.after(self.random.choice((1, 20, 800)), come_back)

    # -- the network --------------------------------------------------------------------------------------------------

    def ask(self, request: Any, answered: Answered, *, may_be_late: bool) -> None:
        """It may get lost on either way."""

        def arrive(answer: Answered) -> None:
            shard = self.shard
            if shard is None:
                self.after(5, lambda: answer(self.refusal(request, ErrorCode.NOT_COORDINATOR)))
                return
            token = object()
            self.waiting[token] = answer
            self.carry_out(shard, self._take(shard, token, request))

        def answer_later(response: Any) -> None:
            if not self.chance(0.05):
                self.after(self.random.choice((1, 5, 30)), lambda: answered(response))

        if self.chance(0.05):
            return
        is_late = may_be_late and self.chance(0.05)
        is_doubled = self.chance(0.05)

        def arrives() -> None:
            arrive(answer_later)
            if is_doubled:
                arrive(lambda _: None)

        self.after(LATE_MS if is_late else self.random.choice((1, 5, 100)), arrives)

    def refusal(self, request: Any, error: ErrorCode) -> Any:
        return ANSWERS[type(request)](error_code=error)

    def _take(self, shard: GroupShard, token: object, request: Any) -> list[Effect]:
        match request:
            case ConsumerGroupHeartbeatRequest():
                interval_ms = shard.consumer_goes_on(request, CALLER, self.now_ms)
                if interval_ms is None:
                    return shard.consumer_heartbeat(token, request, CALLER, lambda _: True, self.now_ms)
                name, epoch = request.member_id, request.member_epoch
                self._check_rests(name, epoch)
                answer = ConsumerGroupHeartbeatResponse(member_id=name, member_epoch=epoch)
                return [Reply(token, answer.replace(heartbeat_interval_ms=interval_ms))]
            case JoinGroupRequest():
                return shard.join(token, request, CLASSIC_CALLER, self.now_ms)
            case SyncGroupRequest():
                return shard.sync(token, request, self.now_ms)
            case LeaveGroupRequest():
                return shard.leave(token, request, 5, self.now_ms)
        assert isinstance(request, HeartbeatRequest)
        return [Reply(token, HeartbeatResponse(error_code=shard.heartbeat(request, self.now_ms)))]

    # -- topics -------------------------------------------------------------------------------------------------------

    def grow(self, name: str, partitions: int) -> None:
        """A new topic, or more partitions of one."""
        topic_id = UUID(int=ord(name[0]))
        known = self.topics.get(name, 0)
        records: list[MetadataRecord] = [] if known else [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            PartitionRecord(topic_id=topic_id, partition_id=index, replicas=[1], isr=[1], leader=1)
            for index in range(known, known + partitions)
        ]
        for record in records:
            self.image.apply(record)
        self.topics[name] = known + partitions
        self.image.applied_to(self.image.offset + 1)
        if getattr(self, "shard", None) is not None:
            self.shard.topics_changed(new_topics=not known)  # type: ignore[union-attr]

    # -- what must hold -----------------------------------------------------------------------------------------------

    def state(self) -> ConsumerState | None:
        found = self.truth["consumer"].get(GROUP)
        return found if isinstance(found, ConsumerState) and not found.is_empty else None

    def _check_rests(self, member_id: str, epoch: int) -> None:
        state = self.state()
        if state is None or not epoch == state.epoch == state.assignment.epoch == state.current(member_id).epoch:
            raise ViolationError(f"{member_id} goes on in epoch {epoch}, and the group does not")

    def _check_owners(self) -> None:
        state = self.state()
        owners: dict[Place, str] = {}
        for member_id, current in (state.currents if state is not None else {}).items():
            for place in (*partitions_of(current.assigned), *partitions_of(current.revoking)):
                if place in owners:
                    raise ViolationError(f"{place} belongs to {owners[place]} and to {member_id}")
                owners[place] = member_id

    def classic(self) -> GroupMetadataValue | None:
        found = self.truth["classic"].get(GROUP)
        return found if isinstance(found, GroupMetadataValue) else None

    def _counts(self, client: Any) -> bool:
        """Whether it may read what it reads, as far as it can know."""
        state, classic = self.state(), self.classic()
        if state is not None:
            return client.member_id in state.members
        groups = {} if self.shard is None else {group.group_id: group for group in self.shard.classic_groups()}
        group = groups.get(GROUP)
        stored = set() if classic is None else {one.member_id for one in classic.members}
        members = stored if group is None else set(group.members)
        return client.member_id in members

    def check(self) -> None:
        state = self.state()
        readers: dict[Place, str] = {}
        for client in self.clients:
            if not client.owned or client.has_missed_one or not self._counts(client):
                continue
            if state is not None:
                current = state.current(client.member_id)
                has = {*partitions_of(current.assigned), *partitions_of(current.revoking)}
                if not client.owned <= has:
                    raise ViolationError(f"{client.member_id} reads {client.owned - has}, which it does not have")
            for place in client.owned:
                if place in readers:
                    raise ViolationError(f"{place} is read by {readers[place]} and by {client.member_id}")
                readers[place] = client.member_id

    def check_healed(self) -> None:
        """All partitions of what is read are read, by members that have all come to the last assignment."""
        state, classic = self.state(), self.classic()
        assert self.shard is not None
        self.told.check(self.shard, self.now_ms)
        living = [client for client in self.clients if client.is_running]
        assert state is not None or classic is not None
        members = set(state.members) if state is not None else {one.member_id for one in classic.members}  # type: ignore[union-attr]
        if {client.member_id for client in living} != members:
            raise ViolationError(f"members are {members}, but {[c.member_id for c in living]} live")
        if state is not None and state.state != ("Stable" if living else "Empty"):
            raise ViolationError(f"the group is {state.state}: {state.currents}, {state.targets}")
        if state is not None and living and all(client.is_classic for client in living):
            raise ViolationError("all members are classic, and the group is not")
        wanted = {
            (UUID(int=ord(name[0])), index)
            for name, size in self.topics.items()
            if any(client.reads(name) for client in living)
            for index in range(size)
        }
        read = {place for client in living for place in client.owned}
        if read != wanted:
            raise ViolationError(f"{wanted - read} is not read, {read - wanted} is read needlessly")
