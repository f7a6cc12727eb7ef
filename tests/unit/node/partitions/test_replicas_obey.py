"""Whatever is committed, replicas become what the image says: held, led, followed, configured, or gone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID, Node

from penstock.metadata.image import ClusterImage, ResourceType, TopicImage
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.topics import UNASSIGNED_DIRECTORY, PartitionImage
from penstock.node.partitions.partition import Partition

OTHER, THIRD = NODE_ID + 1, NODE_ID + 2
PLACES = ([NODE_ID], [NODE_ID, OTHER], [OTHER, NODE_ID], [OTHER], [OTHER, THIRD, NODE_ID])


class Following:
    """Notes whom partitions follow, in which epoch it was told last, and who was left without being followed."""

    def __init__(self) -> None:
        self.of: dict[Partition, tuple[int, int]] = {}

    def follow(self, partition: Partition, leader_id: int) -> None:
        self.of[partition] = leader_id, partition.leader_epoch

    def leave(self, partition: Partition) -> None:
        self.of.pop(partition, None)


class World:
    """A node with two log directories, and metadata by chance."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        self.following = Following()
        self.dropped: list[Partition] = []
        self.misplaced = 0
        self.topic_ids = iter(range(100, 10_000))
        self.node = Node(path, {"log.dirs": f"{path}/a,{path}/b"})
        self.replicas = self.node.replicas
        self.replicas.fetchers = self.following  # type: ignore[assignment]  # as much of it as is used here
        self.replicas.dropped.listen(self.dropped.append)
        self.replicas.found_misplaced.listen(self._found_misplaced)

    def _found_misplaced(self) -> None:
        self.misplaced += 1

    @property
    def disks(self) -> list[UUID]:
        ids = [one.directory_id for one in self.node.directories.roots.for_data]
        return [one for one in ids if one is not None]

    def topic(self) -> TopicImage:
        return self.random.choice(list(self.node.image.topics.values()))

    def created(self) -> Iterator[MetadataRecord]:
        topic_id = UUID(int=next(self.topic_ids))
        free = set("abcdef") - self.node.image.topics.keys()
        yield TopicRecord(name=self.random.choice(sorted(free)), topic_id=topic_id)
        for index in range(self.random.randint(1, 7)):
            nodes = self.random.choice(PLACES)
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=nodes,
                isr=nodes,
                leader=self.random.choice((*nodes, -1)),
                leader_epoch=0,
                partition_epoch=0,
                directories=[self.directory() for _ in nodes],
            )

    def directory(self) -> UUID:
        return self.random.choice([UNASSIGNED_DIRECTORY, *self.disks])

    def changed(self) -> MetadataRecord:
        topic = self.topic()
        index = self.random.choice(list(topic.partitions))
        change = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
        if self.random.random() < 0.3:
            nodes = self.random.choice(PLACES)
            change.replicas = change.isr = nodes
            change.directories = [self.directory() for _ in nodes]
            change.leader = self.random.choice(nodes)
        elif self.random.random() < 0.3:
            change.directories = [self.directory() for _ in topic.partitions[index].replicas]
        else:
            change.leader = self.random.choice((-2, -1, *topic.partitions[index].replicas))
        return change

    def configured(self) -> MetadataRecord:
        name, value = self.random.choice([("retention.ms", "7"), ("min.insync.replicas", "2"), ("retention.ms", None)])
        kind = self.random.choice((ResourceType.TOPIC, ResourceType.GROUP))
        return ConfigRecord(resource_type=kind, resource_name=self.topic().name, name=name, value=value)

    def records(self) -> list[MetadataRecord]:
        topics = self.node.image.topics
        chance = self.random.random()
        if not topics or (chance < 0.15 and len(topics) < 6):
            return list(self.created())
        if chance < 0.2:
            return [RemoveTopicRecord(topic_id=self.topic().topic_id)]
        if chance < 0.3:
            return [self.configured()]
        return [self.changed()]

    def commit(self) -> None:
        image, records = self.node.image, list[MetadataRecord]()
        for _ in range(self.random.randint(1, 4)):
            for record in self.records():
                image.apply(record)
                records.append(record)
        if self.random.random() < 0.1:
            other = ClusterImage(image.cluster_id)
            for record in image.records():
                other.apply(record)
            image.become(other)
            self.replicas.on_new_image()
        else:
            self.replicas.on_metadata(records)

    def touch(self) -> None:
        """A client asks for some partition."""
        topic = self.topic()
        index = self.random.choice(list(topic.partitions))
        if self.node.table.get(topic.topic_id, index) is None:
            self.replicas.hold_missing(topic, index)

    def check(self) -> None:
        held = {(one.topic_id, one.index): one for one in self.node.table}
        waiting = {(topic_id, log.partition): log for topic_id, log in self.node.table.untouched()}
        ours = {
            (topic.topic_id, index): image
            for topic in self.node.image.topics.values()
            for index, image in topic.partitions.items()
            if NODE_ID in image.replicas
        }
        assert held.keys() | waiting.keys() == ours.keys()
        assert not held.keys() & waiting.keys()
        names = {topic.topic_id: topic.name for topic in self.node.image.topics.values()}
        assert self.node.directories.logs.keys() == {(names[topic_id], index) for topic_id, index in ours}
        for key, log in waiting.items():
            assert ours[key].replicas == (NODE_ID,), "others may want its records"
            assert log.config is self.replicas.config_of(names[key[0]])
        for key, partition in held.items():
            self.check_held(partition, ours[key])
        assert self.following.of.keys() <= set(held.values())
        assert {id(one) for one in held.values()} == set(self.replicas._upkeep._watched)
        assert not self.replicas._late.taken()
        assert not self.replicas.offline
        gone = [one for one in self.dropped if one.leader is not None or one.follower is not None]
        assert not gone, "they lead and follow no more"

    def check_held(self, partition: Partition, image: PartitionImage) -> None:
        settings = self.node.settings.settings(self.node.image.config_of(ResourceType.TOPIC, partition.topic))
        assert partition.log.config is settings.log
        assert partition.min_insync_replicas == settings.min_insync_replicas
        assert partition.leader_epoch == image.leader_epoch
        assert (partition.leader is not None) is (image.leader == NODE_ID)
        if partition.leader is not None:
            assert (partition.leader.replicas, partition.leader.isr) == (image.replicas, image.isr)
            assert partition.leader.partition_epoch == image.partition_epoch
        follows = (image.leader, image.leader_epoch) if image.leader not in (NODE_ID, -1) else None
        assert self.following.of.get(partition) == follows
        said, actual = image.directory_of(NODE_ID), self.node.directories.id_of(partition.log)
        assert self.replicas.misplaced.get((partition.topic_id, partition.index)) == (
            None if said == actual else actual
        )


