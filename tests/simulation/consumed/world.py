"""Coordinators of groups whose shards change hands, groups that commit, go back and go, and a leader that deletes what
all of them have consumed, from a seed.

Each shard of the groups' topic is a replicated log: what is written is committed late, or lost with its coordinator. An
old coordinator goes on answering, as it was, until it hears that another one has followed; the leader's metadata lag as
well while it asks, and are up to date when it judges. Questions and answers come late, twice, or never.

Always holds: what is deleted, every group that is there had committed at some moment since the question began; nothing
goes that is not committed, or that an open transaction needs. When all is well, what all groups have consumed goes in
the end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from uuid import UUID

from penstock.coordinator.effects import Append, Effect, KeyValue
from penstock.coordinator.group.records import AnyRecord, OffsetRecord, decode_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.replication.consumed import FOREVER, Answer, Consumption, Question, new_start

OFFSETS, TOPIC, TOPIC_ID = "__consumer_offsets", "jobs", UUID(int=8)
SHARDS = 3
ROUND_MS = 400
FAULTS_END_MS = 60_000
HEALS_IN_MS = 5_000
ANY = 1 << 60
"""As far as a group goes that is not there."""


class ViolationError(AssertionError):
    """Something that must always hold does not."""


class Coordinator:
    """Of one shard in one epoch, with the records that were committed when it took over."""

    def __init__(self, world: World, index: int, epoch: int, log: list[KeyValue]) -> None:
        self.index, self.epoch = index, epoch
        self.shard = GroupShard(GroupSettings(), Random(1), ClusterImage())
        self.under_way: deque[Append] = deque()
        for record in log:
            self.shard.read(*record)
        self.shard.loaded(world.now_ms)

    def positions(self) -> dict[str, dict[int, int]]:
        return {name: places for some in self.shard.positions(TOPIC, TOPIC_ID) for name, places in some.items()}


@dataclass(slots=True)
class Shard:
    """What is committed of a shard, and who coordinates it; `old` is one that has not heard that it does no more."""

    log: list[KeyValue]
    now: Coordinator
    old: Coordinator | None = None
    known_epoch: int = 0
    """To the leader that asks."""


@dataclass(slots=True)
class Round:
    """A question under way: what each group had at most since it began."""

    began_ms: int
    question: Question = field(default_factory=Question)
    most: dict[str, int] = field(default_factory=dict)
    epochs: dict[tuple[str, int], int] = field(default_factory=dict)


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self.truth: dict[str, int] = {}
        """What each group has committed."""
        self.homes: dict[str, int] = {}
        self.shards: dict[int, Shard] = {}
        for index in range(SHARDS):
            self.shards[index] = Shard([], Coordinator(self, index, 0, []))
        self.log_start, self.high_watermark, self.stable = 0, 0, 0
        self.consumption = Consumption(0)
        self.round: Round | None = None
        self.moves = self.deletions = self.failed_rounds = 0

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def has_faults(self) -> bool:
        return self.now_ms < FAULTS_END_MS

    def after(self, ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + ms, next(self._sequence), what))

    def run(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, what = heapq.heappop(self._events)
            what()
        self.now_ms = end_ms

    def sent(self, what: Callable[[], None]) -> None:
        """Over the network."""
        if not self.has_faults:
            self.after(1, what)
            return
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2))):
            self.after(self.random.choice((1, 5, 5, 50, 50, 900)), what)

    # -- groups -------------------------------------------------------------------------------------------------------

    def begin_group(self, name: str) -> None:
        self.homes[name] = self.random.randrange(SHARDS)
        self.commit(name, 0)

    def commit(self, name: str, offset: int) -> None:
        """Also to a coordinator that is none any more: what it writes is never committed."""
        shard = self.shards[self.homes[name]]
        wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=[wanted])]
        request = OffsetCommitRequest(group_id=name, topics=topics)
        self._write(shard, shard.now.shard.commit("token", request, 10, self.now_ms))

    def delete(self, name: str) -> None:
        shard = self.shards[self.homes[name]]
        self._write(shard, shard.now.shard.delete_group("token", name, self.now_ms))

    def _write(self, shard: Shard, effects: list[Effect]) -> None:
        coordinator = shard.now
        for effect in effects:
            if isinstance(effect, Append):
                coordinator.under_way.append(effect)
                self.after(self.random.randrange(1, 300), lambda: self._settle(shard, coordinator))

    def _settle(self, shard: Shard, coordinator: Coordinator) -> None:
        """The oldest write is committed, or fails, and all later ones with it."""
        if shard.now is not coordinator or not coordinator.under_way:
            return
        append = coordinator.under_way.popleft()
        fails = self.has_faults and self.random.random() < 0.2
        error = ErrorCode.NOT_ENOUGH_REPLICAS if fails else ErrorCode.NONE
        if fails:
            coordinator.under_way.clear()
        else:
            shard.log += append.records
            for record in append.records:
                self._is_true(decode_record(*record))
        self._write(shard, coordinator.shard.appended(append.write_id, error, self.now_ms))

    def _is_true(self, record: AnyRecord | None) -> None:
        if not isinstance(record, OffsetRecord):
            return
        offset = ANY if record.value is None else record.value.offset
        if self.round is not None:
            self.round.most[record.group_id] = max(self.round.most.get(record.group_id, ANY), offset)
        if offset == ANY:
            self.truth.pop(record.group_id, None)
        else:
            self.truth[record.group_id] = offset

    # -- what befalls coordinators ------------------------------------------------------------------------------------

    def move(self, index: int) -> None:
        """Another one follows; what was under way is lost. The old one, and the leader, hear of it later."""
        self.moves += 1
        shard = self.shards[index]
        old = shard.now
        shard.now = Coordinator(self, index, old.epoch + 1, shard.log)
        shard.old = old if self.random.random() < 0.7 else None
        self.after(self.random.randrange(1, 4_000), lambda: self._hears(shard, shard.now.epoch))

    def _hears(self, shard: Shard, epoch: int) -> None:
        shard.known_epoch = max(shard.known_epoch, epoch)
        if shard.now.epoch == epoch:
            shard.old = None

    # -- the leader ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Records come; a transaction may be open."""
        self.high_watermark += self.random.randrange(1, 5)
        if self.random.random() < 0.3:
            self.stable = self.high_watermark

    def ask(self) -> None:
        """Who has no answer in time asks again; what comes late is to another question."""
        if self.round is not None:
            self._judge(self.round)
        asked = self.round = Round(self.now_ms, most=dict(self.truth))
        for index, shard in self.shards.items():
            self.sent(lambda it=index, to=shard: self._answer(asked, it, to))  # type: ignore[misc]
        self.after(ROUND_MS, self.ask)

    def _answer(self, asked: Round, index: int, shard: Shard) -> None:
        """By whoever the leader's question has reached, in the end."""
        by_old = shard.old is not None and self.random.random() < 0.6
        coordinator = shard.old if by_old and shard.old is not None else shard.now
        answer = Answer(coordinator.epoch, SHARDS, coordinator.positions())
        self.sent(lambda: asked.question.answered((OFFSETS, index), answer))

    def _judge(self, asked: Round) -> None:
        """With metadata that are up to date by now."""
        for shard in self.shards.values():
            shard.known_epoch = shard.now.epoch
        epochs = {(OFFSETS, index): shard.known_epoch for index, shard in self.shards.items()}
        try:
            positions = asked.question.positions(epochs)
        except KafkaError:
            self.failed_rounds += 1
            return
        consumed_to = self.consumption.consumed_to(positions, FOREVER, self.now_ms)
        start = new_start(consumed_to, self.log_start, self.high_watermark, self.stable)
        if start > self.log_start:
            self.deletions += 1
            self._check(start, asked)
            self.log_start = start

    def _check(self, start: int, asked: Round) -> None:
        if start > self.stable:
            raise ViolationError(f"{start} goes, and an open transaction began at {self.stable}")
        for group_id in self.truth:
            if start > asked.most.get(group_id, ANY):
                raise ViolationError(
                    f"{start} goes, and {group_id} has had at most {asked.most[group_id]} since {asked.began_ms}"
                )

    def check_healed(self) -> None:
        least = min(self.truth.values(), default=0)
        if self.log_start < min(least, self.stable):
            raise ViolationError(f"the log begins at {self.log_start}, and all have consumed {least}")
