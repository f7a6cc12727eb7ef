"""Partitions that nobody has asked for since the start: known by their logs, and there as soon as they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, node_on, topic_records

from penstock.log.disk import Disk
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from penstock.node.partitions import replicas
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.protocol.requests.own_apis import DescribeCompactionRequest, DescribeCompactionResponse

OTHER_NODE = 2
RECORDS = topic_records(partitions=3, retention_ms="1000")


@pytest.fixture(params=["clean", "crashed"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node that starts on three empty partitions after a clean stop, or a crash."""
    with node_on(tmp_path, *RECORDS):
        pass
    if request.param == "crashed":
        (tmp_path / ".kafka_cleanshutdown").unlink()
    with node_on(tmp_path, *RECORDS) as node:
        yield node


def untouched(node: Node) -> list[int]:
    return sorted(log.partition for _, log in node.table.untouched())


def described(node: Node, *indexes: int) -> dict[int, tuple[int, int]]:
    """Sizes and lags by partition."""
    topics = [DescribableLogDirTopic(topic="orders", partitions=list(indexes))] if indexes else None
    answer = node.ask(DescribeLogDirsRequest(topics=topics), 4)
    assert isinstance(answer, DescribeLogDirsResponse)
    (directory,) = answer.results
    return {
        one.partition_index: (one.partition_size, one.offset_lag)
        for topic in directory.topics
        for one in topic.partitions
    }


def test_a_start_only_knows_them(node: Node) -> None:
    assert list(node.table) == []
    assert untouched(node) == [0, 1, 2]
    assert {log.config.retention_ms for _, log in node.table.untouched()} == {1000}


@contextmanager
def opening(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Node, asyncio.Task[None]]]:
    """A node that is about to take in three empty partitions, one in each turn of the loop."""
    with node_on(directory, *RECORDS):
        pass
    monkeypatch.setattr(replicas, "FOUND_AT_ONCE", 1)
    node = Node(directory)
    for record in RECORDS:
        node.image.apply(record)
    node.directories.open_all(lambda _: node.settings.settings({}).log)
    node.directories.begin()
    try:
        yield node, asyncio.create_task(node.replicas.open_all())
    finally:
        node.directories.abandon()


async def test_what_is_needed_before_a_start_comes_to_it_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opening(tmp_path, monkeypatch) as (node, task):
        await asyncio.sleep(0)
        assert untouched(node) == [0]
        asked_for = node.partition(index=1)
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=2, replicas=[NODE_ID, OTHER_NODE]))
        await task
        assert untouched(node) == [0]
        assert list(node.table) == [asked_for, node.partition(index=2)]


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_topic_that_is_removed_while_a_start_goes_through_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    with opening(tmp_path, monkeypatch) as (node, task):
        for _ in range(turns):
            await asyncio.sleep(0)
        held = len(untouched(node))
        node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
        await task
        assert (untouched(node), list(node.table), list(node.directories.logs)) == ([], [], [])
        gone = [path.name.rpartition("-")[2] for path in tmp_path.iterdir() if path.name.startswith("orders")]
        assert sorted(gone) == ["delete"] * held + ["stray"] * (3 - held)


def test_a_start_looks_into_none_of_their_directories_after_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_on(tmp_path, *RECORDS):
        pass
    seen: list[str] = []
    for name in ("names", "sizes", "read_file", "file_size", "open"):
        real = getattr(Disk, name)

        def noted(self: Disk, path: str, *rest: object, real: object = real, **more: object) -> object:
            seen.append(path)
            return real(self, path, *rest, **more)  # type: ignore[operator]

        monkeypatch.setattr(Disk, name, noted)
    with node_on(tmp_path, *RECORDS):
        assert [path for path in seen if "orders-" in path] == []


def test_one_that_is_asked_for_is_there_as_any_other(node: Node) -> None:
    assert node.produce(b"a", index=1) == (ErrorCode.NONE, 0)
    assert node.partition(index=1).log.log_end_offset == 1
    assert untouched(node) == [0, 2]
    assert [partition.index for partition in node.table] == [1]


def test_one_of_an_earlier_topic_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    with node_on(tmp_path, *RECORDS):
        pass
    other = UUID(int=77)
    with node_on(tmp_path, *topic_records(topic_id=other, partitions=3)) as node:
        assert node.produce(b"a", index=1) == (ErrorCode.NONE, 0)
        assert node.partition(index=1).log.topic_id == other


def test_their_log_directory_describes_them(node: Node) -> None:
    node.produce(b"a", index=1)
    size = node.partition(index=1).log.size_bytes
    assert described(node) == {0: (0, 0), 1: (size, 0), 2: (0, 0)}
    assert described(node, 1, 2) == {1: (size, 0), 2: (0, 0)}
    assert untouched(node) == [0, 2]


