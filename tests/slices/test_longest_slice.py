"""Whatever one client asks, nothing holds the event loop for long: each API, with the largest that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.slices import streams
from tests.slices.measured import Case, ask, ask_for, cases, full_node, name_of, newest, older_layouts
from tests.slices.monitor import WatchedNode
from tests.slices.requests import There
from tests.wire.raw_client import TRANSACTION, RawClient, batch_of

from penstock.metadata.resources import ResourceType
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from penstock.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

MANY = 2_000
"""Things that a request asks about: so many that an API that does all of it in one go takes too long."""
MOST_LINES = 50_000
"""Of one slice: some 3 ms."""

MOST_OF_AN_APPLICATION = 5 * MOST_LINES

Full = tuple[WatchedNode, There]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    with full_node(str(tmp_path_factory.mktemp("watched")), MANY, counts_lines=True) as full:
        yield full


@pytest.mark.parametrize("case", list(cases(MANY, newest)), ids=name_of)
def test_no_slice_is_long(full: Full, case: Case) -> None:
    node, there = full
    ask(node, there, case)
    assert node.longest <= MOST_LINES, node.where


LEVELS = [AlterableConfig(name="root", value="INFO") for _ in range(10 * MANY)]
LOGGERS = AlterConfigsResource(resource_type=ResourceType.BROKER_LOGGER, resource_name="1", configs=LEVELS)
NEW = [MetadataRequestTopic(name=f"new-{number}") for number in range(50 * MANY)]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=None), 13),
        (MetadataRequest(topics=None, include_topic_authorized_operations=True), 13),
        (MetadataRequest(topics=NEW, allow_auto_topic_creation=True), 13),
        (DescribeTopicPartitionsRequest(), 0),
        (DescribeLogDirsRequest(topics=None), 4),
        (IncrementalAlterConfigsRequest(resources=[LOGGERS], validate_only=True), 1),
    ],
    ids=[
        "Metadata",
        "Metadata with operations",
        "Metadata of new topics",
        "DescribeTopicPartitions",
        "DescribeLogDirs",
        "Levels of loggers",
    ],
)
def test_nor_is_one_about_all_that_there_is(full: Full, request_: Message, version: int) -> None:
    node, _ = full
    ask_for(node, request_, version)
    assert node.longest <= MOST_LINES, node.where


@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "gzip"}], ids=str)
def test_nor_is_one_that_looks_at_produced_records(full: Full, configs: dict[str, str]) -> None:
    """Each partition has its answer, and what comes behind the request waits for it."""
    node, _ = full
    topic = f"looked-at-{'-'.join(configs.values())}"
    many, few = batch_of(*[b"v"] * 20_000, compression=Compression.ZSTD), batch_of(b"v", b"v")
    data = [PartitionProduceData(index=number, records=few if number else many) for number in range(2)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    with RawClient(node.address) as client:
        client.create_topic(topic, partitions=2, configs=configs)
        client.produce(topic, few)
        node.begin()
        for _ in range(3):
            client.send(request)
        answers = [client.receive().responses for _ in range(3)]
        refused = client.produce(topic, batch_of(*[b"v"] * 20_000, key=None))
    assert node.longest <= MOST_LINES, node.where
    if "cleanup.policy" in configs:
        assert (refused.error_code, len(refused.record_errors)) == (ErrorCode.INVALID_RECORD, 10_000)
    parts = [topics[0].partition_responses for topics in answers]
    found = [{one.index: (one.error_code, one.base_offset) for one in part} for part in parts]
    assert found == [{0: (0, 2 + 20_000 * n), 1: (0, 2 * n)} for n in range(3)]
    assert {len(topics) for topics in answers} == {1}


@pytest.mark.parametrize("at", [1, 2], ids=["in batches", "in one batch"])
def test_nor_is_one_that_says_something_else_of_each_record(full: Full, at: int) -> None:
    """That a member has: as many as it may, each second one accepted, or each released for another while."""
    node, there = full
    group, member, topic = f"each-{at}", str(UUID(int=at)), there.topics[at]
    key: dict[str, Any] = {"group_id": group, "member_id": member}
    with RawClient(node.address) as client:
        earliest = AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=[earliest])
        client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        client.produce(topic, batch_of(*[b"v"] * MANY))
        joining = ShareGroupHeartbeatRequest(**key, subscribed_topic_names=[topic])
        while not (joined := client.ask(joining)).assignment or not joined.assignment.topic_partitions:
            joining = ShareGroupHeartbeatRequest(**key, member_epoch=joined.member_epoch)
        fetched = FetchTopic(topic_id=there.ids[at], partitions=[FetchPartition()])
        limits: dict[str, Any] = {"max_wait_ms": 100, "max_bytes": 1 << 20, "max_records": MANY, "batch_size": MANY}
        epoch, acquired = 0, 0
        while not acquired:
            request = ShareFetchRequest(**key, share_session_epoch=epoch, topics=[fetched], **limits)
            answer = client.ask(request)
            epoch += 1
            acquired = sum(len(part.acquired_records) for topic in answer.responses for part in topic.partitions)
        said = [AcknowledgementBatch(first_offset=n, last_offset=n, acknowledge_types=[1 + n % 2]) for n in range(MANY)]
        delays_ms = list(range(60_000, 60_000 + MANY))
        every: dict[str, Any] = {"acknowledge_types": [2] * MANY, "release_delays_ms": delays_ms, "reason": "busy"}
        at_once = AcknowledgementBatch(first_offset=0, last_offset=MANY - 1, **every)
        parts = [AcknowledgePartition(acknowledgement_batches=said if at == 1 else [at_once])]
        topics = [AcknowledgeTopic(topic_id=there.ids[at], partitions=parts)]
        node.begin()
        answered = client.ask(ShareAcknowledgeRequest(**key, share_session_epoch=epoch, topics=topics))
        assert [part.error_code for topic in answered.responses for part in topic.partitions] == [0]
        client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))
    assert node.longest <= MOST_LINES, node.where


def test_nor_is_one_of_a_streams_application(full: Full) -> None:
    """A topology is looked at in one go, and so are the tasks of a member: as many as they may be."""
    node, there = full
    node.begin()
    epoch, count = streams.join(node.address, "deep")
    assert (count, node.longest <= MOST_OF_AN_APPLICATION) == (MANY, True), node.where
    for request in (*streams.topologies(there.topics), *streams.heartbeats(epoch, count), *streams.descriptions()):
        ask_for(node, request, api_of_request(request).versions[-1])
        assert node.longest <= MOST_OF_AN_APPLICATION, (request.__class__.__name__, node.where)


def test_nor_is_one_of_a_transaction_in_many_partitions(full: Full) -> None:
    """Each partition is added, written down and gets a marker."""
    node, there = full
    with RawClient(node.address) as client:
        client.find_coordinator("many", TRANSACTION)
        request = InitProducerIdRequest(transactional_id="many", transaction_timeout_ms=60_000)
        while (me := client.ask(request, 4)).error_code:
            pass
        node.begin()
        topics = [AddPartitionsToTxnTopic(name="deep", partitions=list(range(there.partitions)))]
        added = client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="many",
                v3_and_below_producer_id=me.producer_id,
                v3_and_below_producer_epoch=me.producer_epoch,
                v3_and_below_topics=topics,
            ),
            3,
        )
        codes = {row.partition_error_code for row in added.results_by_topic_v3_and_below[0].results_by_partition}
        end = EndTxnRequest(
            transactional_id="many", producer_id=me.producer_id, producer_epoch=me.producer_epoch, committed=True
        )
        assert (codes, client.ask(end, 4).error_code) == ({0}, 0)
        while client.ask(request, 4).error_code:  # until all have their markers
            pass
    assert node.longest <= MOST_LINES, node.where


@pytest.mark.parametrize("case", list(cases(5 * MANY, older_layouts)), ids=name_of)
def test_nor_is_one_in_an_older_layout(full: Full, case: Case) -> None:
    """Of one that does all in one go. The last one deletes what the others ask about."""
    node, there = full
    ask(node, there, case)
    assert node.longest <= MOST_LINES, node.where
