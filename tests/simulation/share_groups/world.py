"""A coordinator of a share group on a replicated log, share coordinators, members, and what comes between, from a seed.

The network loses requests and answers, doubles requests, and brings them after their client has given them up. The log
commits late, refuses batches, and changes hands: at a kill a part of what was under way is lost. What the group asks of
the share coordinators gets lost on either way, and comes late, also when its coordinator is gone. Always holds:

* No committed assignment has a partition that is not initialized, nor one that the share coordinator does not have.
* What has been read is there, and in its place, until somebody asks to delete or to move it.
* What was sent to begin something before it was deleted begins nothing after that.
* Of a group that is gone nothing is left at the share coordinators: the next one of its name would go on there.
* Who waits for an answer of a coordinator that hands over gets one.
* Who was told of an assignment finds it in the committed log, or a later one.

A late heartbeat that says what its member reads is not among the faults: nothing in it tells that it is old, so the
protocol relies on connections to keep an order. So it is with a deletion at the share coordinator.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.coordinator.share.coordinated import Coordinated

from penstock.coordinator.effects import Append, AtShareCoordinators, Calculation, Effect, Errand, Note, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.records import KindRecord, key_version_of
from penstock.coordinator.group.settings import Bounded, GroupSettings, ShareSettings
from penstock.coordinator.group.share.records import KEYS
from penstock.coordinator.group.share.state import ShareGroupRecord, ShareGroupState
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

GROUP = "workers"
SESSION_MS = 6_000
CALLER = Caller("simulated", "/10.0.0.1", 1)
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE)
FAULTS_END_MS = 60_000
LONGEST_STALL_MS = 2_000
LATE_MS = 3_000
"""Longer than a client waits."""

Place = tuple[UUID, int]


class ViolationError(AssertionError):
    """Something that must always hold does not."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = self.begin_ms = 1_000_000
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self.image = ClusterImage()
        self.states = Coordinated(self.image)
        self.topics: dict[str, int] = {}
        self.shard: GroupShard | None = None
        for name in ("a", "b"):
            self.grow(name, self.random.choice((1, 3)))
        self.settings = GroupSettings(
            members_at_once=self.random.choice((1, 100)),
            share=ShareSettings(
                session_timeout=Bounded(SESSION_MS, 0, SESSION_MS),
                heartbeat_interval=Bounded(1_000, 0, 1_000),
                assignment_interval=Bounded(self.random.choice((0, 0, 1_000)), 0, 1_000),
                assigned_at_once=self.random.choice((0, 2_000)),
                initialize_retry_ms=2_000,
            ),
        )
        self.log: list[Append] = []
        self.under_way: list[Append] = []
        self.truth: dict[str, Any] = {}
        self.waiting: dict[object, Callable[[Any], None]] = {}
        self.clients: list[Any] = []
        self.read: dict[Place, int] = {}
        """What was delivered for good: where the group is by now, of what it has, and nobody has asked to delete."""
        self.deletions: Counter[Place] = Counter()
        """How often each was deleted at its share coordinator."""
        self.is_administrated = self.random.random() < 0.5
        self.is_administrated_until_ms = 0
        self.fails = self.kills = self.reads = 0
        self.start()

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

    def kill(self) -> None:
        """Of what is under way some is in the log, and nobody is answered."""
        for append in self.under_way[: self.random.randrange(len(self.under_way) + 1)]:
            self._commit(append)
        self._is_gone()

    def hand_over(self) -> None:
        shard = self.shard
        if shard is None:
            return
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
                self._check_told(effect.response)
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
        self.log.append(append)
        for key, value in append.records:
            version = key_version_of(key)
            assert version in KEYS
            record: KindRecord = ShareGroupRecord.decode(version, key, value)
            record.apply_to(self.truth)
        self._check_assigned()

    # -- the share coordinators ---------------------------------------------------------------------------------------

    def _send(self, shard: GroupShard, errand: Errand) -> None:
        """Of a coordinator that is gone it arrives all the same."""
        job = errand.job
        if isinstance(job, Calculation):
            found = job.function()
            self.after(self.random.choice((1, 20, 800)), lambda: self._bring(shard, errand, found, ErrorCode.NONE))
            return
        assert isinstance(job, AtShareCoordinators)
        is_lost, is_unanswered, is_doubled = self.chance(0.1), self.chance(0.1), self.chance(0.1)
        deletes = isinstance(job.request, DeleteShareGroupStateRequest)
        sent_after = dict(self.deletions)

        def arrive() -> None:
            if deletes and shard is not self.shard:
                return
            answer = None if is_lost else self._arrive(job, sent_after)
            if is_doubled and not deletes:
                self.after(self.random.choice((10, 1_500, 3_000)), lambda: self._arrive(job, sent_after) and None)
            error = ErrorCode.NETWORK_EXCEPTION if is_lost or is_unanswered else ErrorCode.NONE
            back = None if error is not ErrorCode.NONE else answer
            self.after(self.random.choice((1, 20, 200)), lambda: self._bring(shard, errand, back, error))

        self.after(self.random.choice((1, 20, 200, 1_500)), arrive)

    def _arrive(self, job: AtShareCoordinators, sent_after: dict[Place, int]) -> Any:
        self.states.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.chance(0.1) else None
        request: Any = job.request
        places = [(topic.topic_id, it.partition) for topic in request.topics for it in topic.partitions]
        before = {place: self.states.state(GROUP, *place) for place in places}
        answer = self.states.asked(job)
        if self.states.refuses is None and isinstance(request, DeleteShareGroupStateRequest):
            self.deletions.update(places)
        elif any(
            self._is_late(place, sent_after) and self.states.state(GROUP, *place) != before[place] for place in places
        ):
            raise ViolationError("what was deleted has begun by a request that was sent before")
        return answer

    def _is_late(self, place: Place, sent_after: dict[Place, int]) -> bool:
        return self.deletions[place] > sent_after.get(place, 0)

    def _bring(self, shard: GroupShard, errand: Errand, answer: Any, error: ErrorCode) -> None:
        if shard is self.shard:
            self.carry_out(shard, shard.came_back(errand.errand_id, answer, error, self.now_ms))

    # -- the network --------------------------------------------------------------------------------------------------

    def ask(self, event: str, request: Any, answered: Callable[[Any], None], *more: object) -> None:
        """It may get lost on either way."""

        def arrive(answer: Callable[[Any], None]) -> None:
            shard = self.shard
            if shard is None:
                return
            token = object()
            self.waiting[token] = answer
            self.carry_out(shard, getattr(shard, event)(token, request, *more, self.now_ms))

        def answer_later(response: Any) -> None:
            if not self.chance(0.05):
                self.after(self.random.choice((1, 5, 30)), lambda: answered(response))

        if self.chance(0.05):
            return
        says_all = getattr(request, "subscribed_topic_names", None) is not None
        is_late, is_doubled = not says_all and self.chance(0.05), self.chance(0.05)

        def arrives() -> None:
            arrive(answer_later)
            if is_doubled:
                self.after(1 if says_all else self.random.choice((1, 300)), lambda: arrive(lambda _: None))

        self.after(LATE_MS if is_late else self.random.choice((1, 5, 100)), arrives)

    def beat(
        self, request: ShareGroupHeartbeatRequest, answered: Callable[[ShareGroupHeartbeatResponse], None]
    ) -> None:
        self.ask("share_heartbeat", request, answered, CALLER)

    # -- topics -------------------------------------------------------------------------------------------------------

    def grow(self, name: str, partitions: int) -> None:
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
        if self.shard is not None:
            self.shard.topics_changed(new_topics=not known)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def state(self) -> ShareGroupState | None:
        found = self.truth.get(GROUP)
        return found if isinstance(found, ShareGroupState) else None

    def _check_assigned(self) -> None:
        state = self.state()
        if state is None:
            return
        initialized = {(topic, i) for topic, them in state.partitions.assignable.items() for i in them}
        for member_id, current in state.currents.items():
            for topic, indexes in current.assigned.items():
                for index in indexes:
                    if (topic, index) not in initialized:
                        raise ViolationError(f"{member_id} has {topic}-{index}, which is not initialized")
        for place in initialized:
            if self.states.state(GROUP, *place) is None:
                raise ViolationError(f"{place} counts as initialized, and the share coordinator does not have it")

    def _check_told(self, response: object) -> None:
        if not isinstance(response, ShareGroupHeartbeatResponse) or response.error_code or response.member_epoch < 1:
            return
        state, member_id = self.state(), response.member_id or ""
        if state is None or state.current(member_id).epoch < response.member_epoch:
            raise ViolationError(f"{member_id} is told of epoch {response.member_epoch}, which is not committed")

    def check(self) -> None:
        """What was read is where it was, of what was not to go; nothing is there of a group that is gone."""
        if self.state() is None and self.states.shard.states():
            raise ViolationError(f"of no group there are {list(self.states.shard.states())}")
        for place, offset in self.read.items():
            state = self.states.state(GROUP, *place)
            if state is None or state.start_offset < offset:
                raise ViolationError(f"{place} was read to {offset}, and is at {state}")

    def deliver(self, place: Place, offset: int) -> None:
        """The leader of the partition writes how far the group is: after that nothing may begin it anew."""
        self.states.deliver(GROUP, place, offset)
        self.read[place] = offset
        self.reads += 1

    def check_healed(self) -> None:
        """All that is read belongs to somebody, and all have come to the last assignment."""
        state = self.state()
        living = [client for client in self.clients if client.is_running]
        if state is None:
            if living:
                raise ViolationError("there is no group")
            return
        if {client.member_id for client in living} != set(state.members):
            raise ViolationError(f"members are {list(state.members)}, but {[c.member_id for c in living]} live")
        wanted = {
            (UUID(int=ord(name[0])), index)
            for name, size in self.topics.items()
            if any(name in client.names for client in living)
            for index in range(size)
        }
        had = {place for client in living for place in client.owned}
        if had != wanted:
            raise ViolationError(f"{wanted - had} belong to nobody, {had - wanted} are had needlessly")
        for client in living:
            current = state.current(client.member_id)
            has = {(topic, index) for topic, indexes in current.assigned.items() for index in indexes}
            if client.owned != has or client.epoch != state.assignment.epoch:
                raise ViolationError(f"{client.member_id} believes that it has {client.owned}, and has {has}")
