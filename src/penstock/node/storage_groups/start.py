"""How this node's replica of a storage group comes to be: its log, its driver, its way to the others.

A replica that has no log yet begins with a snapshot of nothing that names the voters, if the group has not begun: the
metadata have never had a leader of it. Else it begins with nothing, finds the leader among the replicas, and votes only
when the log that it fetches names it: a replica that has lost its disk, or the group's log alone (`replica_id`), or has
left the group and comes back, has forgotten its votes, and is another replica.

In a group that has not begun the first of the replicas stands at once, so that clients wait for no election time-out.
"""

import asyncio
import logging
from functools import partial
from typing import Final
from uuid import UUID

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import NO_LEADER, is_reserved
from penstock.node.environment.context import NodeContext
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.settings import raft_settings
from penstock.node.quorum.state_file import QuorumStateError, StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.links import GroupLinks
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.replica import GroupReplica
from penstock.node.storage_groups.replica_id import read_replica_id, write_replica_id
from penstock.protocol.errors import DecodeError, UnsupportedError
from penstock.protocol.uuids import ZERO_UUID, random_uuid
from penstock.raft.effects import ElectionState
from penstock.raft.log_name import LogName
from penstock.raft.ports import SnapshotId
from penstock.raft.replica import InconsistentLogError
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId, Scheme
from penstock.replication.storage_groups.proposer import ProposalSettings
from penstock.replication.storage_groups.snapshot import encode_snapshot

logger = logging.getLogger(__name__)

REMEDY: Final = "It tries again by itself while its disk is online; else mend that, and restart the node"
"""Logged with a replica that has failed."""
BOOTSTRAP: Final = SnapshotId(0, 0)
SEGMENT_BYTES: Final = 16 * 1024 * 1024
GROUP_LOG: Final = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=-1, cleanup_policy=frozenset())
"""Nothing but a snapshot may stand in for what a group's log says."""


def has_begun(partition: PartitionImage) -> bool:
    return partition.leader != NO_LEADER or partition.leader_epoch > 0


def first_voters(partition: PartitionImage) -> Quorum | None:
    """None if the group has begun, or if it is not known yet on which disks its voters lie."""
    if has_begun(partition):
        return None
    keys = [ReplicaKey(replica, partition.directory_of(replica)) for replica in partition.replicas]
    return None if any(is_reserved(key.directory_id) for key in keys) else Quorum.of(map(Voter, keys))


