"""What a node does with its replica of a storage group."""

from concurrent.futures import Executor
from pathlib import Path
from random import Random
from uuid import UUID

from tests.unit.node.lone_group import CONFIG, start_alone

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.metadata.topics import PartitionImage, TopicImage
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.replica import GroupReplica
from penstock.raft.log_name import LogName
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.proposer import ProposalSettings

ORDERS = TopicImage("orders", UUID(int=10))
ORDERS.partitions = {0: PartitionImage(1, 0, 0, (1,), (1,))}


class Logs:
    """The logs of partitions, in these directories."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return self._directories.create(topic, partition.number, partition.topic_id, CONFIG)

    def remove(self, log: PartitionLog) -> None:
        raise AssertionError("nothing is removed")

    def threads_of(self, log: PartitionLog) -> Executor | None:
        return None

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        return False


async def _nobody(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
    raise AssertionError("there is nobody to copy from")


async def test_a_leader_that_gives_way_lets_no_partition_in(tmp_path: Path) -> None:
    """Its successor does: what is new in the metadata concerns both."""
    directories = LogDirectories([str(tmp_path)], node_id=1, random=Random(1), cluster_id="test")
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    group = StorageGroup(Logs(directories), _nobody, ProposalSettings(), wall_clock_ms)
    await start_alone(group, directories)
    try:
        own_log = directories.logs["__storage_group", 0]
        replica = GroupReplica(LogName("__storage_group", UUID(int=1), 0), "test", group, own_log, 1_000)
        replica._driver = group.driver
        assert replica.leads
        group.proposer.gives_way = True
        replica.sort_out([ORDERS], 1)
        assert not replica.leads
        assert group.proposer.deadline_ms is None, "nothing is collected"
        group.proposer.gives_way = False
        replica.sort_out([ORDERS], 1)
        assert group.proposer.deadline_ms is not None
    finally:
        await group.stop()
        directories.close()
