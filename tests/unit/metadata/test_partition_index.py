import random
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_index import PartitionIndex, Partitions, each, taken_from
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY, PartitionImage

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
