from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.node.environment.context import NodeContext
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.replication.storage_groups.entries import PartitionId

KNOWN, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("topic_id", "since", "is_removed"),
    [(KNOWN, 5, False), (KNOWN, 11, False), (OTHER, 9, True), (OTHER, 10, True), (OTHER, 11, False)],
    ids=["there", "there, and made anew", "gone", "gone just now", "the metadata are behind"],
)
def test_a_topic_is_removed_if_it_was_known_and_is_no_more(topic_id: UUID, since: int, is_removed: bool) -> None:
    image = ClusterImage()
    image.apply(TopicRecord(name="orders", topic_id=KNOWN))
    image.applied_to(10)
    context = cast("NodeContext", SimpleNamespace(image=image, directories=None, now_ms=None))
    assert PartitionLogs(context, lambda _: CONFIG).is_removed(topic_id, since) is is_removed


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[LogDirectories]:
    made = LogDirectories([str(tmp_path)], node_id=1, random=Random(1), cluster_id="test")
    made.open_all(lambda _: CONFIG)
    made.begin()
    yield made
    made.close()


def logs_in(directories: LogDirectories) -> PartitionLogs:
    context = SimpleNamespace(image=ClusterImage(), directories=directories, now_ms=lambda: 0)
    return PartitionLogs(cast("NodeContext", context), lambda _: CONFIG)


def test_a_log_is_removed_unless_another_one_has_its_place(directories: LogDirectories) -> None:
    logs = logs_in(directories)
    first = logs.open(PartitionId(KNOWN, 0), "orders", None)
    logs.remove(first)
    assert directories.logs == {}
    second = logs.open(PartitionId(OTHER, 0), "orders", None)
    logs.remove(first)
    assert directories.logs == {("orders", 0): second}


def test_a_topic_whose_logs_belong_to_a_driver_has_none_here(directories: LogDirectories) -> None:
    with pytest.raises(KafkaError, match="its log is somebody else's"):
        logs_in(directories).open(PartitionId(KNOWN, 0), STORAGE_GROUPS, None)


def test_a_log_that_is_there_is_as_the_topic_wants_it_by_now(directories: LogDirectories) -> None:
    logs = logs_in(directories)
    there = directories.create("orders", 0, KNOWN, LogConfig())
    assert logs.open(PartitionId(KNOWN, 0), "orders", None) is there
    assert there.config is CONFIG


def test_a_topic_whose_partitions_have_no_replicas_any_more_is_removed() -> None:
    topics = {KNOWN: SimpleNamespace(has_replicas=False), OTHER: SimpleNamespace(has_replicas=True)}
    image = SimpleNamespace(topics_by_id=topics, offset=10)
    context = cast("NodeContext", SimpleNamespace(image=image, directories=None, now_ms=None))
    logs = PartitionLogs(context, lambda _: CONFIG)
    assert [logs.is_removed(one, since) for one in (KNOWN, OTHER) for since in (5, 11)] == [True, True, False, False]
