"""A share coordinator whose log commits at once, asked as `AtShareCoordinators` asks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.coordinator.effects import Append, AtShareCoordinators, Effect, Reply
from penstock.coordinator.shards.shares import ShareShard
from penstock.coordinator.share.records import SharePartitionKey, ShareState
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import read_share_group_state
from penstock.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from penstock.protocol.messages.write_share_group_state import PartitionData
from penstock.protocol.schema import Message


class Coordinated:
    def __init__(self, image: ClusterImage) -> None:
        self.shard = ShareShard(ShareCoordinatorSettings(), image)
        self.now_ms = 1
        self._told: Any = None
        self.refuses: ErrorCode | None = None
        """What each partition is refused with, if they are."""
        self.asked_for: list[Message] = []
        self._take(self.shard.loaded(self.now_ms))

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self._take(self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms, 0))
            elif isinstance(effect, Reply):
                self._told = effect.response

    def asked(self, job: AtShareCoordinators) -> Message:
        request: Any = job.request
        self.asked_for.append(request)
        of_topic: Any = job.answer.__fields__["results"].kind
        event = self.shard.delete if isinstance(request, DeleteShareGroupStateRequest) else self.shard.initialize
        results = []
        for topic in request.topics:
            asked = [
                (SharePartitionKey(request.group_id, topic.topic_id, one.partition), one) for one in topic.partitions
            ]
            if self.refuses is None:
                self._take(event(object(), asked, self.now_ms))
            else:
                of_partition: Any = of_topic.__fields__["partitions"].kind
                self._told = [
                    of_partition(partition=one.partition, error_code=self.refuses) for one in topic.partitions
                ]
            results.append(of_topic(topic_id=topic.topic_id, partitions=self._told))
        return job.answer(results=results)

    def deliver(self, group_id: str, place: tuple[UUID, int], offset: int) -> None:
        """The leader of the partition reads the state, and writes that the group is there."""
        key = SharePartitionKey(group_id, *place)
        asks = read_share_group_state.PartitionData(partition=key.partition, leader_epoch=0)
        self._take(self.shard.read_state(object(), [(key, asks)], self.now_ms))
        epoch = self._told[0].state_epoch
        data = PartitionData(partition=key.partition, state_epoch=epoch, start_offset=offset)
        self._take(self.shard.write(object(), [(key, data)], self.now_ms))
        assert not self._told[0].error_code

    def state(self, group_id: str, topic: UUID, partition: int) -> ShareState | None:
        return self.shard.states().get(SharePartitionKey(group_id, topic, partition))

    def starts(self, group_id: str, topic: UUID) -> dict[int, int]:
        """Partition to the start offset."""
        return {
            key.partition: state.start_offset
            for key, state in self.shard.states().items()
            if key.group_id == group_id and key.topic_id == topic
        }
