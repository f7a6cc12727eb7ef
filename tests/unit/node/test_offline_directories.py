"""Log directories that fail while a whole node runs on them, or before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.failing_disk import FailingDisk

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import NOBODY
from penstock.node.assembly.start import RunningNode, StartError, start_node
from penstock.node.environment.environment import Environment
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request
from penstock.protocol.requests.own_apis import DescribeMetricsRequest
from penstock.protocol.schema import Message

TOPIC = "orders"
PATIENCE_S = 20
GROUPS = [f"g{number}" for number in range(8)]


class Running:
    """A node with two log directories, p1 with the metadata log, and p2."""

    def __init__(self, node: RunningNode, disk: FailingDisk) -> None:
        self.node = node
        self.disk = disk
        self.bootstrap = f"{node.endpoints[0].host}:{node.endpoints[0].port}"

    async def ask(self, message: Message, version: int) -> Any:
        reader, writer = await asyncio.open_connection(self.node.endpoints[0].host, self.node.endpoints[0].port)
        writer.write(encode_request(message, version, 1, "test"))
        size = int.from_bytes(await reader.readexactly(4), "big")
        _, response = decode_response(api_of_request(message).key, version, await reader.readexactly(size))
        writer.close()
        return response

    async def create(self, partitions: int = 4) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.topics.create(NewTopic(name=TOPIC, partitions=partitions, replication_factor=1))

    async def produce(self, index: int, acks: int = -1) -> int:
        records = bytes(encode_batch([Record(timestamp_ms=1, value=b"v")]))
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=index, records=records)])
        response = await self.ask(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data]), 9)
        return int(response.responses[0].partition_responses[0].error_code)

    async def commit(self, group: str) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        response = await self.ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
        return int(response.topics[0].partitions[0].error_code)

    def in_directory(self, name: str) -> list[int]:
        table = self.node.broker.partitions
        logs = [partition.log for partition in table] + [log for _, log in table.untouched()]
        return sorted(log.partition for log in logs if log.parent.endswith(name))

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await asyncio.sleep(0.01)

    def leaders(self) -> dict[int, int]:
        topic = self.node.broker.image.topics[TOPIC]
        return {index: partition.leader for index, partition in topic.partitions.items()}


def config(tmp_path: Path, **settings: str) -> BrokerConfig:
    defaults = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": f"{tmp_path}/p1,{tmp_path}/p2",
        "log.flush.interval.messages": "1",
    }
    return BrokerConfig.embedded(defaults | settings)


@asynccontextmanager
async def running(tmp_path: Path, disk: FailingDisk | None = None, **settings: str) -> AsyncIterator[Running]:
    disk = disk or FailingDisk()
    node = await start_node(config(tmp_path, **settings), Environment(disk=disk))
    try:
        yield Running(node, disk)
    finally:
        await node.stop()


async def test_a_directory_that_fails_is_told_and_the_node_lives_on(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.create()
        good, failing = world.in_directory("p1"), world.in_directory("p2")
        assert len(failing) == 2
        assert await world.produce(failing[0]) == ErrorCode.NONE
        world.disk.fail("sync", "p2/")
        assert await world.produce(failing[0]) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await world.produce(failing[0]) == ErrorCode.KAFKA_STORAGE_ERROR, "a retry must not succeed"
        assert await world.produce(failing[1]) == ErrorCode.KAFKA_STORAGE_ERROR
        assert [await world.produce(index) for index in good] == [ErrorCode.NONE] * 2
        await world.until(lambda: all(world.leaders()[index] == NOBODY for index in failing))
        assert all(world.leaders()[index] == 1 for index in good)

        response = await world.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
        offline = {row.partition_index: row.offline_replicas for row in response.topics[0].partitions}
        assert offline == {index: [1] if index in failing else [] for index in range(4)}

        described = await world.ask(DescribeLogDirsRequest(topics=None), 4)
        codes = {Path(result.log_dir).name: result.error_code for result in described.results}
        assert codes == {"p1": ErrorCode.NONE, "p2": ErrorCode.KAFKA_STORAGE_ERROR}
        metrics = {metric.name: metric.value for metric in (await world.ask(DescribeMetricsRequest(), 0)).metrics}
        assert metrics["OfflineLogDirectoryCount"] == "1"
        async with Admin(world.bootstrap) as admin:
            await admin.topics.create(NewTopic(name="later", partitions=4, replication_factor=1))
        assert {p.log.parent for p in world.node.broker.partitions if p.topic == "later"} == {str(tmp_path / "p1")}
        assert not world.node.failed.done()
    assert (tmp_path / "p1" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "p2" / ".kafka_cleanshutdown").exists()

    async with running(tmp_path) as world:  # the disk works again: all is there
        await world.until(lambda: set(world.leaders().values()) == {1})
        assert [await world.produce(index) for index in range(4)] == [ErrorCode.NONE] * 4


async def test_a_bad_directory_at_the_start_costs_what_lies_in_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.create()
        good, failing = world.in_directory("p1"), world.in_directory("p2")
        await world.until(lambda: not world.node.broker.replicas.misplaced)
    disk = FailingDisk()
    disk.fail("look", "p2", always=True)
    async with running(tmp_path, disk) as world:
        assert {index: leader for index, leader in world.leaders().items() if leader == 1} == dict.fromkeys(good, 1)
        assert [await world.produce(index) for index in good] == [ErrorCode.NONE] * 2
        assert await world.produce(failing[0]) == ErrorCode.KAFKA_STORAGE_ERROR
        assert world.in_directory("p1") == good
    async with running(tmp_path) as world:
        await world.until(lambda: set(world.leaders().values()) == {1})
        assert world.in_directory("p2") == failing


@pytest.mark.parametrize("where", ["__cluster_metadata-0/", "orders-"])
async def test_without_the_directory_of_its_metadata_log_the_node_ends(tmp_path: Path, where: str) -> None:
    async with running(tmp_path) as world:
        await world.create()
        world.disk.fail("sync", f"p1/{where}")
        for index in world.in_directory("p1"):
            await world.produce(index)
        async with Admin(world.bootstrap) as admin:
            creating = asyncio.ensure_future(
                admin.topics.create(NewTopic(name="x", partitions=1, replication_factor=1))
            )
            async with asyncio.timeout(PATIENCE_S):
                error = await asyncio.shield(world.node.failed)
            creating.cancel()
        assert f"{tmp_path}/p1" in str(error)
        assert "\n" not in str(error)
    assert not (tmp_path / "p1" / ".kafka_cleanshutdown").exists()


async def test_a_node_without_any_directory_for_data_ends(tmp_path: Path) -> None:
    settings = {"log.dirs": f"{tmp_path}/p2", "metadata.log.dir": f"{tmp_path}/m"}
    async with running(tmp_path, None, **settings) as world:
        await world.create(1)
        world.disk.fail("write", "p2/orders-0")
        assert await world.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        async with asyncio.timeout(PATIENCE_S):
            assert "no other directory for data" in str(await asyncio.shield(world.node.failed))


async def test_groups_of_a_failed_directory_have_no_coordinator_here(tmp_path: Path) -> None:
    async with running(tmp_path, None, **{"offsets.topic.num.partitions": "2"}) as world:
        await world.create(1)
        async with Admin(world.bootstrap) as admin:
            for group in GROUPS:
                await admin.groups.set_offsets(group, {TopicPartition(TOPIC, 0): OffsetAndMetadata(0)})
        world.disk.fail("sync", "p2/__consumer_offsets")
        first = {group: await world.commit(group) for group in GROUPS}
        failing = [group for group, code in first.items() if code != ErrorCode.NONE]
        assert 0 < len(failing) < len(GROUPS)
        await world.until(lambda: len(world.in_directory("p2")) == 0)
        then = {group: await world.commit(group) for group in GROUPS}
        assert {then[group] for group in failing} <= {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert {then[group] for group in GROUPS if group not in failing} == {ErrorCode.NONE}
        assert not world.node.failed.done()


async def test_a_start_without_any_good_directory_says_why(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.fail("make", "p", always=True)
    with pytest.raises(StartError, match="its disk fails: replace it"):
        await start_node(config(tmp_path), Environment(disk=disk))


async def test_a_refused_start_leaves_a_clean_directory_clean(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.create()
    before = (tmp_path / "p2" / ".kafka_cleanshutdown").read_bytes()
    (tmp_path / "p1" / "__cluster_metadata-0" / "quorum-state").write_text("nonsense")
    with pytest.raises(StartError, match="quorum-state"):
        await start_node(config(tmp_path))
    assert (tmp_path / "p2" / ".kafka_cleanshutdown").read_bytes() == before
    assert (tmp_path / "p1" / ".kafka_cleanshutdown").exists()
