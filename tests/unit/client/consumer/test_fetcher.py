"""What a consumer makes of a log that was cut (KIP-320) and of a replica that it is sent to (KIP-392)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster

from penstock.client.cluster import ClusterClient
from penstock.client.connection import Connection
from penstock.client.consumer import Consumer
from penstock.client.errors import AuthenticationFailedError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

PARTITION = TopicPartition(TOPIC, 0)
REPLICA = NODE_ID + 1
TOPIC_ID = UUID(int=5)
PATIENCE_MS = 30_000


def batch(offset: int, epoch: int, *values: bytes) -> bytes:
    records = [Record(offset=offset + number, value=value) for number, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=offset, partition_leader_epoch=epoch))


class Scripted(FakeCluster):
    """Answers fetches as a test says, one after the other, and at last with nothing. Both nodes are this broker."""

    def __init__(self, *answers: PartitionData) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked_for: list[FetchPartition] = []

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if not isinstance(request, FetchRequest):
            return super().__call__(header, request)
        (topic,) = request.topics
        self.asked_for += topic.partitions
        data = self.answers.pop(0) if self.answers else PartitionData(partition_index=0, high_watermark=9)
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[data])])

    def metadata(self) -> MetadataResponse:
        response = super().metadata()
        (node,) = response.brokers
        response.brokers.append(MetadataResponseBroker(node_id=REPLICA, host=node.host, port=node.port))
        return response


async def read(cluster: Scripted, count: int, **settings: Any) -> list[bytes | None]:
    """The values of so many records, read from offset 0 on."""
    values: list[bytes | None] = []
    async with fake_broker(cluster) as broker:
        cluster.broker = broker
        async with Consumer([broker.address], ConsumerSettings(retry_backoff_ms=1, **settings)) as consumer:
            await consumer.assign([PARTITION])
            consumer.seek(PARTITION, 0)
            while len(values) < count:
                values += [record.value for record in await consumer.poll(PATIENCE_MS)]
    return values


def sent_to(node_id: int) -> PartitionData:
    return PartitionData(partition_index=0, preferred_read_replica=node_id, high_watermark=2)


FIRST = PartitionData(partition_index=0, records=batch(0, 3, b"a", b"lost"), high_watermark=2)
CUT = PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=3, end_offset=1), high_watermark=2)
INSTEAD = PartitionData(partition_index=0, records=batch(1, 4, b"instead"), high_watermark=2)


async def test_a_log_that_was_cut_is_read_again_from_there() -> None:
    cluster = Scripted(FIRST, CUT, INSTEAD)
    assert await read(cluster, 3) == [b"a", b"lost", b"instead"]
    asked = [(one.fetch_offset, one.last_fetched_epoch) for one in cluster.asked_for]
    assert asked[:3] == [(0, -1), (2, 3), (1, -1)]


async def test_who_wants_no_reset_hears_of_the_cut() -> None:
    with pytest.raises(KafkaError, match="t-0 was cut: its records from offset 1 on"):
        await read(Scripted(FIRST, CUT), 3, auto_offset_reset="none")


async def test_a_batch_without_records_for_the_reader_counts_for_the_epoch() -> None:
    """Else the leader would take the reader for one of a log that was cut."""
    marker = bytes(
        encode_batch([Record(offset=2)], base_offset=2, partition_leader_epoch=5, producer_id=1, is_control=True)
    )
    answer = PartitionData(partition_index=0, records=batch(0, 3, b"a", b"b") + marker, high_watermark=3)
    cluster = Scripted(answer, PartitionData(partition_index=0, records=batch(3, 5, b"c"), high_watermark=4))
    assert await read(cluster, 3) == [b"a", b"b", b"c"]
    assert (cluster.asked_for[1].fetch_offset, cluster.asked_for[1].last_fetched_epoch) == (3, 5)


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_a_replica_that_cannot_serve_is_left_for_the_leader(code: ErrorCode) -> None:
    """Its word that an offset is not there resets nothing: the replica may be behind."""
    sent_there = sent_to(REPLICA)
    refused = PartitionData(partition_index=0, error_code=code)
    cluster = Scripted(sent_there, refused, FIRST)
    assert await read(cluster, 2, auto_offset_reset="none") == [b"a", b"lost"]
    assert [one.fetch_offset for one in cluster.asked_for[:3]] == [0, 0, 0]
    assert len(cluster.asked(ApiKey.METADATA)) == 1 + (code == ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_a_log_that_a_replica_calls_cut_is_so_only_if_the_leader_says_it() -> None:
    """The replica may be behind: where an epoch ended, only the leader knows."""
    sent_there = sent_to(REPLICA)
    cluster = Scripted(FIRST, sent_there, CUT, PartitionData(partition_index=0, records=batch(2, 3, b"c")))
    assert await read(cluster, 3) == [b"a", b"lost", b"c"]
    assert [one.fetch_offset for one in cluster.asked_for[:4]] == [0, 2, 2, 2]


class WithIds(Scripted):
    """As a broker whose topics have ids; it says that the other node leads where it refuses."""

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        response = super().__call__(header, request)
        if isinstance(response, FetchResponse):
            assert self.broker is not None
            assert header.api_version > 12
            host, port = self.broker.address
            response.responses[0].topic_id = TOPIC_ID
            response.node_endpoints = [NodeEndpoint(node_id=REPLICA, host=host, port=port)]
        return response

    def metadata(self) -> MetadataResponse:
        response = super().metadata()
        response.topics[0].topic_id = TOPIC_ID
        return response


@pytest.mark.parametrize("leader_epoch", [1, -1])
async def test_the_leader_that_a_refusal_names_is_asked_and_nobody_about_it(leader_epoch: int) -> None:
    """KIP-951: a refusal says who leads, and where that is; one that says nothing has the leader looked up."""
    leader = LeaderIdAndEpoch(leader_id=REPLICA, leader_epoch=leader_epoch)
    refused = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
    cluster = WithIds(refused, FIRST)
    assert await read(cluster, 2) == [b"a", b"lost"]
    is_told = leader_epoch >= 0
    assert [one.current_leader_epoch for one in cluster.asked_for[:2]] == [-1, leader_epoch]
    assert len(cluster.asked(ApiKey.METADATA)) == 2 - is_told


async def test_a_node_is_asked_in_the_epoch_in_which_it_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another leader that is heard of while there is no connection yet would lend this one its epoch, and a replica
    that leads no longer answers in it as a replica.
    """
    connection = ClusterClient.connection
    elsewhere = {PARTITION: LeaderIdAndEpoch(leader_id=REPLICA, leader_epoch=7)}

    async def learning(self: ClusterClient, node_id: int) -> Connection:
        connected = await connection(self, node_id)
        self.learn(node_id, elsewhere, [])
        return connected

    monkeypatch.setattr(ClusterClient, "connection", learning)
    cluster = Scripted(FIRST, PartitionData(partition_index=0, records=batch(2, 3, b"c")))
    assert await read(cluster, 3) == [b"a", b"lost", b"c"]
    assert [one.current_leader_epoch for one in cluster.asked_for[:2]] == [-1, 7]


