"""The image knows which topics belong to which storage group, at no cost for the others."""

from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_index import each
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.protocol.internal_topics import STORAGE_GROUPS

GROUPS, ORDERS, TRADES, FLIGHTS = (UUID(int=number) for number in range(1, 5))


def topic(name: str, topic_id: UUID, group: int | None = None, partitions: int = 1) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
    if group is not None:
        for key, value in (("replication.mode", "consensus"), ("storage.group", str(group))):
            records.append(ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))
    for index in range(partitions):
        replicas = PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=2)
        records.append(replicas)
    return records


def image() -> ClusterImage:
    """Two groups, two topics in the second one, and one that is replicated by ISR; broker 2 leads everything."""
    made = ClusterImage("cluster")
    for record in (
        *topic(STORAGE_GROUPS, GROUPS, partitions=2),
        *topic("orders", ORDERS, 1, partitions=2),
        *topic("trades", TRADES, 1),
        *topic("flights", FLIGHTS),
    ):
        made.apply(record)
    return made


def names(image: ClusterImage, group: int) -> list[str]:
    return sorted(topic.name for topic in image.topics_of_storage_group(group))


def test_the_topics_of_a_group_are_found_and_the_group_of_a_topic() -> None:
    found = image()
    assert (names(found, 0), names(found, 1), names(found, 2)) == ([], ["orders", "trades"], [])
    assert found.topics["orders"].storage_group == found.topics["trades"].storage_group == 1
    assert found.topics["flights"].storage_group is None
    assert list(found.storage_groups) == [0, 1]
    assert ClusterImage().storage_groups == {}
    assert [name for name, one in found.topics.items() if one.by_consensus] == [STORAGE_GROUPS, "orders", "trades"]


def test_a_snapshot_in_which_configs_come_last_makes_the_same_groups() -> None:
    found, again = image(), ClusterImage("cluster")
    for record in found.records():
        again.apply(record)
    assert (names(again, 1), again.topics["trades"].storage_group) == (["orders", "trades"], 1)
    moved = [(STORAGE_GROUPS, 0), (STORAGE_GROUPS, 1), ("flights", 0)]
    assert sorted(each(again.index.moved)) == list(each(found.index.moved)) == moved
    assert again.index.preferred(1) == found.index.preferred(1) == {STORAGE_GROUPS: 0b11, "flights": 1}
    assert again.index.behind == found.index.behind == {}
    assert again.index.led_by(2) == found.index.led_by(2)


def test_a_topic_that_is_deleted_leaves_its_group() -> None:
    found = image()
    found.apply(RemoveTopicRecord(topic_id=ORDERS))
    assert names(found, 1) == ["trades"]
    found.apply(RemoveTopicRecord(topic_id=TRADES))
    assert names(found, 1) == []


def test_nobody_is_preferred_for_what_is_in_a_group() -> None:
    found = image()
    found.apply(PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=1))
    found.apply(PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=-1))
    assert found.index.leaderless == {"orders": 0b10}
    assert found.index.moved == found.index.preferred(1) == {STORAGE_GROUPS: 0b11, "flights": 1}


def test_a_copy_has_groups_of_its_own() -> None:
    found = image()
    copy = found.copy()
    copy.apply(PartitionChangeRecord(partition_id=0, topic_id=TRADES, leader=1))
    assert copy.topics["trades"].storage_group == 1
    copy.apply(RemoveTopicRecord(topic_id=ORDERS))
    for record in topic("later", UUID(int=9), 1):
        copy.apply(record)
    assert (names(found, 1), names(copy, 1)) == (["orders", "trades"], ["later", "trades"])
    assert found.topics["orders"].storage_group == 1
