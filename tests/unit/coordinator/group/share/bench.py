"""A shard with share groups, a cluster of topics, and a share coordinator that answers when it is told to."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from tests.unit.coordinator.ahead import check_members, looks_ahead
from tests.unit.coordinator.share.coordinated import Coordinated

from penstock.coordinator.effects import Append, AtShareCoordinators, Calculation, Effect, Errand, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import Bounded, GroupSettings, ShareSettings
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from penstock.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    PartitionData,
)
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

GROUP = "workers"
CALLER = Caller("test", "/10.0.0.1", 1)
SESSION_MS = 45_000
AT_ONCE = GroupSettings(share=ShareSettings(assignment_interval=Bounded(0, 0, 0)))


def topic_id(name: str) -> UUID:
    return UUID(int=ord(name[0]))


class Bench:
    """`holds`: writes wait for `commit` or `fail`; `keeps`: errands wait for `come_back`. Otherwise both come at once.

    `has` is what each member was told last that it has.
    """

    def __init__(self, settings: GroupSettings = AT_ONCE, **topics: int) -> None:
        self.settings = settings
        self.image = ClusterImage()
        self.now_ms = 1_000_000
        self.log: list[Append] = []
        self.under_way: list[Append] = []
        self.errands: list[Errand] = []
        self.replies: dict[object, Any] = {}
        self.has: dict[str, dict[str, list[int]]] = {}
        self.holds = self.keeps = False
        self.states = Coordinated(self.image)
        self.shard = GroupShard(self.settings, Random(1), self.image)
        looks_ahead(self.shard, lambda: self.now_ms)
        for name, partitions in topics.items():
            self.grow(name, partitions)
        self.take(self.shard.loaded(self.now_ms))

    def grow(self, name: str, partitions: int, *, number: UUID | None = None) -> None:
        found = number or topic_id(name)
        known = self.image.topics.get(name)
        if known is None:
            self.image.apply(TopicRecord(name=name, topic_id=found))
        begin = 0 if known is None else len(known.partitions)
        for index in range(begin, begin + partitions):
            self.image.apply(PartitionRecord(topic_id=found, partition_id=index, replicas=[1], isr=[1], leader=1))
        self.changed(new_topics=known is None)

    def remove(self, name: str) -> None:
        self.image.apply(RemoveTopicRecord(topic_id=self.image.topics[name].topic_id))
        self.changed(new_topics=False)
        self.take(self.shard.forget_topics(None, self.now_ms))
        self.advance(0)

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
            elif isinstance(effect, Reply):
                self.replies[effect.token] = effect.response
        if not self.holds:
            self.commit()
        if not self.keeps:
            while self.errands:
                self.come_back()
        check_members(self.shard)

    def commit(self) -> None:
        while self.under_way:
            append = self.under_way.pop(0)
            self.log.append(append)
            self.take(self.shard.appended(append.write_id, ErrorCode.NONE, self.now_ms))

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """The first write that is under way, and all after it with it."""
        first, self.under_way = self.under_way[0], []
        self.take(self.shard.appended(first.write_id, error, self.now_ms))

    def come_back(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest errand has been done, or has failed."""
        errand = self.errands.pop(0)
        answer = None
        if error is ErrorCode.NONE:
            job = errand.job
            assert isinstance(job, AtShareCoordinators | Calculation)
            answer = job.function() if isinstance(job, Calculation) else self.states.asked(job)
        self.take(self.shard.came_back(errand.errand_id, answer, error, self.now_ms))

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.take(self.shard.wake(self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Another coordinator reads the log."""
        self.under_way.clear()
        self.errands.clear()
        self.shard = GroupShard(self.settings, Random(len(self.log) + 2), self.image)  # no id comes twice
        looks_ahead(self.shard, lambda: self.now_ms)
        for append in self.log:
            for key, value in append.records:
                self.shard.read(key, value)
        for _ in self.shard.restoring(self.now_ms):
            pass
        self.take(self.shard.loaded(self.now_ms))

    # -- members ------------------------------------------------------------------------------------------------------

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        """The answer, or None if there is none yet; then it is in `replies`, by the id of the member and the epoch."""
        request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch).replace(**fields)
        token = (member_id, epoch)
        self.replies.pop(token, None)
        self.take(self.shard.share_heartbeat(token, request, CALLER, self.now_ms))
        answer = self.replies.get(token)
        if answer is not None and told(answer) is not None:
            self.has[member_id] = told(answer) or {}
        return answer

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        return self.beat(member_id, 0, subscribed_topic_names=list(topics), **fields)

    def settle(self, *member_ids: str) -> dict[str, dict[str, list[int]]]:
        """What each has after some heartbeats."""
        for _ in range(4):
            for member_id in member_ids:
                self.beat(member_id, self.group.state.current(member_id).epoch)
        return {member_id: self.has.get(member_id, {}) for member_id in member_ids}

    def ask(self, event: Any, request: Any) -> Any:
        token = object()
        self.take(event(token, request, self.now_ms))
        return self.replies.get(token)

    def alter(self, **offsets: dict[int, int]) -> Any:
        return self.ask(self.shard.alter_share_offsets, alteration(**offsets))

    def delete_offsets(self, *topics: str) -> Any:
        request = DeleteShareGroupOffsetsRequest(
            group_id=GROUP, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        )
        return self.ask(self.shard.delete_share_offsets, request)

    def delete_group(self) -> Any:
        return self.ask(self.shard.delete_group, GROUP)

    @property
    def group(self) -> ShareGroup:
        found = self.shard._table.groups[GROUP]
        assert isinstance(found, ShareGroup)
        return found


def alteration(**offsets: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
        ],
    )


def left_by_an_earlier_group(bench: Bench, state_epoch: int = 50) -> None:
    """What came to the share coordinator only after the deletion of a group of the same name."""
    one = PartitionData(partition=0, state_epoch=state_epoch, start_offset=77)
    request = InitializeShareGroupStateRequest(
        group_id=GROUP, topics=[InitializeStateData(topic_id=topic_id("a"), partitions=[one])]
    )
    bench.states.asked(AtShareCoordinators(request, InitializeShareGroupStateResponse))


def told(response: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in an answer, by the names of topics."""
    assignment = response.assignment
    if assignment is None:
        return None
    return {chr(topic.topic_id.int): topic.partitions for topic in assignment.topic_partitions}
