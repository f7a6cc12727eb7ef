"""A node whose metadata have a topic of the metadata log's own name: it keeps its log, and the topic can be deleted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.stopped_node import METADATA, append, running, stop_a_node
from tests.wire.naming import apis_that_name_topics, request_that_names, told

from penstock.client.connection import Connection
from penstock.log.checkpoint import decode_partition_metadata
from penstock.log.names import PARTITION_METADATA
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from penstock.metadata.resources import ResourceType
from penstock.node.assembly.start import RunningNode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey, api_of

TOPIC_ID = UUID(int=0xABC)
PARTITIONS = 2


def add_topic(tmp_path: Path, **configs: str) -> None:
    """The metadata have the topic, as an earlier version let clients create it."""
    append(
        encode_record(TopicRecord(name=CLUSTER_METADATA, topic_id=TOPIC_ID)),
        *(
            encode_record(
                ConfigRecord(
                    resource_type=ResourceType.TOPIC,
                    resource_name=CLUSTER_METADATA,
                    name=name.replace("_", "."),
                    value=value,
                )
            )
            for name, value in configs.items()
        ),
        *(
            encode_record(
                PartitionRecord(partition_id=index, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1, leader_epoch=0)
            )
            for index in range(PARTITIONS)
        ),
    )(tmp_path)


@pytest.fixture
def with_topic(tmp_path: Path) -> Path:
    """Directories whose metadata have the topic."""
    stop_a_node(tmp_path)
    add_topic(tmp_path)
    return tmp_path


def assert_metadata_log_is_whole(tmp_path: Path) -> None:
    (log,) = tmp_path.glob(f"*/{CLUSTER_METADATA}*")
    assert log == tmp_path / "p1" / METADATA
    assert decode_partition_metadata((log / PARTITION_METADATA).read_bytes(), "") == CLUSTER_METADATA_ID


def test_no_broker_holds_it_and_it_can_be_deleted(with_topic: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running(with_topic) as (node, connection):
            assert f"`penstock topics --delete --topic {CLUSTER_METADATA}` removes it" in caplog.text
            for name in (CLUSTER_METADATA, TOPIC_ID):
                with pytest.raises(KafkaError) as raised:
                    node.broker.partition(name, 0)
                assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert_metadata_log_is_whole(with_topic)
            made = await connection.request(
                CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]),
                CreateTopicsResponse,
            )
            assert made.topics[0].error_code == 0
            gone = await connection.request(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=CLUSTER_METADATA)]), DeleteTopicsResponse
            )
            assert gone.responses[0].error_code == 0
        assert_metadata_log_is_whole(with_topic)
        caplog.clear()
        async with running(with_topic) as (node, _):
            assert node.broker.image.topics.keys() == {"t"}
            assert not caplog.text

    asyncio.run(run())


async def leads(node: RunningNode, topic: str) -> None:
    """Wait until this node leads partition 0."""
    while True:
        with suppress(KafkaError):
            node.broker.check_leader(node.broker.partition(topic, 0))
            return
        await asyncio.sleep(0)


def test_nor_does_a_storage_group_that_it_is_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running(tmp_path) as (node, connection):
            topic = CreatableTopic(
                name="grouped",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="replication.mode", value="consensus")],
            )
            await connection.request(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
            await leads(node, "grouped")
        add_topic(tmp_path, replication_mode="consensus", storage_group="0")
        async with running(tmp_path) as (node, connection):
            await leads(node, "grouped")
            assert caplog.text.count("penstock topics --delete") == 1
            gone = await connection.request(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=CLUSTER_METADATA)]), DeleteTopicsResponse
            )
            assert gone.responses[0].error_code == 0
        assert_metadata_log_is_whole(tmp_path)
        async with running(tmp_path) as (node, _):
            await leads(node, "grouped")

    asyncio.run(run())


IN_THE_METADATA = frozenset(
    (
        ApiKey.METADATA,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_QUORUM,
        OwnApiKey.COMMITTED_POSITIONS,
        OwnApiKey.DESCRIBE_HOLDERS,
    )
)
"""What shows a topic that is there, deletes it, notes what groups and transactions say of it, means the log, or is not
served before a feature is on."""


def test_nothing_else_can_be_done_with_it(with_topic: Path) -> None:
    async def ask(connection: Connection, key: AnyApiKey) -> None:
        request = request_that_names(key, CLUSTER_METADATA, TOPIC_ID, directory=with_topic / "p1")
        answer = await connection.request(request, api_of(key).response_class)
        is_creation = key is ApiKey.CREATE_TOPICS
        expected = ErrorCode.INVALID_REQUEST if is_creation else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert set(told(answer)) == {expected}, key

    async def run() -> None:
        async with running(with_topic) as (node, connection):
            before = dict(node.broker.image.topics[CLUSTER_METADATA].partitions)
            for key in apis_that_name_topics(node.broker.handlers):
                if key not in IN_THE_METADATA:
                    await ask(connection, key)
            assert node.broker.image.topics[CLUSTER_METADATA].partitions == before
        assert_metadata_log_is_whole(with_topic)

    asyncio.run(run())