class SendsAway(Scripted):
    """Names a replica that nobody knows wherever a consumer says in which rack it is."""

    def __init__(self) -> None:
        super().__init__()
        self.racks: list[str] = []

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if isinstance(request, FetchRequest):
            self.racks.append(request.rack_id)
            self.answers = [sent_to(99) if request.rack_id and len(self.racks) < 100 else FIRST]
        return super().__call__(header, request)


async def test_a_leader_that_names_a_replica_that_is_not_known_is_read_from_itself() -> None:
    """After a look at the metadata, which may know it by then."""
    cluster = SendsAway()
    assert await read(cluster, 2, client_rack="here") == [b"a", b"lost"]
    assert cluster.racks[:2] == ["here", ""]
    assert len(cluster.asked(ApiKey.METADATA)) == 2


async def test_a_batch_that_cannot_be_read_takes_nothing_from_other_partitions() -> None:
    """The error comes with the poll after, and again as long as the batch is as it is."""
    good, bad = batch(0, 3, b"a", b"b"), bytearray(batch(0, 3, b"c"))
    bad[-2] ^= 1

    class TwoPartitions(Scripted):
        def __call__(self, header: RequestHeader, request: Message) -> Reply:
            if not isinstance(request, FetchRequest):
                return super().__call__(header, request)
            rows = [
                PartitionData(
                    partition_index=row.partition,
                    high_watermark=2,
                    records=b"" if row.fetch_offset else bytes((good, bad)[row.partition]),
                )
                for row in request.topics[0].partitions
            ]
            return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=rows)])

    cluster = TwoPartitions()
    cluster.partitions = 2
    other = TopicPartition(TOPIC, 1)
    settings = ConsumerSettings(retry_backoff_ms=1)
    async with fake_broker(cluster) as cluster.broker, Consumer([cluster.broker.address], settings) as consumer:
        await consumer.assign([PARTITION, other])
        for partition in (PARTITION, other):
            consumer.seek(partition, 0)
        assert [record.value for record in await consumer.poll(PATIENCE_MS)] == [b"a", b"b"]
        for _ in range(2):
            with pytest.raises(DecodeError, match="the batch at t-1 offset 0 is wrong"):
                await consumer.poll(PATIENCE_MS)
        assert {partition: place.offset for partition, place in consumer.positions().items()} == {
            PARTITION: 2,
            other: 0,
        }


async def test_a_log_in_that_fails_while_leaders_are_looked_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*what: object) -> None:
        raise AuthenticationFailedError("the password was changed")

    cluster, settings = Scripted(FIRST), ConsumerSettings(retry_backoff_ms=1)
    async with fake_broker(cluster) as cluster.broker, Consumer([cluster.broker.address], settings) as consumer:
        await consumer.assign([PARTITION])
        consumer.seek(PARTITION, 0)
        cluster.leaderless = {0}
        await consumer.cluster.refresh([TOPIC])
        monkeypatch.setattr(consumer.cluster, "refresh", refused)
        with pytest.raises(AuthenticationFailedError):
            await consumer.poll(PATIENCE_MS)
