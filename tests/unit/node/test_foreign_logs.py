"""A node whose log directories hold what is of no topic that its metadata know: nothing of it is lost or served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from tests.unit.node.stopped_node import running

from penstock.client.connection import Connection
from penstock.log.checkpoint import encode_partition_metadata
from penstock.log.names import PARTITION_METADATA
from penstock.node.assembly.start import RunningNode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.records import Record, encode_batch

FOREIGN = UUID(int=0xFEED)
FIRST_LOG = "00000000000000000000.log"


async def create(connection: Connection, *names: str) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    made = await connection.request(CreateTopicsRequest(topics=topics), CreateTopicsResponse)
    assert [topic.error_code for topic in made.topics] == [0] * len(names)


async def delete(connection: Connection, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
    gone = await connection.request(request, DeleteTopicsResponse)
    assert gone.responses[0].error_code == 0


def append(node: RunningNode, topic: str, count: int) -> Path:
    """Append records to partition 0; the directory of its log."""
    log = node.broker.partition(topic, 0).log
    for _ in range(count):
        log.append_as_leader(
            memoryview(bytearray(encode_batch([Record(timestamp_ms=1, value=b"x")]))), leader_epoch=0, now_ms=1
        )
    return Path(log.directory)


def foreign_log(directory: Path, content: bytes) -> Path:
    """A log of another topic, whose directory has that name."""
    directory.mkdir(exist_ok=True)
    (directory / PARTITION_METADATA).write_bytes(encode_partition_metadata(FOREIGN))
    (directory / FIRST_LOG).write_bytes(content)
    return directory


def test_a_disk_comes_back_with_the_log_of_an_earlier_topic(tmp_path: Path) -> None:
    """The topic was deleted and made again meanwhile, and nothing is in the new log yet."""

    async def run() -> None:
        async with running(tmp_path) as (node, connection):
            await create(connection, "t")
            directory = append(node, "t", 5)
        disk, away = directory.parent, tmp_path / "away"
        disk.rename(away)
        disk.write_text("")
        assert disk.name == "p2", "the metadata log is on the other one"
        async with running(tmp_path) as (node, connection):
            await delete(connection, "t")
            await create(connection, "t")
            again = append(node, "t", 0)
        assert again.parent != disk
        disk.unlink()
        away.rename(disk)
        async with running(tmp_path) as (node, connection):
            assert append(node, "t", 3) == again
            assert node.broker.partition("t", 0).log.log_end_offset == 3
            assert not node.failed.done()
        (aside,) = disk.glob("t-0*")
        assert aside.name.endswith("-stray")
        assert (aside / FIRST_LOG).stat().st_size > 0

    asyncio.run(run())


def test_a_log_that_was_put_there_by_hand_is_not_deleted_with_the_topic(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as (node, connection):
            await create(connection, "t", "other")
            directory = next(tmp_path.glob("*/t-0"))
            content = (append(node, "other", 5) / FIRST_LOG).read_bytes()
        foreign_log(directory, content)
        async with running(tmp_path) as (node, connection):
            await delete(connection, "t")
            await node.broker.replicas.settled()
            assert (directory / FIRST_LOG).read_bytes() == content
            await create(connection, "t")
            assert node.broker.partition("t", 0).log.log_end_offset == 0
        (aside,) = tmp_path.glob("*/t-0.*-stray")
        assert (aside / FIRST_LOG).read_bytes() == content

    asyncio.run(run())


def test_a_copy_of_no_replica_is_set_aside(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path):
            pass
        copy = foreign_log(tmp_path / "p1" / f"t-0.{FOREIGN.hex}-future", b"records")
        async with running(tmp_path):
            pass
        (aside,) = copy.parent.glob("t-0*")
        assert aside.name.endswith("-stray")
        assert (aside / FIRST_LOG).read_bytes() == b"records"

    asyncio.run(run())
