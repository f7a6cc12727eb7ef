"""A shard with a cluster of topics, whose log commits when it is told to."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.coordinator.ahead import check_members, looks_ahead

from penstock.coordinator.effects import Append, Calculation, Effect, Errand, Note, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, RegisterBrokerRecord, RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

GROUP = "readers"
CALLER = Caller("test", "/10.0.0.1", 1)
REBALANCE_MS = 30_000
SESSION_MS = 45_000


def topic_id(name: str) -> UUID:
    return UUID(int=ord(name[0]))


class Bench:
    """`holds`: writes wait for `commit` or `fail`; otherwise each is committed at once."""

    def __init__(self, settings: GroupSettings | None = None, **topics: int) -> None:
        self.hidden: set[str] = set()
        self.settings = settings or GroupSettings()
        self.image = ClusterImage()
        self.now_ms = 1_000_000
        self.log: list[Append] = []
        self.under_way: list[Append] = []
        self.errands: list[Errand] = []
        self.replies: dict[object, Any] = {}
        self.notes: list[str] = []
        self.holds = False
        self.shard = GroupShard(self.settings, Random(1), self.image)
        looks_ahead(self.shard, lambda: self.now_ms)
        for name, partitions in topics.items():
            self.grow(name, partitions)
        self.take(self.shard.loaded(self.now_ms))

    def grow(self, name: str, partitions: int, *, number: UUID | None = None, replicas: tuple[int, ...] = (1,)) -> None:
        found = number or topic_id(name)
        known = self.image.topics.get(name)
        if known is None:
            self.image.apply(TopicRecord(name=name, topic_id=found))
        begin = 0 if known is None else len(known.partitions)
        for index in range(begin, begin + partitions):
            self.image.apply(
                PartitionRecord(
                    topic_id=found, partition_id=index, replicas=list(replicas), isr=list(replicas), leader=replicas[0]
                )
            )
        self.changed(new_topics=known is None)

    def remove(self, name: str) -> None:
        self.image.apply(RemoveTopicRecord(topic_id=self.image.topics[name].topic_id))
        self.changed(new_topics=False)

    def rack(self, broker: int, rack: str) -> None:
        self.image.apply(RegisterBrokerRecord(broker_id=broker, rack=rack, incarnation_id=UUID(int=broker)))
        self.changed(new_topics=False)

    def changed(self, *, new_topics: bool) -> None:
        self.image.applied_to(self.image.offset + 1)
        self.shard.topics_changed(new_topics=new_topics)

    # -- effects ------------------------------------------------------------------------------------------------------

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.under_way.append(effect)
            elif isinstance(effect, Errand):
                self.errands.append(effect)
            elif isinstance(effect, Note):
                self.notes.append(effect.line)
            elif isinstance(effect, Reply):
                self.replies[effect.token] = effect.response
        if not self.holds:
            self.commit()
        check_members(self.shard)

    def commit(self, writes: int | None = None) -> None:
        left = len(self.under_way) if writes is None else writes
        while self.under_way and left > 0:
            left -= 1
            append = self.under_way.pop(0)
            self.log.append(append)
            self.take(self.shard.appended(append.write_id, ErrorCode.NONE, self.now_ms))

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """The first write that is under way, and all after it with it."""
        first, self.under_way = self.under_way[0], []
        self.take(self.shard.appended(first.write_id, error, self.now_ms))

    def come_back(self) -> None:
        """What was sent away to be worked out."""
        errand = self.errands.pop(0)
        assert isinstance(errand.job, Calculation)
        self.take(self.shard.came_back(errand.errand_id, errand.job.function(), ErrorCode.NONE, self.now_ms))

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.take(self.shard.wake(self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Another coordinator reads the log."""
        self.under_way.clear()
        self.shard = GroupShard(self.settings, Random(1), self.image)
        looks_ahead(self.shard, lambda: self.now_ms)
        for append in self.log:
            for key, value in append.records:
                self.shard.read(key, value)
        for _ in self.shard.restoring(self.now_ms):
            pass
        self.take(self.shard.loaded(self.now_ms))

    # -- members ------------------------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Mapping[str, list[int]] | None = None,
        *,
        version: int = 1,
        **fields: Any,
    ) -> Any:
        """The answer, or None if there is none yet; then it is in `replies`, by the id of the member and the epoch."""
        partitions = (
            None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id(name), partitions=indexes)
                for name, indexes in owned.items()
            ]
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=partitions
        ).replace(**fields)
        token = (member_id, epoch)
        self.replies.pop(token, None)
        caller = CALLER._replace(api_version=version)
        interval_ms = self.shard.consumer_goes_on(request, caller, self.now_ms)  # as the node does
        if interval_ms is None:
            self.take(self.shard.consumer_heartbeat(token, request, caller, self._may_describe, self.now_ms))
        else:
            answer = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
            self.take([Reply(token, answer.replace(heartbeat_interval_ms=interval_ms))])
        return self.replies.get(token)

    def _may_describe(self, topic: str) -> bool:
        return topic not in self.hidden

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        named: dict[str, Any] = {"subscribed_topic_names": list(topics), "rebalance_timeout_ms": REBALANCE_MS}
        named |= fields
        return self.beat(member_id, 0, {}, **named)

    @property
    def group(self) -> ConsumerGroup:
        found = self.shard._table.groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    def described(self) -> Any:
        return self.shard.describe_consumer_group(GROUP)


def told(response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in an answer, by the names of topics."""
    assignment = response.assignment
    if assignment is None:
        return None
    return {chr(topic.topic_id.int): topic.partitions for topic in assignment.topic_partitions}


AT_ONCE = GroupSettings(consumer=ConsumerSettings(assignment_interval=Bounded(0, 0, 0)))


def two() -> Bench:
    """Of a topic with two partitions, m1 and m2 have one each, at epoch 3."""
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.beat("m1", 2)
    bench.beat("m1", 2, {"a": [0]})
    bench.beat("m2", 3)
    return bench
