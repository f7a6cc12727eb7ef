"""Records without a key go to partitions that are led nearby, where that is asked for (KIP-1123)."""

import pytest

from penstock.client.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.client.producer import Producer
from penstock.client.producer.partitioners import RoundRobinPartitioner
from penstock.client.settings import ProducerSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record
from penstock.protocol.uuids import ZERO_UUID

RACKS = {1: "a", 2: "b", 3: None}
LEADERS = (1, 2, 2, 3, -1)


def row(number: int, leader: int) -> PartitionMetadata:
    return PartitionMetadata("t", number, leader, 0, [1, 2], [1, 2], [], ErrorCode.NONE)


TOPIC = TopicMetadata(
    "t", ZERO_UUID, False, ErrorCode.NONE, {number: row(number, leader) for number, leader in enumerate(LEADERS)}
)
CLUSTER = ClusterMetadata(
    brokers={node_id: BrokerMetadata(node_id, Address("h", 1), rack) for node_id, rack in RACKS.items()},
    topics={"t": TOPIC},
)


@pytest.mark.parametrize(
    ("rack", "is_aware", "chosen"),
    [
        ("b", True, {1, 2}),
        ("b", False, {0, 1, 2, 3}),
        ("c", True, {0, 1, 2, 3}),
        ("", True, {0, 1, 2, 3}),
    ],
)
async def test_a_rack_is_preferred(rack: str, is_aware: bool, chosen: set[int]) -> None:
    settings = ProducerSettings(client_rack=rack, partitioner_rack_aware=is_aware, batch_size=1)
    producer = Producer("127.0.0.1:1", settings)
    producer.cluster.metadata = CLUSTER
    assert {producer._choose(TOPIC, Record(value=b""), 10) for _ in range(200)} == chosen
    with_key = {producer._choose(TOPIC, Record(key=str(number).encode()), 10) for number in range(200)}
    assert with_key == {0, 1, 2, 3, 4}, "a key decides alone"


async def test_a_partitioner_of_the_applications_decides_alone() -> None:
    settings = ProducerSettings(client_rack="b", partitioner_rack_aware=True, batch_size=1)
    producer = Producer("127.0.0.1:1", settings, RoundRobinPartitioner())
    producer.cluster.metadata = CLUSTER
    assert {producer._choose(TOPIC, Record(value=b""), 10) for _ in range(200)} == {0, 1, 2, 3}


async def test_a_leader_that_is_no_broker_any_more_is_in_no_rack() -> None:
    producer = Producer("127.0.0.1:1", ProducerSettings(client_rack="a", partitioner_rack_aware=True, batch_size=1))
    producer.cluster.metadata = ClusterMetadata(brokers={1: CLUSTER.brokers[1]}, topics={"t": TOPIC})
    assert {producer._choose(TOPIC, Record(value=b""), 10) for _ in range(200)} == {0}
