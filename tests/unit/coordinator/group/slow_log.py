"""A shard whose writes are committed when a test says so."""

from random import Random

from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

RETENTION_MS = 60_000


class Log:
    """A shard whose writes are committed when a test says so."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        settings = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=RETENTION_MS)
        self.shard = GroupShard(settings, Random(1), image or ClusterImage())
        self.now_ms = 0
        looks_ahead(self.shard, lambda: self.now_ms)
        self.shard.loaded(0)
        self.appends: list[Append] = []
        self.answers: list[object] = []

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.appends.append(effect)
            elif isinstance(effect, Reply):
                self.answers.append(effect.response)

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest write is committed, or fails, and later ones with it."""
        write_id = self.appends.pop(0).write_id
        if error is not ErrorCode.NONE:
            self.appends.clear()
        self.take(self.shard.appended(write_id, error, 0))

    def run(self) -> list[int]:
        """What is under way, until it is answered: how many records there are in what each turn writes."""
        sizes = []
        for now_ms in range(1, 100):
            sizes += [sum(len(append.records) for append in self.appends)]
            while self.appends:
                self.settle()
            if self.answers:
                break
            self.now_ms = now_ms
            self.take(self.shard.wake(now_ms))
        return sizes

    def commit(self, group_id: str, count: int, first: int = 0, now_ms: int = 0, topic: str = "flights") -> None:
        indexes = range(first, first + count)
        partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in indexes]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.take(self.shard.commit("commit", OffsetCommitRequest(group_id=group_id, topics=topics), 8, now_ms))
        self.settle()
        self.answers.clear()

    def offsets(self, group_id: str) -> int:
        return sum(len(partitions) for partitions in self.shard.offsets(group_id).values())
