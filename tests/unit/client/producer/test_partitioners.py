"""Which partition: Java's murmur2, and a batch's worth in one place."""

from random import Random

import pytest

from penstock.client.metadata import ClusterMetadata
from penstock.client.producer import partitioners
from penstock.client.producer.partitioners import DefaultPartitioner, RoundRobinPartitioner, partitioner_named
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def test_keys_go_where_a_java_producer_sends_them() -> None:
    partitioner = DefaultPartitioner(16_384, Random(1))
    # The signed hashes are those of Kafka's own test of murmur2.
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, murmur in expected.items():
        assert partitioner.partition("t", key, 10, 1000, []) == (murmur & 0x7FFFFFFF) % 1000


def test_records_without_a_key_stay_in_one_partition_for_a_batch() -> None:
    partitioner = DefaultPartitioner(100, Random(3))
    chosen = [partitioner.partition("t", None, 25, 6, [0, 2, 4]) for _ in range(400)]
    runs = [chosen[start : start + 4] for start in range(0, 400, 4)]
    assert all(len(set(run)) == 1 for run in runs)
    assert set(chosen) == {0, 2, 4}


def test_without_any_leader_all_partitions_are_candidates() -> None:
    partitioner = DefaultPartitioner(1, Random(3))
    assert {partitioner.partition("t", None, 1, 3, []) for _ in range(100)} == {0, 1, 2}


def test_a_partition_that_is_gone_is_left() -> None:
    partitioner = DefaultPartitioner(100, Random(1))
    assert partitioner.partition("t", None, 1, 4, [3]) == 3
    assert partitioner.partition("t", None, 1, 4, [0]) == 3
    assert partitioner.partition("t", None, 1, 3, [0]) == 0, "there are three now"


class Own:
    """An application's own."""

    def partition(self) -> int:
        return 0


NO_CLASS = Own()


class NoPartitioner:
    """It has no such method."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("RoundRobinPartitioner", RoundRobinPartitioner),
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", RoundRobinPartitioner),
        (f"{__name__}:Own", Own),
    ],
)
def test_partitioners_have_names(name: str, kind: type) -> None:
    assert type(partitioner_named(name)) is kind


@pytest.mark.parametrize(
    "name",
    [
        "Sticky",
        f"{__name__}.Own",
        f"{__name__}:None",
        "nowhere:Own",
        f"{__name__}:NO_CLASS",
        f"{__name__}:NoPartitioner",
    ],
)
def test_what_is_no_partitioner_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"partitioner\.class="):
        partitioner_named(name)


def test_a_round_robin_takes_turns_by_topic_among_those_that_have_a_leader() -> None:
    rows = [
        MetadataResponsePartition(partition_index=number, leader_id=leader) for number, leader in enumerate((0, -1, 1))
    ]
    topics = [MetadataResponseTopic(name=name, partitions=rows) for name in ("t", "u")]
    topics.append(MetadataResponseTopic(name="none", partitions=[rows[1]]))
    cluster = ClusterMetadata().updated(MetadataResponse(topics=topics), all_topics=True)
    partitioner = RoundRobinPartitioner()
    asked = ["t", "t", "u", "t", "none"]
    assert [partitioner.partition(name, b"k", b"v", cluster) for name in asked] == [0, 2, 0, 0, 1]
    three = MetadataResponseTopic(name="three", partitions=[row.replace(leader_id=0) for row in (rows[0], rows[2])])
    three.partitions.append(MetadataResponsePartition(partition_index=7, leader_id=0))
    cluster = cluster.updated(MetadataResponse(topics=[three]), all_topics=False)
    assert [partitioner.partition("three", None, None, cluster) for _ in range(5)] == [0, 2, 7, 0, 2]


def test_of_so_many_topics_is_remembered_where_their_last_record_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioners, "MOST_TOPICS", 2)
    sticky, turns = DefaultPartitioner(100, Random(1)), RoundRobinPartitioner()
    rows = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(3)]
    topics = [MetadataResponseTopic(name=name, partitions=rows) for name in ("a", "b", "c")]
    cluster = ClusterMetadata().updated(MetadataResponse(topics=topics), all_topics=True)
    for name in ("a", "b", "a", "c", "b"):
        sticky.partition(name, None, 1, 3, [])
        turns.partition(name, None, None, cluster)
    assert (list(sticky._stuck), turns._sent) == (["b", "c"], {"b": 1, "c": 0})
