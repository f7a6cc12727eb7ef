"""ListOffsets: times and named offsets, by version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS, TOPIC_ID, Node, batch, node_on, topic_records

from penstock.metadata.records import PartitionChangeRecord
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.records import Record, encode_batch

LEADER_EPOCH = 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topic "orders": offsets 0 to 3 at NOW+0, +1, +100, +101, then 4 and 5 at +50, +51; the log starts at 1."""
    with node_on(tmp_path, *topic_records()) as node:
        for after_ms in (0, 100, 50):
            records = memoryview(bytearray(batch(b"x", b"y", timestamp_ms=NOW_MS + after_ms)))
            node.partition().append(records, acks=1, now_ms=NOW_MS)
        node.partition().log.advance_log_start(1)
        yield node


def look_up(node: Node, timestamp: int, version: int = 11, **fields: int) -> ListOffsetsPartitionResponse:
    leader_epoch = fields.pop("leader_epoch", -1)
    index = fields.pop("index", 0)
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=leader_epoch)
    topic = ListOffsetsTopic(name="orders", partitions=[wanted])
    response = node.ask(ListOffsetsRequest(replica_id=fields.get("replica_id", -1), topics=[topic]), version)
    assert isinstance(response, ListOffsetsResponse)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (-1, 6)),
        (-2, (-1, 1)),
        (-3, (NOW_MS + 101, 3)),
        (-4, (-1, 1)),
        (-5, (-1, -1)),
        (-6, (-1, -1)),
        (0, (NOW_MS + 1, 1)),
        (NOW_MS + 2, (NOW_MS + 100, 2)),
        (NOW_MS + 50, (NOW_MS + 100, 2)),
        (NOW_MS + 101, (NOW_MS + 101, 3)),
        (NOW_MS + 102, (-1, -1)),
    ],
)
def test_what_is_found(node: Node, timestamp: int, found: tuple[int, int]) -> None:
    got = look_up(node, timestamp)
    assert (ErrorCode(got.error_code), (got.timestamp, got.offset)) == (ErrorCode.NONE, found)
    assert got.leader_epoch == (-1 if got.offset < 0 else LEADER_EPOCH)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_named_offsets_came_with_versions(node: Node, timestamp: int, since: int) -> None:
    assert look_up(node, timestamp, since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert look_up(node, timestamp, since).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_the_end(node: Node, version: int) -> None:
    assert look_up(node, -1, version).offset == 6


def test_errors(node: Node) -> None:
    assert look_up(node, -7).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert look_up(node, -1, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(node, -1, leader_epoch=LEADER_EPOCH - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert look_up(node, -1, leader_epoch=LEADER_EPOCH + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2))
    assert look_up(node, -1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_a_new_leader_does_not_know_the_end_until_its_followers_have_fetched(
    node: Node, version: int, code: ErrorCode
) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2]))
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    node.partition().committed.high_watermark = 3
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1))
    assert look_up(node, -1, version).error_code == code
    assert look_up(node, NOW_MS + 1_000, version).error_code == code
    assert look_up(node, NOW_MS, version).offset == 1
    assert look_up(node, -2, version).offset == 1
    assert look_up(node, -1, version, replica_id=2).offset == 6
    node.partition().on_fetched(2, 6, 1, NOW_MS)
    assert look_up(node, -1, version).offset == 6


def test_any_replica_says_where_its_own_log_ends(node: Node) -> None:
    """As Kafka's tools ask: with the id of no replica and of no consumer."""
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2]))
    node.partition().committed.high_watermark = 3
    assert look_up(node, -1, replica_id=-2).offset == 6
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    assert look_up(node, -1, replica_id=-1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [look_up(node, timestamp, replica_id=-2).offset for timestamp in (-1, -2)] == [6, 1]
    fenced = look_up(node, -1, replica_id=-2, leader_epoch=LEADER_EPOCH)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_partition_that_is_asked_for_twice(node: Node) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    response = node.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted, wanted])]), 11)
    assert isinstance(response, ListOffsetsResponse)
    assert [got.error_code for got in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


def test_an_empty_log(tmp_path: Path) -> None:
    with node_on(tmp_path / "empty", *topic_records()) as node:
        assert [look_up(node, timestamp).offset for timestamp in (-1, -2, -3, 0)] == [0, 0, -1, -1]


@pytest.mark.parametrize("timestamp", [-1, -2, -4])
def test_an_empty_partition_is_in_its_leaders_epoch(tmp_path: Path, timestamp: int) -> None:
    with node_on(tmp_path / "empty", *topic_records()) as node:
        found = look_up(node, timestamp)
        assert (found.offset, found.leader_epoch) == (0, LEADER_EPOCH)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
async def test_a_long_look_up_is_no_work_of_the_event_loop(node: Node, compression: Compression) -> None:
    count = 10_000
    records = [Record(at, NOW_MS + 200 + at, None, b"", []) for at in range(count)]
    node.partition().append(memoryview(encode_batch(records, compression=compression)), acks=1, now_ms=NOW_MS)
    wanted = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS + 199 + count)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    waiting = node.dispatch(request, 11)
    assert isinstance(waiting, Waiting)
    response = await node.wait(request, 11, waiting)
    assert isinstance(response, ListOffsetsResponse)
    assert response.topics[0].partitions[0].offset == 6 + count - 1
