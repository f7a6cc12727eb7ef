import random
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_index import PartitionIndex, Partitions, each, taken_from
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY, PartitionImage
from penstock.protocol.internal_topics import STORAGE_GROUPS

DISKS = [UUID(int=1001), UUID(int=1002)]


def partition(leader: int, isr: tuple[int, ...], **fields: Any) -> PartitionImage:
    return PartitionImage(leader, 0, 0, (1, 2, 3), isr, **fields)


def listed(partitions: Partitions) -> list[tuple[str, int]]:
    return sorted(each(partitions))


def test_a_partition_is_found_by_its_brokers_and_by_its_state() -> None:
    index = PartitionIndex()
    first, second = partition(1, (1, 2)), partition(-1, (2,), adding_replicas=(3,))
    index.changed("flights", 0, None, first)
    index.changed("flights", 70, None, first)
    index.changed("flights", 70, first, second)
    assert listed(index.in_sync(1)) == [("flights", 0)]
    assert listed(index.in_sync(2)) == [("flights", 0), ("flights", 70)]
    assert listed(index.leaderless) == listed(index.reassigning) == [("flights", 70)]
    index.changed("flights", 70, second, partition(2, (2, 3)))
    assert index.leaderless == index.reassigning == {}
    assert listed(index.moved) == [("flights", 70)]
    assert index.brokers_in_sync() == [1, 2, 3]


def test_a_topic_that_is_gone_is_gone_everywhere() -> None:
    index = PartitionIndex()
    index.changed("flights", 0, None, partition(-1, (1,), removing_replicas=(3,)))
    index.changed("delays", 0, None, partition(2, (2,)))
    index.removed("flights")
    assert index.brokers_in_sync() == [2]
    assert (index.led_by(1), index.led_by(2)) == ({}, {"delays": 1})
    assert (index.leaderless, index.reassigning, index.moved) == ({}, {}, {"delays": 1})
    assert index.behind == {(1, UNASSIGNED_DIRECTORY): {"delays": 1}, (3, UNASSIGNED_DIRECTORY): {"delays": 1}}


def test_a_copy_goes_its_own_way() -> None:
    index = PartitionIndex()
    index.changed("flights", 0, None, partition(1, (1, 2)))
    copy = index.copy()
    copy.changed("flights", 0, partition(1, (1, 2)), partition(-1, (2,)))
    copy.changed("flights", 1, None, partition(-1, (2,), adding_replicas=(3,)))
    assert listed(index.in_sync(1)) == listed(index.in_sync(2)) == listed(index.led_by(1)) == [("flights", 0)]
    assert (index.leaderless, index.moved, index.reassigning) == ({}, {}, {})
    assert index.behind == {(3, UNASSIGNED_DIRECTORY): {"flights": 1}}


TABLES = PartitionIndex.__slots__
OTHER: dict[str, Any] = {
    "leader": 2,
    "leader_epoch": 5,
    "partition_epoch": 9,
    "replicas": (2, 1, 4),
    "isr": (1, 2, 3),
    "directories": (DISKS[1],) * 3,
    "removing_replicas": (3,),
    "adding_replicas": (4,),
    "leader_recovery_state": 1,
    "eligible_leader_replicas": (3,),
    "last_known_elr": (3,),
}


def tables(index: PartitionIndex) -> dict[str, object]:
    return {name: getattr(index, name) for name in TABLES}


def holding(image: PartitionImage, *, topic: str = "flights", by_consensus: bool = False) -> PartitionIndex:
    index = PartitionIndex()
    index.changed(topic, 3, None, image, by_consensus=by_consensus)
    return index


@pytest.mark.parametrize("topic", ["flights", STORAGE_GROUPS])
@pytest.mark.parametrize("by_consensus", [True, False])
@pytest.mark.parametrize("name", OTHER)
def test_each_field_that_changes_alone_changes_what_is_found(name: str, by_consensus: bool, topic: str) -> None:
    before = partition(1, (1, 2), directories=(DISKS[0],) * 3)
    after = before._replace(**{name: OTHER[name]})
    for first, second in ((before, after), (after, before)):
        index = holding(first, topic=topic, by_consensus=by_consensus)
        index.changed(topic, 3, first, second, by_consensus=by_consensus)
        assert tables(index) == tables(holding(second, topic=topic, by_consensus=by_consensus))


