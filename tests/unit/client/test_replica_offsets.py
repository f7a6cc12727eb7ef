"""How far each replica is, and why that of some cannot be had."""

from uuid import UUID

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster

from penstock.client.cluster import ClusterClient
from penstock.client.replica_offsets import ReplicaOffsets, replica_fetch_request, replica_offsets
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.requests.api import ApiKey

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED = ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("refused_by", ["the end", "the fetch"])
async def test_what_one_replica_refuses_keeps_nobody_from_the_others(refused_by: str) -> None:
    fake = FakeCluster(partitions=2)
    ends = [
        ListOffsetsPartitionResponse(partition_index=0, offset=9),
        ListOffsetsPartitionResponse(
            partition_index=1, offset=5, error_code=REFUSED if refused_by == "the end" else ErrorCode.NONE
        ),
    ]
    rows = [
        PartitionData(partition_index=0, high_watermark=7, log_start_offset=2, records=None),
        PartitionData(partition_index=1, error_code=REFUSED, records=None),
    ]
    if refused_by == "the end":
        del rows[1]
    fake.scripts[ApiKey.LIST_OFFSETS] = [
        lambda _: ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=ends)])
    ]
    fake.scripts[ApiKey.FETCH] = [
        lambda _: FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=UUID(int=0), partitions=rows)])
    ]
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], ClientSettings()) as client:
        await client.refresh(["t"])
        found, failures = await replica_offsets(client, [T0, T1])
    assert found == {(T0, NODE_ID): ReplicaOffsets(2, 7, 9)}
    assert {where: error.code for where, error in failures.items() if isinstance(error, KafkaError)} == {
        (T1, NODE_ID): REFUSED
    }


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 0), (1, 1), (500, 1)])
def test_a_replica_that_is_not_to_wait_answers_with_nothing(max_wait_ms: int, min_bytes: int) -> None:
    request = replica_fetch_request(
        {TopicPartition("t", 0): 5}, {"t": UUID(int=1)}, bytes_each=1, max_wait_ms=max_wait_ms
    )
    assert (request.min_bytes, request.max_wait_ms) == (min_bytes, max_wait_ms)
