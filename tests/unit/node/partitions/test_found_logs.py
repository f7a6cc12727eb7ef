"""A replica that lies in two log directories: the metadata say which one is right, and the other is set aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID, Node, batch, topic_records

from penstock.log.checkpoint import encode_partition_metadata
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import DamagedDirectoryError
from penstock.metadata.records import MetadataRecord, PartitionRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY

OTHER_NODE = 2


def filled(path: Path, *, records: int) -> UUID:
    """A log directory with a replica that has so many records, and as many are committed; the directory's id."""
    directories = LogDirectories([str(path)], node_id=NODE_ID, random=Random(str(path)), cluster_id="cluster")
    directories.open_all(lambda _: LogConfig())
    directories.begin()
    log = directories.create("orders", 0, TOPIC_ID, LogConfig())
    for _ in range(records):
        log.append_as_leader(memoryview(bytearray(batch(b"x"))), now_ms=NOW_MS, leader_epoch=0)
    directories.checkpoints.write_high_watermarks(directories.logs, {("orders", 0): records})
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
