"""`penstock cluster drain-status`: what brokers that are to go still have, read from what the cluster keeps anyway."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from penstock.cli.replicas.move_targets import all_cordoned
from penstock.client.admin import Admin, BrokerDescription, LogDirDescription
from penstock.client.admin.partitions import Reassignment
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value


class DrainStatus(Value):
    """Of what is in a storage group all counts as the group does."""

    broker: int
    is_in_service: bool
    is_cordoned: bool | None
    """None: out of service, so nobody can be asked."""
    replicas: int
    leaving: int
    """Of the replicas; others follow, or stay."""
    waiting: int
    """Of those that leave: they go to brokers that are out of service."""
    leads: int
    disk_bytes: int | None

    @property
    def state(self) -> str:
        if not self.replicas:
            return "drained"
        if self.waiting:
            return "waiting"
        return "moving" if self.leaving else "standing"

    @property
    def next_step(self) -> str | None:
        drain = f"`penstock cluster drain {self.broker}`"
        if self.state == "drained":
            forget = f"it is out of service: `penstock cluster unregister --id {self.broker}` forgets it"
            return f"broker {self.broker} has no replicas, and {'may be stopped' if self.is_in_service else forget}"
        if self.state == "waiting":
            waiting = f"{self.waiting} of its replicas wait for brokers that are out of service"
            return f"broker {self.broker}: {waiting}; {drain} finds others"
        if self.state == "standing":
            return f"broker {self.broker}: nothing is on the move; {drain} moves what is there"
        return None


async def look(admin: Admin) -> list[DrainStatus]:
    moving = await admin.partitions.reassignments()  # first: what ends until the next line is seen there
    topics = await admin.topics.describe()
    brokers = (await admin.describe_cluster(include_fenced=True)).brokers
    in_groups = await admin.storage_groups.members(one.name for one in topics if not one.is_internal)
    directories = await admin.describe_log_dirs([one.node_id for one in brokers if not one.is_fenced])
    return statuses(brokers, topics, moving, in_groups, directories)


def statuses(
    brokers: Sequence[BrokerDescription],
    topics: Sequence[TopicMetadata],
    moving: Mapping[TopicPartition, Reassignment],
    in_groups: Mapping[str, int],
    directories: Sequence[LogDirDescription],
) -> list[DrainStatus]:
    """Of brokers that are cordoned or out of service, and of those that replicas leave."""
    serving = {one.node_id for one in brokers if not one.is_fenced}
    cordoned = all_cordoned(serving, directories)
    held_by: defaultdict[int, list[PartitionMetadata]] = defaultdict(list)
    for row in (row for topic in topics for row in topic.partitions.values()):
        for node in row.replicas:
            held_by[node].append(row)
    found = []
    for node in (one.node_id for one in brokers):
        held = held_by[node]
        moves = [move for row in held if (move := moving.get(_moved_as(row.topic_partition, in_groups))) is not None]
        leaving = [move for move in moves if node in move.removing]
        if node in serving and node not in cordoned and not leaving:
            continue
        status = DrainStatus(
            node,
            node in serving,
            node in cordoned if node in serving else None,
            len(held),
            len(leaving),
            sum(not serving.issuperset(move.adding) for move in leaving),
            sum(row.leader == node for row in held),
            _bytes_on(node, directories) if node in serving else None,
        )
        found.append(status)
    return found


def _moved_as(partition: TopicPartition, in_groups: Mapping[str, int]) -> TopicPartition:
    group = in_groups.get(partition.topic)
    return partition if group is None else TopicPartition(STORAGE_GROUPS, group)


def _bytes_on(node: int, directories: Sequence[LogDirDescription]) -> int:
    return sum(it.size_bytes for one in directories if one.node_id == node for it in one.partitions.values())