@pytest.mark.parametrize("topic", ["flights", STORAGE_GROUPS])
@pytest.mark.parametrize("by_consensus", [True, False])
def test_what_a_group_replicates_is_behind_nowhere_and_prefers_no_replica(topic: str, by_consensus: bool) -> None:
    index = holding(partition(2, (2,), eligible_leader_replicas=(1,)), topic=topic, by_consensus=by_consensus)
    one = {topic: 0b1000}
    has_preferred = not by_consensus or topic == STORAGE_GROUPS
    assert (index.preferred(1), index.moved) == ((one, one) if has_preferred else ({}, {}))
    assert index.preferred_brokers() == [1] * has_preferred
    assert index.behind == ({} if by_consensus else {(it, UNASSIGNED_DIRECTORY): one for it in (1, 3)})
    assert (index.eligible(1), index.eligible(2), index.led_by(2), index.led_by(1)) == (one, {}, one, {})


@pytest.mark.parametrize("leader", [-1, 1, 2])
def test_all_of_a_topic_goes_and_a_copy_keeps_it(leader: int) -> None:
    full = partition(leader, (1, 2), eligible_leader_replicas=(3,), adding_replicas=(4,))
    index = holding(full)
    copy = index.copy()
    assert tables(copy) == tables(index)
    index.removed("flights")
    assert tables(index) == tables(PartitionIndex())
    assert tables(copy) == tables(holding(full))
    copy.changed("flights", 3, full, partition(3, (3,)))
    assert tables(copy) == tables(holding(partition(3, (3,))))


def test_some_are_taken_before_the_others() -> None:
    left: Partitions = {"a": 0b1011, "b": 0b1}
    taken = taken_from(left, {"b": 0b11, "a": 0b110, "c": 0b1})
    assert [next(taken), next(taken)] == [("b", 0), ("a", 1)]
    assert left == {"a": 0b1001}
    assert list(taken) == [("a", 0), ("a", 3)]
    assert left == {}


def test_it_says_what_a_look_at_all_partitions_would_say() -> None:
    chance, image = random.Random(5), ClusterImage()
    for number in range(20):
        topic_id = UUID(int=number + 1)
        image.apply(TopicRecord(name=f"topic{number}", topic_id=topic_id))
        for partition_id in range(chance.randrange(1, 9)):
            record = PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=[1, 2, 3],
                isr=[1],
                leader=1,
                directories=[DISKS[0]] * 3,
            )
            image.apply(record)
    for _ in range(2000):
        topic = chance.choice(list(image.topics.values()))
        if chance.random() < 0.005:
            image.apply(RemoveTopicRecord(topic_id=topic.topic_id))
            continue
        change = PartitionChangeRecord(partition_id=chance.choice(list(topic.partitions)), topic_id=topic.topic_id)
        change.leader = chance.choice([-2, -1, 1, 2, 3])
        change.isr = chance.choice([None, chance.sample([1, 2, 3], chance.randrange(1, 4))])
        change.adding_replicas = chance.choice([None, [], [3]])
        change.directories = chance.choice([None, chance.choices(DISKS, k=3)])
        image.apply(change)
    for broker_id in (1, 2, 3):
        assert listed(image.index.in_sync(broker_id)) == found(image, partial(is_in_sync, broker_id))
        assert listed(image.index.led_by(broker_id)) == found(image, partial(is_led, broker_id))
    assert listed(image.index.leaderless) == found(image, lambda p: p.leader == -1)
    assert listed(image.index.moved) == found(image, lambda p: p.leader not in (-1, p.replicas[0]))
    assert listed(image.index.reassigning) == found(image, lambda p: p.adding_replicas != ())
    for broker_id in (1, 2, 3):
        for disk in DISKS:
            behind = image.index.behind.get((broker_id, disk), {})
            assert listed(behind) == found(image, partial(is_behind, broker_id, disk))
    assert len(image.topics) < 20


def is_in_sync(broker_id: int, partition: PartitionImage) -> bool:
    return broker_id in partition.isr


def is_behind(broker_id: int, disk: UUID, partition: PartitionImage) -> bool:
    return broker_id not in partition.isr and partition.directory_of(broker_id) == disk


def is_led(broker_id: int, partition: PartitionImage) -> bool:
    return broker_id == partition.leader


def found(image: ClusterImage, is_one: Callable[[PartitionImage], bool]) -> list[tuple[str, int]]:
    """What a look at all partitions finds."""
    everything = ((t.name, i, p) for t in image.topics.values() for i, p in t.partitions.items())
    return sorted((name, index) for name, index, p in everything if is_one(p))
