"""A consumer reads what can be read: one partition without a leader holds up none of the others."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import TOPIC, FakeCluster

from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message


class OneRecord(FakeCluster):
    """Two partitions, the second without a leader; the other one has one record."""

    def __init__(self) -> None:
        super().__init__(partitions=2)
        self.leaderless = {1}

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        match request:
            case ListOffsetsRequest():
                rows = [
                    ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=0)
                    for topic in request.topics
                    for row in topic.partitions
                ]
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=rows)])
            case FetchRequest():
                records = [
                    PartitionData(
                        partition_index=row.partition,
                        high_watermark=1,
                        records=bytes(encode_batch([Record(value=b"v")])) if row.fetch_offset == 0 else b"",
                    )
                    for topic in request.topics
                    for row in topic.partitions
                ]
                topic_id = request.topics[0].topic_id
                answered = FetchableTopicResponse(topic=TOPIC, topic_id=topic_id, partitions=records)
                return FetchResponse(responses=[answered])
        return super().__call__(header, request)


def settings(**others: Any) -> ConsumerSettings:
    return ConsumerSettings(auto_offset_reset="earliest", retry_backoff_ms=1, retry_backoff_max_ms=1, **others)


async def test_a_partition_without_a_leader_holds_up_no_other_and_is_read_when_it_has_one() -> None:
    cluster = OneRecord()
    async with fake_broker(cluster) as broker:
        cluster.broker = broker
        async with Consumer([broker.address], settings()) as consumer:
            await consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
            assert [record.partition for record in await consumer.poll(30_000)] == [0]
            cluster.leaderless.clear()
            assert [record.partition for record in await consumer.poll(30_000)] == [1]


async def test_a_position_that_cannot_be_found_in_time_is_an_error() -> None:
    cluster = OneRecord()
    async with fake_broker(cluster) as broker:
        cluster.broker = broker
        async with Consumer([broker.address], settings(default_api_timeout_ms=10)) as consumer:
            await consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
            assert await consumer.position(TopicPartition(TOPIC, 0)) == 0
            with pytest.raises(KafkaError, match="the position of t-1 cannot be found now"):
                await consumer.position(TopicPartition(TOPIC, 1))


class CutOff(OneRecord):
    """Its metadata are of leader epoch 4 or of topic 1 until somebody says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.leaderless.clear()
        self.leader_epoch = 4
        self.topic_id = UUID(int=1)

    @property
    def fetched_from_the_beginning(self) -> int:
        requests = [request for request in self.asked(ApiKey.FETCH) if isinstance(request, FetchRequest)]
        return sum(request.topics[0].partitions[0].fetch_offset == 0 for request in requests)

    def metadata(self) -> MetadataResponse:
        response = super().metadata()
        response.topics[0].topic_id = self.topic_id
        for row in response.topics[0].partitions:
            row.leader_epoch = self.leader_epoch
        return response


@pytest.mark.parametrize(("epoch", "topic"), [(5, 1), (0, 2)])
async def test_a_leader_of_an_earlier_epoch_than_the_last_record_is_not_asked(epoch: int, topic: int) -> None:
    """It would say that there is no such offset, and auto.offset.reset would read everything again."""
    cluster = CutOff()
    async with fake_broker(cluster) as broker:
        cluster.broker = broker
        async with Consumer([broker.address], settings()) as consumer:
            await consumer.assign([TopicPartition(TOPIC, 0)])
            await consumer.partitions_for(TOPIC)
            assert len(await consumer.poll(30_000)) == 1
            consumer._subscription.seek(TopicPartition(TOPIC, 0), 0, 5)
            assert await consumer.poll(20) == []
            assert cluster.fetched_from_the_beginning == 1
            cluster.leader_epoch, cluster.topic_id = epoch, UUID(int=topic)
            assert len(await consumer.poll(30_000)) == 1
