"""A shard of a share coordinator, with a cluster of topics and a log that commits when it is told to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Cut, Effect, KeyValue, Reply
from penstock.coordinator.shards.shares import ShareShard
from penstock.coordinator.share.batches import StateBatch
from penstock.coordinator.share.records import SharePartitionKey, ShareState
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

TOPIC = UUID(int=7)
GROUP = "workers"
PARTITIONS = 4


class Bench:
    """`holds`: writes wait for `commit` or `fail`; otherwise each is committed at once."""

    def __init__(self, settings: ShareCoordinatorSettings | None = None) -> None:
        self.settings = settings or ShareCoordinatorSettings()
        self.image = ClusterImage()
        self.image.apply(TopicRecord(name="jobs", topic_id=TOPIC))
        for index in range(PARTITIONS):
            self.image.apply(PartitionRecord(topic_id=TOPIC, partition_id=index, replicas=[1], isr=[1], leader=1))
        self.now_ms = 1_000_000
        self.log: list[KeyValue] = []
        self.begin = 0
        self.under_way: list[Append] = []
        self.replies: dict[object, Any] = {}
        self.holds = False
        self.shard = ShareShard(self.settings, self.image)
        looks_ahead(self.shard, lambda: self.now_ms)
        self.take(self.shard.loaded(self.now_ms))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.under_way.append(effect)
            elif isinstance(effect, Reply):
                self.replies[effect.token] = effect.response
            elif isinstance(effect, Cut):
                self.begin = effect.offset
        if not self.holds:
            self.commit()

    def commit(self) -> None:
        while self.under_way:
            append = self.under_way.pop(0)
            offset = len(self.log)
            self.log += append.records
            self.take(self.shard.appended(append.write_id, ErrorCode.NONE, self.now_ms, offset))

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        first, self.under_way = self.under_way[0], []
        self.take(self.shard.appended(first.write_id, error, self.now_ms))

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.take(self.shard.wake(self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Another coordinator reads what is left of the log."""
        self.under_way.clear()
        self.shard = ShareShard(self.settings, self.image)
        looks_ahead(self.shard, lambda: self.now_ms)
        for offset in range(self.begin, len(self.log)):
            self.shard.read(*self.log[offset], offset)
        self.take(self.shard.loaded(self.now_ms))

    def remove_topic(self) -> None:
        self.image.apply(RemoveTopicRecord(topic_id=TOPIC))
        self.take(self.shard.topics_deleted(self.now_ms))

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ask(self, event: Any, data: Any, topic: UUID = TOPIC) -> Any:
        """The result, or None if there is none yet; then it comes to `replies`, by the request's number."""
        token = len(self.replies)
        self.replies[token] = None
        self.take(event(token, [(SharePartitionKey(GROUP, topic, data.partition), data)], self.now_ms))
        found = self.replies[token]
        return found[0] if found is not None else None

    def initialize(
        self,
        state_epoch: int = 1,
        start_offset: int = 0,
        partition: int = 0,
        *,
        heeds_deletions: bool = False,
        **rest: Any,
    ) -> Any:
        data = initialize_share_group_state.PartitionData(
            partition=partition, state_epoch=state_epoch, start_offset=start_offset, heeds_deletions=heeds_deletions
        )
        return self._ask(self.shard.initialize, data, **rest)

    def write(
        self,
        *batches: tuple[int, int, int, int],
        start_offset: int = 0,
        count: int = 0,
        leader_epoch: int = 0,
        state_epoch: int = 1,
        partition: int = 0,
    ) -> Any:
        data = write_share_group_state.PartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            state_batches=[
                write_share_group_state.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
                )
                for first, last, state, deliveries in batches
            ],
        )
        return self._ask(self.shard.write, data)

    def read(self, leader_epoch: int = 0, partition: int = 0) -> Any:
        data = read_share_group_state.PartitionData(partition=partition, leader_epoch=leader_epoch)
        return self._ask(self.shard.read_state, data)

    def summary(self, partition: int = 0) -> Any:
        return self._ask(self.shard.summarize, read_share_group_state_summary.PartitionData(partition=partition))

    def delete(self, partition: int = 0, *, group_epoch: int = -1, **rest: Any) -> Any:
        data = delete_share_group_state.PartitionData(partition=partition, group_epoch=group_epoch)
        return self._ask(self.shard.delete, data, **rest)

    # -- what is known ------------------------------------------------------------------------------------------------

    def state(self, partition: int = 0) -> ShareState | None:
        return self.shard.states().get(SharePartitionKey(GROUP, TOPIC, partition))


def batches(*said: tuple[int, int, int, int]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*one) for one in said)