def group_settings(settings: RaftSettings) -> RaftSettings:
    """Those of the metadata quorum, but that there are leases, that the metadata say who votes, and that idle groups
    fetch less often, for there may be many: just so often that no leader reminds its voters, and no request takes too
    long.
    """
    wait_ms = min(settings.fetch_timeout_ms * 2 // 5, settings.request_timeout_ms * 4 // 5)
    return settings.replace(leases=True, auto_join=False, fetch_max_wait_ms=wait_ms)


class LogsBeside:
    """The logs of the partitions of one group: new ones lie beside its own.

    A disk that is replaced takes a whole replica, or nothing of it. The group's log says nothing any more of what it
    has forgotten, so a replica that has lost that, and has its vote, could do nothing with it.
    """

    def __init__(self, logs: PartitionLogs, directory_id: UUID | None) -> None:
        self._logs = logs
        self._directory_id = directory_id
        self.is_removed, self.remove, self.threads_of = logs.is_removed, logs.remove, logs.threads_of

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return self._logs.open(partition, topic, self._directory_id)


class DamagedGroupLogError(Exception):
    """The group's own log cannot be relied on; says what to do."""

    def __init__(self, why: object, log: PartitionLog) -> None:
        super().__init__(
            f"{why}. If the other replicas are well, move {log.directory} away and start the node again: then this"
            " replica begins anew, without a vote until it has copied what there is"
        )


async def start_replica(
    name: LogName,
    image: PartitionImage,
    context: NodeContext,
    logs: PartitionLogs,
    links: GroupLinks,
    *,
    is_new: bool,
) -> GroupReplica:
    """Raises what its logs give reason for. `is_new`: the group is younger than this process, with no votes yet."""
    config, outside, directories = context.config, context.environment, context.directories
    log = directories.create(
        name.topic, name.partition, name.topic_id, GROUP_LOG, assigned=image.directory_of(config.node_id)
    )
    log.config = GROUP_LOG
    disk = directories.open_files.disk
    stores = partial(_open, disk, log, first_voters(image), outside.now_ms())
    in_thread = partial(asyncio.get_running_loop().run_in_executor, directories.threads_of(log))
    snapshots, stored_log = await in_thread(stores)
    settings = ProposalSettings(
        linger_ms=config.propose_linger_ms,
        max_bytes=config.propose_max_bytes,
        handover_scheme=Scheme(config.storage_group_handover_scheme),
    )
    state = StateFile(disk, log.directory, log.health)
    _check_votes(log, state)
    directory_id = directories.id_of(log) or ZERO_UUID
    replica_id = read_replica_id(disk, log.directory) or directory_id
    has_log = snapshots.latest is not None or log.log_end_offset > 0
    may_have_voted = has_begun(image) and not is_new and image.directory_of(config.node_id) == directory_id
    if may_have_voted and not has_log and replica_id == directory_id:
        replica_id = random_uuid(outside.random)
        await in_thread(write_replica_id, disk, log.directory, log.health, replica_id)
        if config.node_id not in image.adding_replicas:
            logger.warning("the log of %s is not there: this replica begins anew, without a vote", name)
    group = StorageGroup(LogsBeside(logs, directory_id), links.copy, settings, outside.now_ms)
    snapshot_bytes = config.storage_group_max_bytes_between_snapshots
    replica = GroupReplica(name, directories.cluster_id, group, log, snapshot_bytes)
    driver = QuorumDriver(
        Member(
            Voter(ReplicaKey(config.node_id, replica_id)),
            Quorum((), DYNAMIC_VOTERS),
            group_settings(raft_settings(config)),
            REMEDY,
        ),
        Stores(stored_log, snapshots, state, directories.threads_of(log)),
        links.peers(name, image.replicas),
        group,
        Clock(outside.now_ms, outside.elapsed_s),
        outside.random,
    )
    try:
        await replica.start(driver)
    except UnsupportedError:
        raise
    except (InconsistentLogError, DecodeError) as error:
        raise DamagedGroupLogError(error, log) from error
    if image.leader_epoch == 0 and config.node_id == _first(image, context.image):
        driver.event(driver.raft.stand_first)
    driver.event(lambda _: driver.raft.look_around())
    return replica


def _check_votes(log: PartitionLog, state: StateFile) -> None:
    """Raises DamagedGroupLogError where this replica may have voted, and no file holds its vote."""
    try:
        if log.log_end_offset > 0 and state.read() == ElectionState():
            raise DamagedGroupLogError(f"there is no {state.path}, so it could vote twice", log)
    except QuorumStateError as error:
        raise DamagedGroupLogError(error, log) from error


def _first(group: PartitionImage, image: ClusterImage) -> int | None:
    """The voter that stands at once in a group that has not begun: the first of its replicas that is there."""
    return next((one for one in group.replicas if one in image.brokers and image.brokers[one].active), None)


def _open(disk: Disk, log: PartitionLog, voters: Quorum | None, now_ms: int) -> tuple[StoredSnapshots, StoredLog]:
    """What is on the disk, or the voters of a new replica in a group that has not begun. In a thread: it syncs."""
    snapshots = StoredSnapshots(disk, log.directory, log.health)
    if voters is not None and snapshots.latest is None and log.log_end_offset == 0:
        snapshots.write(BOOTSTRAP, encode_snapshot([], voters, epoch=0, now_ms=now_ms))
    return snapshots, StoredLog(log, snapshots)