@pytest.mark.parametrize("seed", range(12))
async def test_replicas_become_what_the_image_says(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, Random(seed))
    world.node.open()
    for _ in range(40):
        world.commit()
        if world.random.random() < 0.3 and world.node.image.topics:
            world.touch()
        if world.random.random() < 0.5:
            await world.replicas.settled()
            world.check()
    await world.replicas.settled()
    world.check()
    assert world.dropped
    assert world.misplaced
    records = list(world.node.image.records())
    world.node.directories.close()
    again = World(tmp_path, Random(seed))
    for record in records:
        again.node.image.apply(record)
    again.node.directories.open_all(lambda _: again.node.settings.settings({}).log)
    again.node.directories.begin()
    await again.replicas.open_all()
    again.check()
    again.node.directories.abandon()


async def test_cleared_eligible_leaders_concern_the_topic_that_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, Random(1))
    world.node.open()
    for number, name in enumerate(("a", "b")):
        topic_id = UUID(int=number + 100)
        row = PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=[NODE_ID, OTHER],
            isr=[NODE_ID],
            leader=NODE_ID,
            leader_epoch=0,
            partition_epoch=0,
            eligible_leader_replicas=[OTHER],
        )
        world.node.commit(TopicRecord(name=name, topic_id=topic_id), row)
    obeyed: list[int] = []
    obey = world.replicas._todo._do

    def noting(key: tuple[UUID, int]) -> None:
        obeyed.append(key[0].int)
        obey(key)

    world.replicas._todo._do = noting
    world.node.commit(ClearElrRecord(topic_name="b"))
    await world.replicas.settled()
    assert obeyed == [101]
    world.node.commit(ClearElrRecord())
    await asyncio.sleep(0)
    assert obeyed == [101, 100, 101]
    world.node.directories.abandon()
