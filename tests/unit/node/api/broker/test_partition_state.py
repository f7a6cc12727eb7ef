"""OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs, DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.log.transactions import append_all, ended, written
from tests.unit.node.on_disk import NOW_MS, TOPIC_ID, Node, batch, node_on, topic_records

from penstock.log.disk import Disk
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.records import Record, encode_batch


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topic "orders" with four records in epoch 3 and one in epoch 4; "squeezed" is compacted, one is internal."""
    squeezed = topic_records("squeezed", topic_id=UUID(int=8), cleanup_policy="compact")
    internal = topic_records("__consumer_offsets", topic_id=UUID(int=9))
    with node_on(tmp_path, *topic_records(), *squeezed, *internal) as node:
        node.produce(b"a", b"b", b"c", b"d")
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1))
        node.produce(b"e")
        yield node


@pytest.mark.parametrize(("epoch", "end"), [(0, (0, 0)), (3, (3, 0)), (4, (-1, -1)), (-1, (-1, -1))])
def test_a_term_begins_before_its_first_record(node: Node, epoch: int, end: tuple[int, int]) -> None:
    assert node.partition("squeezed").end_offset_for_epoch(epoch) == end


@pytest.mark.parametrize(("epoch", "end"), [(4, (4, 5)), (5, (4, 5)), (6, (6, 5)), (7, (-1, -1))])
def test_a_later_term_without_records(node: Node, epoch: int, end: tuple[int, int]) -> None:
    for _ in range(2):
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1))
    assert node.partition().leader_epoch == 6
    assert node.partition().end_offset_for_epoch(epoch) == end
    assert (node.partition().epoch_at(4), node.partition().epoch_at(5)) == (4, 6)


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(("epoch", "end"), [(2, (2, 0)), (3, (3, 4)), (4, (4, 5)), (5, (-1, -1))])
def test_where_a_term_ended(node: Node, version: int, epoch: int, end: tuple[int, int]) -> None:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    topic = OffsetForLeaderTopic(topic="orders", partitions=[wanted])
    response = node.ask(OffsetForLeaderEpochRequest(topics=[topic]), version)
    assert isinstance(response, OffsetForLeaderEpochResponse)
    (got,) = response.topics[0].partitions
    assert (got.error_code, (got.leader_epoch, got.end_offset)) == (ErrorCode.NONE, end)


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NONE),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_asks_for_a_term_says_in_which_one_it_is(node: Node, current: int, code: ErrorCode) -> None:
    assert node.partition().leader_epoch == 4
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=3, current_leader_epoch=current)
    topic = OffsetForLeaderTopic(topic="orders", partitions=[wanted])
    response = node.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)
    assert isinstance(response, OffsetForLeaderEpochResponse)
    (got,) = response.topics[0].partitions
    assert (got.error_code, got.end_offset) == (code, -1 if code else 4)


def test_only_the_leader_says_where_terms_ended(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2))
    topic = OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=3)])
    response = node.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)
    assert isinstance(response, OffsetForLeaderEpochResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_term_of_an_unknown_partition(node: Node) -> None:
    topic = OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=9, leader_epoch=1)])
    response = node.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)
    assert isinstance(response, OffsetForLeaderEpochResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete(node: Node, offset: int, topic: str = "orders", version: int = 2) -> tuple[ErrorCode, int]:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    response = node.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), version)
    assert isinstance(response, DeleteRecordsResponse)
    (got,) = response.topics[0].partitions
    return ErrorCode(got.error_code), got.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset_or_the_high_watermark(node: Node, version: int) -> None:
    assert delete(node, 2, version=version) == (ErrorCode.NONE, 2)
    assert delete(node, 1, version=version) == (ErrorCode.NONE, 2)
    assert delete(node, -1, version=version) == (ErrorCode.NONE, 5)
    assert node.partition().log.log_start_offset == 5


@pytest.mark.parametrize(
    ("topic", "offset", "code"),
    [
        ("orders", 6, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("squeezed", 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_deleted(node: Node, topic: str, offset: int, code: ErrorCode) -> None:
    assert delete(node, offset, topic) == (code, -1)


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_and_the_sizes_in_them(node: Node, version: int) -> None:
    response = node.ask(DescribeLogDirsRequest(topics=None), version)
    assert isinstance(response, DescribeLogDirsResponse)
    (directory,) = response.results
    assert directory.log_dir == node.directories.roots.paths[0]
    sizes = {topic.name: [p.partition_size for p in topic.partitions] for topic in directory.topics}
    in_orders = len(batch(b"a", b"b", b"c", b"d")) + len(batch(b"e"))
    assert sizes == {"orders": [in_orders], "squeezed": [0], "__consumer_offsets": [0]}
    assert (directory.total_bytes > directory.usable_bytes > 0) == (version >= 4)


def test_only_the_replicas_that_are_asked_for_are_described(node: Node) -> None:
    topics = [DescribableLogDirTopic(topic="orders", partitions=[0, 7])]
    response = node.ask(DescribeLogDirsRequest(topics=topics), 4)
    assert isinstance(response, DescribeLogDirsResponse)
    (topic,) = response.results[0].topics
    assert (topic.name, [p.partition_index for p in topic.partitions]) == ("orders", [0])


@pytest.mark.parametrize("call", ["bytes_of_files", "space"])
def test_a_directory_that_cannot_be_read_is_an_error_of_its_own(
    node: Node, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    node.partition("squeezed").log.abandon()
    with monkeypatch.context() as broken:
        broken.setattr(Disk, call, refuse)
        response = node.ask(DescribeLogDirsRequest(topics=None), 5)
    assert isinstance(response, DescribeLogDirsResponse)
    (directory,) = response.results
    assert directory.log_dir == node.directories.roots.paths[0]
    assert (directory.error_code, directory.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)


def test_the_producers_of_a_partition(node: Node) -> None:
    record = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"x", headers=[])
    sent = encode_batch([record], producer_id=77, producer_epoch=2, base_sequence=0)
    node.partition().append(memoryview(sent), acks=1, now_ms=NOW_MS)
    asked = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 9])])
    response = node.ask(asked, 0)
    assert isinstance(response, DescribeProducersResponse)
    known, unknown = response.topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 2, 0)
    assert producer.last_timestamp == NOW_MS
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nameless = node.ask(DescribeProducersRequest(topics=[TopicRequest(name="a/b", partition_indexes=[0])]), 0)
    assert isinstance(nameless, DescribeProducersResponse)
    assert nameless.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2))
    assert node.ask(asked, 0).topics[0].partitions[0] == known, "a follower answers for its own log"  # type: ignore[attr-defined]


def test_a_transaction_that_nobody_ends_is_told_with_its_beginning(node: Node) -> None:
    append_all(node.partition().log, ended(8, ControlType.COMMIT), written(8, 0), written(8, 1))
    asked = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])
    response = node.ask(asked, 0)
    assert isinstance(response, DescribeProducersResponse)
    (producer,) = response.topics[0].partitions[0].active_producers
    end_offset = node.partition().log.log_end_offset
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (end_offset - 2, 7)


def test_directories_are_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with node_on(Path("data"), *topic_records()) as node:
        response = node.ask(DescribeLogDirsRequest(topics=None), 4)
        assert isinstance(response, DescribeLogDirsResponse)
        (result,) = response.results
        assert result.log_dir == str(tmp_path / "data")
        assert [topic.name for topic in result.topics] == ["orders"]
