"""A replica that lies in two log directories: the metadata say which one is right, and the other is set aside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.stand_in import stand_in
from tests.unit.log.directories.opened import write_high_watermarks
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID, Node, batch, topic_records

from penstock.log.checkpoint import encode_partition_metadata
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import DamagedDirectoryError
from penstock.metadata.records import MetadataRecord, PartitionRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY
from penstock.node.partitions import found_logs
from penstock.node.partitions.found_logs import set_aside_strays, settle_twins
from penstock.protocol.errors import ErrorCode, KafkaError

OTHER_NODE = 2


def filled(path: Path, *, records: int) -> UUID:
    """A log directory with a replica that has so many records, and as many are committed; the directory's id."""
    directories = LogDirectories([str(path)], node_id=NODE_ID, random=Random(str(path)), cluster_id="cluster")
    directories.open_all(lambda _: LogConfig())
    directories.begin()
    log = directories.create("orders", 0, TOPIC_ID, LogConfig())
    for _ in range(records):
        log.append_as_leader(memoryview(bytearray(batch(b"x"))), now_ms=NOW_MS, leader_epoch=0)
    write_high_watermarks(directories, {("orders", 0): records})
    (directory_id,) = directories.roots.online_ids
    directories.close()
    return directory_id


class Twins:
    """Two log directories with a replica of the same partition: the first has two records, the other one three."""

    def __init__(self, tmp_path: Path) -> None:
        self.paths = [tmp_path / "p1", tmp_path / "p2"]
        self.ids = [filled(path, records=number) for number, path in enumerate(self.paths, 2)]
        self.node: Node | None = None

    def start(self, *metadata: MetadataRecord) -> Node:
        node = self.node = Node(self.paths[0], {"log.dirs": ",".join(map(str, self.paths))})
        node.open(*metadata)
        return node

    def found(self) -> list[list[str]]:
        """The directories of replicas in each of the two: `orders-0`, or what it is called when it is set aside."""
        names = [sorted(one.name for one in path.iterdir() if one.is_dir()) for path in self.paths]
        return [["stray" if name.endswith("-stray") else name for name in one] for one in names]


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    twins = Twins(tmp_path)
    yield twins
    if twins.node is not None:
        twins.node.directories.abandon()


def metadata(directory: UUID, *, in_sync: bool = True, replicas: tuple[int, ...] = (NODE_ID,)) -> list[MetadataRecord]:
    topic, partition = topic_records()
    assert isinstance(partition, PartitionRecord)
    partition.replicas, partition.directories = list(replicas), [directory] * len(replicas)
    partition.isr, partition.leader = ([NODE_ID], NODE_ID) if in_sync else ([OTHER_NODE], OTHER_NODE)
    return [topic, partition]


@pytest.mark.parametrize("right", [0, 1])
def test_the_one_in_the_directory_that_the_metadata_name_is_right(twins: Twins, right: int) -> None:
    node = twins.start(*metadata(twins.ids[right]))
    assert node.partition().log.parent == str(twins.paths[right])
    assert (node.partition().log.log_end_offset, node.partition().high_watermark) == (right + 2, right + 2)
    assert twins.found()[right] == ["orders-0"]
    assert twins.found()[1 - right] == ["stray"]


@pytest.mark.parametrize("right", [0, 1])
def test_one_of_an_earlier_topic_of_that_name_is_not(twins: Twins, right: int) -> None:
    metadata_file = twins.paths[1 - right] / "orders-0" / "partition.metadata"
    metadata_file.write_text(encode_partition_metadata(UUID(int=8)).decode())
    node = twins.start(*metadata(UNASSIGNED_DIRECTORY))
    assert node.partition().log.parent == str(twins.paths[right])


def test_where_nobody_knows_and_records_may_be_lost_nothing_is_touched(twins: Twins) -> None:
    with pytest.raises(DamagedDirectoryError, match="orders-0 is also in"):
        twins.start(*metadata(UNASSIGNED_DIRECTORY))
    assert twins.found() == [["orders-0"], ["orders-0"]]


@pytest.mark.parametrize("which", ["eligible_leader_replicas", "last_known_elr"])
def test_nor_where_it_may_have_to_lead_though_it_is_not_in_sync(twins: Twins, which: str) -> None:
    topic, partition = metadata(UNASSIGNED_DIRECTORY, in_sync=False, replicas=(NODE_ID, OTHER_NODE))
    setattr(partition, which, [NODE_ID])
    with pytest.raises(DamagedDirectoryError, match="orders-0 is also in"):
        twins.start(topic, partition)
    assert twins.found() == [["orders-0"], ["orders-0"]]


def test_either_will_do_for_a_replica_that_nobody_relies_on(twins: Twins) -> None:
    node = twins.start(*metadata(UNASSIGNED_DIRECTORY, in_sync=False, replicas=(NODE_ID, OTHER_NODE)))
    assert node.partition().follower is not None
    assert sorted(twins.found()) == [["orders-0"], ["stray"]]


@pytest.mark.parametrize("records", [(), metadata(UNASSIGNED_DIRECTORY, in_sync=False, replicas=(OTHER_NODE,))])
def test_both_are_set_aside_where_the_replica_is_not_ours(twins: Twins, records: tuple[MetadataRecord, ...]) -> None:
    twins.start(*records)
    assert twins.found() == [["stray"], ["stray"]]


HERE, THERE = UUID(int=1_001), UUID(int=1_002)