def test_compaction_tells_of_them(tmp_path: Path) -> None:
    records = topic_records(partitions=2, cleanup_policy="compact")
    with node_on(tmp_path, *records):
        pass
    with node_on(tmp_path, *records) as node:
        node.broker.cleaner = _Cleaner()  # type: ignore[assignment]
        request = DescribeCompactionRequest()
        answer = node.ask(request, 0)
        assert isinstance(answer, DescribeCompactionResponse)
        assert [(log.topic, log.partition, log.dirty_percent) for log in answer.logs] == [
            ("orders", 0, -1),
            ("orders", 1, -1),
        ]


class _Cleaner:
    def state(self, log: object, high_watermark: int) -> tuple[int, int, str | None]:
        assert high_watermark == 0
        return -1, -1, None


def test_they_obey_what_is_set_meanwhile(node: Node) -> None:
    set_record = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="orders", name="file.delete.delay.ms", value="77"
    )
    node.commit(set_record)
    assert {log.config.file_delete_delay_ms for _, log in node.table.untouched()} == {77}
    assert untouched(node) == [0, 1, 2]


def test_a_new_epoch_of_the_leader_does_not_wake_them(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NODE_ID))
    assert untouched(node) == [0, 1, 2]
    assert node.partition().leader_epoch == 4


def test_one_that_the_metadata_look_for_in_another_directory_is_held_and_told_of(node: Node) -> None:
    elsewhere = [UUID(int=1000)]
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=elsewhere))
    assert untouched(node) == [1, 2]
    assert list(node.replicas.misplaced) == [(TOPIC_ID, 0)]


def test_one_that_gets_a_follower_is_led(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[NODE_ID, OTHER_NODE]))
    leader = node.table.get("orders", 0)
    assert leader is not None
    assert leader.leader is not None
    assert list(leader.leader.followers) == [OTHER_NODE]
    assert untouched(node) == [1, 2]


def test_one_that_goes_elsewhere_is_removed(node: Node, tmp_path: Path) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[OTHER_NODE], leader=OTHER_NODE))
    assert untouched(node) == [1, 2]
    assert not (tmp_path / "orders-0").exists()


def test_one_that_comes_to_be_here_alone_is_held(tmp_path: Path) -> None:
    elsewhere = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[OTHER_NODE], leader=OTHER_NODE)
    with node_on(tmp_path, *topic_records(partitions=1), elsewhere) as node:
        assert (untouched(node), list(node.table)) == ([], [])
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[NODE_ID], leader=NODE_ID))
        assert [partition.index for partition in node.table] == [0]


def test_those_of_a_removed_topic_go(node: Node, tmp_path: Path) -> None:
    node.produce(b"a", index=1)
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert (untouched(node), list(node.table)) == ([], [])
    assert [path.name for path in tmp_path.glob("orders-?")] == []
    assert len(list(tmp_path.glob("orders-*-delete"))) == 3
    assert set(node.directories.logs) == set()


def test_those_that_a_new_image_does_not_know_go(node: Node) -> None:
    image = ClusterImage(node.image.cluster_id)
    for record in topic_records("other", topic_id=UUID(int=5)):
        image.apply(record)
    node.image.become(image)
    node.replicas.on_new_image()
    assert (untouched(node), [str(partition) for partition in node.table]) == ([], ["Partition(other-0)"])


async def test_those_of_a_failed_directory_are_offline(node: Node, tmp_path: Path) -> None:
    node.replicas.on_directory_failed(str(tmp_path))
    assert (untouched(node), list(node.table)) == ([], [])


@pytest.mark.parametrize("change", [{"replicas": [NODE_ID, OTHER_NODE]}, {"replicas": [OTHER_NODE, NODE_ID]}])
def test_what_others_replicate_is_held_from_the_start(tmp_path: Path, change: dict[str, list[int]]) -> None:
    records = [*RECORDS, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, **change)]  # type: ignore[arg-type]
    with node_on(tmp_path, *records):
        pass
    with node_on(tmp_path, *records) as node:
        assert untouched(node) == [1, 2]


def test_what_has_records_is_held_from_the_start(tmp_path: Path) -> None:
    with node_on(tmp_path, *RECORDS) as node:
        node.produce(b"a")
    with node_on(tmp_path, *RECORDS) as node:
        assert untouched(node) == [1, 2]
        assert node.table.get("orders", 0) is not None


def test_a_coordinators_partitions_are_held_from_the_start(tmp_path: Path) -> None:
    records = topic_records("__consumer_offsets")
    with node_on(tmp_path, *records):
        pass
    with node_on(tmp_path, *records) as node:
        assert untouched(node) == []
        assert node.table.get("__consumer_offsets", 0) is not None
