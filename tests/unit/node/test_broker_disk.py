"""A disk that is full when a topic is created, or when the node stops."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import TOPIC_ID, Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.protocol.errors import ErrorCode, KafkaError


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
