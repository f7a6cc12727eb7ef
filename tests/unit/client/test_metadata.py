"""What a client knows of leaders never goes back to an earlier epoch (KIP-320)."""

from uuid import UUID

import pytest

from penstock.client.metadata import ClusterMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, OTHER = UUID(int=1), UUID(int=2)


def told(*rows: tuple[int, int], topic_id: UUID = ONE) -> MetadataResponse:
    """Leader and leader epoch of each partition."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, (leader, epoch) in enumerate(rows)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="h", port=node) for node in (1, 2)],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)],
    )


def leaders(metadata: ClusterMetadata) -> list[int]:
    rows = [metadata.leader(TopicPartition("t", index)) for index in metadata.topics["t"].partitions]
    return [-1 if row is None else row.leader for row in rows]


def test_a_broker_that_is_cut_off_is_not_believed() -> None:
    known = ClusterMetadata().updated(told((1, 5), (1, 5)), all_topics=True)
    assert leaders(known.updated(told((2, 4), (2, 6)), all_topics=True)) == [1, 2]
    assert leaders(known.updated(told((2, 4), (2, 6)), all_topics=False)) == [1, 2]


def test_the_same_epoch_is_news_and_so_is_an_unknown_one() -> None:
    known = ClusterMetadata().updated(told((1, 5), (1, 5)), all_topics=True)
    assert leaders(known.updated(told((2, 5), (2, -1)), all_topics=True)) == [2, 2]


def test_another_topic_of_that_name_begins_anew() -> None:
    known = ClusterMetadata().updated(told((1, 5)), all_topics=True)
    assert leaders(known.updated(told((2, 0), topic_id=OTHER), all_topics=True)) == [2]


@pytest.mark.parametrize(
    ("name", "number", "leader", "epoch", "expected"),
    [
        ("t", 1, 2, 6, [1, 2]),
        ("t", 1, 2, 5, [1, 1]),
        ("t", 1, 3, 6, [1, 3]),
        ("t", 1, 4, 6, [1, 1]),
        ("t", 2, 2, 6, [1, 1]),
        ("u", 0, 2, 6, [1, 1]),
    ],
)
def test_a_leader_that_a_broker_names_counts_where_it_is_news(
    name: str, number: int, leader: int, epoch: int, expected: list[int]
) -> None:
    """Node 3 comes with its address, nobody knows node 4, partition 2, or topic `u`."""
    known = ClusterMetadata().updated(told((1, 5), (1, 5)), all_topics=True)
    news = {(name, number): LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)}
    found = known.with_leaders(news, [NodeEndpoint(node_id=3, host="h", port=3, rack="r")])
    assert leaders(found) == expected
    assert found.topics.keys() == {"t"}
    assert (found.brokers[3].address, found.brokers[3].rack) == (Address("h", 3), "r")
    assert found.brokers.keys() == {1, 2, 3}


def test_partitions_that_are_gone_are_gone() -> None:
    known = ClusterMetadata().updated(told((1, 5), (1, 5)), all_topics=True)
    assert leaders(known.updated(told((2, 4)), all_topics=True)) == [1]
