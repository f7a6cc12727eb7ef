"""A disk that is full when a topic is created, or when the node stops."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import TOPIC_ID, Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode, KafkaError


def no_room(_: object) -> int:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path) as node:
        yield node


def refuse(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_partition_whose_log_could_not_be_made_is_made_when_there_is_room(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Disk, "make_directory", refuse)
        node.commit(*topic_records())
        with pytest.raises(KafkaError) as caught:
            node.broker.partition("orders", 0)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    by_id = node.broker.partition(TOPIC_ID, 0)
    assert node.broker.partition("orders", 0) is by_id
    assert by_id.leader is not None
    node.produce(b"a")


def test_a_partition_that_nobody_asks_for_is_made_when_there_is_room(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Disk, "make_directory", refuse)
        node.commit(*topic_records())
        assert node.table.get(TOPIC_ID, 0) is None
    node.replicas.obey_late()
    assert node.table.get(TOPIC_ID, 0) is not None


def test_a_replica_whose_log_cannot_be_read_in_is_nothing_until_there_is_room(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.commit(*topic_records())
    partition = node.partition()
    with monkeypatch.context() as full:
        full.setattr(PartitionLog, "log_end_offset", property(no_room))
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2, replicas=[1, 2], isr=[1, 2]))
        assert (partition.leader, partition.follower) == (None, None)
    node.replicas.obey_late()
    assert partition.follower is not None


async def test_a_stop_does_not_fail_for_a_checkpoint(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.commit(*topic_records())
    node.upkeep.start()
    node.produce(b"a")
    with monkeypatch.context() as full:
        full.setattr(Disk, "replace_file", refuse)
        await node.upkeep.stop()
    (line,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert "No space left" in line


def test_a_partition_that_is_made_late_is_as_internal_as_any(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(Disk, "make_directory", refuse)
        node.commit(*topic_records("__consumer_offsets"))
    assert node.produce(b"a", topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert node.partition("__consumer_offsets").log.log_end_offset == 0
