"""What share groups have of topics that are deleted goes some groups at a time."""

from random import Random
from uuid import UUID

from penstock.coordinator.effects import Append
from penstock.coordinator.group.consumer.values import GroupEpoch
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.share.groups import LOOKED_AT_ONCE
from penstock.coordinator.group.share.records import GROUP, PARTITIONS
from penstock.coordinator.group.share.state import ShareGroupRecord
from penstock.coordinator.group.share.values import OfTopic, StatePartitions
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode

LARGE = LOOKED_AT_ONCE // 2
"""Topics of a group."""


class Shard:
    """With three groups that have all topics."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.topics = [UUID(int=number + 1) for number in range(LARGE)]
        for topic in self.topics:
            self.image.apply(TopicRecord(name=f"t{topic.int}", topic_id=topic))
        self.shard = GroupShard(GroupSettings(), Random(1), self.image)
        known = StatePartitions(initialized={topic: OfTopic(f"t{topic.int}", (0,)) for topic in self.topics})
        for name in "abc":
            self.shard.read(*ShareGroupRecord(name, GroupEpoch(1, 0), GROUP, ONE).encode())
            self.shard.read(*ShareGroupRecord(name, known, PARTITIONS, ONE).encode())
        for _ in self.shard.restoring(0):
            pass
        self.shard.loaded(0)

    def remove(self, number: int) -> None:
        self.image.apply(RemoveTopicRecord(topic_id=self.topics[number]))
        self.shard.topics_changed([self.topics[number]], new_topics=False)
        assert self.shard.forget_topics(None, 0) == [], "all coordinators of a node are told in one turn"

    def wake(self, now_ms: int) -> int:
        """How many groups are written."""
        appends = [effect for effect in self.shard.wake(now_ms) if isinstance(effect, Append)]
        for append in appends:
            self.shard.appended(append.write_id, ErrorCode.NONE, now_ms)
        return len(appends)

    def has(self, *numbers: int) -> list[bool]:
        return [self.topics[number] in self.shard.shared(name) for name in "abc" for number in numbers]


def test_groups_forget_topics_some_at_a_time() -> None:
    shard = Shard()
    shard.remove(0)
    assert shard.has(0) == [True, True, True]
    assert [shard.wake(now_ms) for now_ms in range(3)] == [2, 1, 0]
    assert shard.has(0) == [False, False, False]


def test_what_goes_during_a_walk_is_looked_for_by_another_one_behind_it() -> None:
    shard = Shard()
    shard.remove(0)
    assert shard.wake(0) == 2
    shard.remove(1)
    shard.remove(2)
    assert shard.has(0, 1, 2) == [False, True, True] * 2 + [True] * 3
    assert [shard.wake(now_ms) for now_ms in range(1, 5)] == [1, 2, 0, 0]
    assert not any(shard.has(0, 1, 2))
