"""A share coordinator on a log that is cut, and the leaders and groups that ask it, from a seed.

The network loses requests and answers, doubles requests and brings them late. The log commits late, refuses batches,
and changes hands: at a kill a part of what was under way is lost. `whole` is the log as if nothing had been cut. Always
holds:

* What a coordinator loads of the log that is left is what the whole log says.
* What was acknowledged is in the committed log, and in what every later leader is told.
* A leader that was told the state shuts out those before it.
* What was initialized, and nobody has asked to delete, is there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from penstock.coordinator.effects import Append, Cut, Effect, KeyValue, Note, Reply
from penstock.coordinator.shards.shares import ShareShard
from penstock.coordinator.share.records import SharePartitionKey, ShareState, decode_record
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)

TOPIC = UUID(int=7)
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE)
LONGEST_STALL_MS = 500
FAULTS_END_MS = 60_000

Answered = Callable[[Any], None]
Said = dict[int, tuple[int, int]]
"""Offset to deliveries and state."""
Life = tuple[int, int]
"""How often the state was deleted before, and its epoch."""


class ViolationError(AssertionError):
    """Something that must always hold does not."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = self.begin_ms = 1_000_000
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self.image = ClusterImage()
        self.image.apply(TopicRecord(name="jobs", topic_id=TOPIC))
        for index in range(3):
            self.image.apply(PartitionRecord(topic_id=TOPIC, partition_id=index, replicas=[1], isr=[1], leader=1))
        self.settings = ShareCoordinatorSettings(
            updates_per_snapshot=self.random.choice((0, 1, 3, 10)),
            cold_interval_ms=self.random.choice((2_000, 10_000)),
            prune_interval_ms=self.random.choice((500, 3_000)),
            at_once=self.random.choice((1, 100)),
        )
        self.whole: list[KeyValue] = []
        self.begin = 0
        self.under_way: list[Append] = []
        self.truth: dict[SharePartitionKey, ShareState] = {}
        self.lives: Counter[SharePartitionKey] = Counter()
        """How often it was deleted. A late request may begin it again in an epoch that it had before."""
        self.shard: ShareShard | None = None
        self.waiting: dict[object, Answered] = {}
        self.fails = self.kills = self.cuts = 0
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
        shard = ShareShard(self.settings, self.image)
        for offset in range(self.begin, len(self.whole)):
            shard.read(*self.whole[offset], offset)
        for key, state in self.truth.items():
            found = shard.states().get(key)
            if found is None or found != state.replace(updates=found.updates):
                raise ViolationError(f"of {key.text} the log from {self.begin} says {found}, the whole one {state}")
        if len(shard.states()) != len(self.truth):
            raise ViolationError(
                f"the log from {self.begin} has {list(shard.states())}, the whole one {list(self.truth)}"
            )
        self.shard = shard
        self.carry_out(shard, shard.loaded(self.now_ms))

    def kill(self) -> None:
        """Of what is under way some is in the log, and nobody is answered."""
        for append in self.under_way[: self.random.randrange(len(self.under_way) + 1)]:
            self._commit(append)
        self._is_gone()

    def hand_over(self) -> None:
        """What is under way is committed first; whoever waits is sent away."""
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

    def carry_out(self, shard: ShareShard, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.under_way.append(effect)
                self.after(self.random.choice((1, 1, 5, 50, 500)), lambda: self._end_write(shard))
            elif isinstance(effect, Reply):
                answered = self.waiting.pop(effect.token, None)
                if answered is not None:
                    assert isinstance(effect.response, list)
                    answered(effect.response[0])
            elif isinstance(effect, Cut):
                self.cuts += 1
                self.begin = max(self.begin, min(effect.offset, len(self.whole)))
            else:
                assert isinstance(effect, Note)

    def _end_write(self, shard: ShareShard) -> None:
        if shard is not self.shard or not self.under_way:
            return
        if not self.chance(0.08):
            self._committed(shard)
            return
        self.fails += 1
        failed = self.under_way[self.random.randrange(len(self.under_way))]
        self.under_way = [append for append in self.under_way if append.write_id < failed.write_id]
        self.carry_out(shard, shard.appended(failed.write_id, self.random.choice(FAILURES), self.now_ms))

    def _committed(self, shard: ShareShard) -> None:
        append = self.under_way.pop(0)
        offset = len(self.whole)
        self._commit(append)
        self.carry_out(shard, shard.appended(append.write_id, ErrorCode.NONE, self.now_ms, offset))

    def _commit(self, append: Append) -> None:
        self.whole += append.records
        for key, value in append.records:
            record = decode_record(key, value)
            assert record is not None
            after = record.after(self.truth.get(record.key))
            if after is None:
                self.truth.pop(record.key, None)
                self.lives[record.key] += 1
            else:
                self.truth[record.key] = after

    # -- the network --------------------------------------------------------------------------------------------------

    def ask(self, event: str, key: SharePartitionKey, data: Any, answered: Answered) -> None:
        """It may get lost on either way."""

        def arrive(answer: Answered) -> None:
            shard = self.shard
            if shard is None:
                return
            token = object()
            self.waiting[token] = answer
            self.carry_out(shard, getattr(shard, event)(token, [(key, data)], self.now_ms))

        def answer_later(result: Any) -> None:
            if not self.chance(0.05):
                self.after(self.random.choice((1, 5, 30)), lambda: answered(result))

        if self.chance(0.05):
            return
        is_doubled = self.chance(0.05)

        def arrives() -> None:
            arrive(answer_later)
            if is_doubled:
                self.after(self.random.choice((1, 50, 900)), lambda: arrive(lambda _: None))

        self.after(self.random.choice((1, 5, 100)), arrives)


class Reader:
    """A group's share of a partition: who leads it, and what was acknowledged of it, by the epochs of its state."""

    def __init__(self, world: World, group_id: str, partition: int) -> None:
        self.world = world
        self.random = world.random
        self.key = SharePartitionKey(group_id, TOPIC, partition)
        self.is_kept = world.random.random() < 0.5
        """Never deleted."""
        self.state_epoch = 0
        self.leader_epoch = 0
        self.told_epoch = 0
        """Of the state, by the last answer: leaders write with what they were told."""
        self.fenced_below = 0
        """Leaders before this epoch were shut out: a newer one was told the state."""
        self.acknowledged: dict[Life, Said] = {}
        self.starts: dict[Life, int] = {}
        self.is_there = self.may_be_gone = False
        """Whether it was initialized; whether a deletion was ever asked for, which may be late."""

    def life(self, epoch: int) -> Life:
        return self.world.lives[self.key], epoch

    def step(self) -> None:
        what = self.random.randrange(20)
        if self.state_epoch == 0 or what == 0:
            self.initialize()
        elif what == 1 and not self.is_kept:
            self.delete()
        elif what in (2, 3, 4):
            self.leader_epoch += self.random.choice((0, 1, 1))
            self.read(self.leader_epoch)
        elif what == 5 and self.leader_epoch:
            self.read(self.random.randrange(self.leader_epoch + 1))
        elif self.told_epoch:
            is_old = what == 6 and self.leader_epoch > 0
            self.write(self.random.randrange(self.leader_epoch) if is_old else self.leader_epoch)

    def initialize(self) -> None:
        self.state_epoch += 1
        epoch, start_offset = self.state_epoch, self.random.choice((-1, 0, 20))
        life = self.life(epoch)
        data = initialize_share_group_state.PartitionData(
            partition=self.key.partition, state_epoch=epoch, start_offset=start_offset
        )

        def answered(result: Any) -> None:
            if not result.error_code:
                self.starts.setdefault(life, start_offset)
                self.is_there = True

        self.world.ask("initialize", self.key, data, answered)

    def delete(self) -> None:
        self.may_be_gone = True
        data = delete_share_group_state.PartitionData(partition=self.key.partition)
        self.world.ask("delete", self.key, data, lambda _: None)

    def read(self, leader_epoch: int) -> None:
        data = read_share_group_state.PartitionData(partition=self.key.partition, leader_epoch=leader_epoch)
        known = {life: dict(said) for life, said in self.acknowledged.items()}
        starts, is_fenced = dict(self.starts), leader_epoch < self.fenced_below
        was_there = self.is_there

        def answered(result: Any) -> None:
            if result.error_code:
                if result.error_code == ErrorCode.INVALID_REQUEST and was_there and not self.may_be_gone:
                    raise ViolationError(f"{self.key.text} is not there any more")
                return
            if is_fenced and not self.may_be_gone:
                raise ViolationError(f"a leader of epoch {leader_epoch} was told after a newer one")
            self.fenced_below = max(self.fenced_below, leader_epoch)
            self.told_epoch = result.state_epoch
            self.check_told(result, known, starts)

        self.world.ask("read_state", self.key, data, answered)

    def check_told(self, result: Any, known: dict[Life, Said], starts: dict[Life, int]) -> None:
        life = self.life(result.state_epoch)
        told = {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in result.state_batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        if result.start_offset < starts.get(life, -1):
            raise ViolationError(f"{self.key.text} begins at {result.start_offset} again")
        for offset, said in known.get(life, {}).items():
            if offset >= result.start_offset and told.get(offset, (-1, -1)) < said:
                raise ViolationError(f"offset {offset} was {said}, and is {told.get(offset)}")
        if any(offset < result.start_offset for offset in told):
            raise ViolationError("something is told of what lies before the start")

    def write(self, leader_epoch: int) -> None:
        epoch = self.told_epoch
        life = self.life(epoch)
        begins = max(self.starts.get(life, 0), 0)
        start_offset = begins + self.random.choice((0, 0, 0, 1, 5))
        first = start_offset + self.random.randrange(10)
        batch = write_share_group_state.StateBatch(
            first_offset=first,
            last_offset=first + self.random.randrange(5),
            delivery_state=self.random.choice((0, 2, 4)),
            delivery_count=self.random.randrange(1, 5),
        )
        data = write_share_group_state.PartitionData(
            partition=self.key.partition,
            state_epoch=epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            state_batches=[batch],
        )
        is_fenced = leader_epoch < self.fenced_below

        def answered(result: Any) -> None:
            if result.error_code:
                return
            if is_fenced and not self.may_be_gone:
                raise ViolationError(f"a leader of epoch {leader_epoch} wrote after a newer one was told")
            said = self.acknowledged.setdefault(life, {})
            for offset in range(batch.first_offset, batch.last_offset + 1):
                said[offset] = max(said.get(offset, (-1, -1)), (batch.delivery_count, batch.delivery_state))
            self.starts[life] = max(self.starts.get(life, -1), start_offset)

        self.world.ask("write", self.key, data, answered)


def simulate(seed: int) -> World:
    """Raises `ViolationError`."""
    world = World(seed)
    readers = [Reader(world, group_id, partition) for group_id in ("a", "b") for partition in range(2)]
    while world.has_faults:
        for _ in range(world.random.randrange(1, 12)):
            reader = world.random.choice(readers)
            if reader is not readers[0] or world.random.random() < 0.2:
                reader.step()
        world.run(world.random.choice((5, 50, 400)))
        what = world.random.randrange(60)
        if what == 0 and world.shard is not None:
            world.kill()
        elif what == 1:
            world.hand_over()
    world.run(10_000)
    world.hand_over()
    world.run(LONGEST_STALL_MS + 1)
    return world