class Directories:
    """In which logs lie of topics and in directories that a test says."""

    def __init__(self, *logs: Any) -> None:
        self.logs = {(log.topic, log.partition): log for log in logs}
        self.twins: list[Any] = []
        self.aside: list[Any] = []
        self.refuses = False

    def topic_id_of(self, log: Any) -> UUID | None:
        return cast("UUID | None", log.topic_id)

    def id_of(self, log: Any) -> UUID:
        return cast("UUID", log.lies_in)

    def set_aside(self, log: Any) -> str:
        if self.refuses:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        self.aside.append(log)
        return "aside"


def log_in(lies_in: UUID, topic_id: UUID | None = TOPIC_ID, *, index: int = 0, topic: str = "orders") -> Any:
    log = SimpleNamespace(topic=topic, partition=index, topic_id=topic_id, lies_in=lies_in, directory=str(lies_in))
    log.parent, log.health = "/a", SimpleNamespace(failure=None)
    return log


def image_with(partition: Any, **topic: Any) -> Any:
    fields = {"topic_id": TOPIC_ID, "partitions": {0: partition}, "storage_group": None} | topic
    groups = {3: SimpleNamespace(replicas=(NODE_ID,)), 4: SimpleNamespace(replicas=(OTHER_NODE,))}
    return SimpleNamespace(topics={"orders": SimpleNamespace(**fields)}, storage_groups=groups)


def partition_in(said: UUID, *, isr: tuple[int, ...] = (), replicas: tuple[int, ...] = (NODE_ID,)) -> Any:
    return SimpleNamespace(
        replicas=replicas, isr=isr, eligible_leader_replicas=(), last_known_elr=(), directory_of=lambda node_id: said
    )


OTHER_ID = UUID(int=99)


@pytest.mark.parametrize(
    ("image", "topic_ids", "right"),
    [
        (image_with(partition_in(THERE)), (TOPIC_ID, TOPIC_ID), 1),
        (image_with(partition_in(HERE)), (TOPIC_ID, TOPIC_ID), 0),
        (image_with(partition_in(HERE)), (OTHER_ID, TOPIC_ID), 1),
        (image_with(partition_in(HERE)), (OTHER_ID, None), 1),
        (image_with(partition_in(THERE)), (None, TOPIC_ID), 1),
        (image_with(partition_in(THERE)), (OTHER_ID, OTHER_ID), 0),
        (image_with(partition_in(THERE, replicas=(OTHER_NODE,))), (TOPIC_ID, TOPIC_ID), 0),
        (image_with(partition_in(THERE), partitions={7: partition_in(THERE)}), (TOPIC_ID, TOPIC_ID), 0),
        (SimpleNamespace(topics={}), (TOPIC_ID, TOPIC_ID), 0),
        (image_with(partition_in(UNASSIGNED_DIRECTORY)), (TOPIC_ID, TOPIC_ID), 0),
        (image_with(partition_in(UNASSIGNED_DIRECTORY, isr=(OTHER_NODE,))), (OTHER_ID, TOPIC_ID), 1),
        (image_with(partition_in(UNASSIGNED_DIRECTORY, isr=(NODE_ID,))), (TOPIC_ID, TOPIC_ID), None),
    ],
)
def test_which_of_two_logs_is_right(image: Any, topic_ids: tuple[UUID | None, ...], right: int | None) -> None:
    logs = [log_in(lies_in, topic_id) for lies_in, topic_id in zip((HERE, THERE), topic_ids, strict=True)]
    directories: Any = Directories(logs[0])
    directories.twins = logs[1:]
    if right is None:
        with pytest.raises(DamagedDirectoryError, match=f"orders-0 is also in {HERE}, and"):
            settle_twins(directories, image, NODE_ID)
        return
    settle_twins(directories, image, NODE_ID)
    assert directories.logs["orders", 0] is logs[right]
    assert (directories.aside, directories.twins) == ([logs[1 - right]], [])


@pytest.mark.parametrize(
    ("image", "changes", "is_stray"),
    [
        (image_with(partition_in(HERE)), {}, False),
        (image_with(partition_in(HERE, replicas=(OTHER_NODE,))), {}, True),
        (image_with(None, partitions={}), {}, True),
        (SimpleNamespace(topics={}), {}, True),
        (SimpleNamespace(topics={}), {"is_member": True}, False),
        (SimpleNamespace(topics={}), {"failure": OSError()}, False),
        (SimpleNamespace(topics={}), {"topic": "__cluster_metadata"}, False),
        (image_with(partition_in(HERE, replicas=(OTHER_NODE,)), storage_group=3), {}, False),
        (image_with(partition_in(HERE), storage_group=4), {}, True),
    ],
)
async def test_what_the_metadata_do_not_know_is_a_stray(image: Any, changes: dict[str, Any], is_stray: bool) -> None:
    log = log_in(HERE, topic=changes.get("topic", "orders"))
    log.health.failure = changes.get("failure")
    directories: Any = Directories(log)
    await set_aside_strays(directories, image, NODE_ID, lambda _: changes.get("is_member", False))
    assert directories.aside == ([log] if is_stray else [])


async def test_what_is_removed_while_strays_are_looked_for_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [log_in(HERE, index=index) for index in range(5)]
    directories: Any = Directories(*logs)
    slept: list[float] = []

    async def sleep(s: float) -> None:
        slept.append(s)
        directories.logs.pop(("orders", 3), None)

    monkeypatch.setattr(found_logs, "LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(found_logs, "asyncio", stand_in(asyncio, sleep=sleep))
    image: Any = SimpleNamespace(topics={})
    await set_aside_strays(directories, image, NODE_ID, lambda _: False)
    assert (directories.aside, slept) == ([logs[0], logs[1], logs[2], logs[4]], [0, 0])
    caplog.clear()
    directories.refuses = True
    await set_aside_strays(directories, image, NODE_ID, lambda _: False)
    assert caplog.messages[0] == "no room"
