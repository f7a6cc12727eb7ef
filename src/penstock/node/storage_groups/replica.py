"""This node's replica of one storage group: its log, its driver, and what it does of itself while it runs.

| when                                       | what                                                                   |
| ------------------------------------------ | ---------------------------------------------------------------------- |
| it leads                                   | topics of the group come into it, and those that were deleted leave    |
| it leads, and the metadata do not say so   | it claims the lead, and says which voters have caught up               |
| it leads, and others vote than shall       | one of them gets a vote, or loses it                                   |
| enough was applied                         | the group's log is forgotten behind a snapshot                         |
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from uuid import UUID

from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage, PartitionImage, TopicImage
from penstock.node.environment.tasks import Tasks
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.voters import caught_up, next_change
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, ClaimStorageGroupResponse, GroupVoter
from penstock.protocol.uuids import uuid_to_text
from penstock.raft import requests as ask
from penstock.raft.log_name import LogName
from penstock.raft.voters import ReplicaKey
from penstock.replication.storage_groups.entries import PartitionId

logger = logging.getLogger(__name__)


class GroupReplica:
    """Handlers of the consensus core's requests get it (`QuorumNode`)."""

    def __init__(
        self, name: LogName, cluster_id: str, group: StorageGroup, log: PartitionLog, snapshot_bytes: int
    ) -> None:
        """`snapshot_bytes` are applied between two snapshots: a start applies what came after the last one again."""
        self.log = name
        self.cluster_id = cluster_id
        self.group = group
        self.claiming: asyncio.Future[ClaimStorageGroupResponse] | None = None
        """The claim that the controller was not told of yet, or has not answered."""
        self.leaving: asyncio.Task[None] | None = None
        """Looks for a voter to lead instead of this node, of which no controller hears."""
        self.own_log = log
        self._snapshot_bytes = snapshot_bytes
        self._led_since: tuple[int, int] | None = None
        """An epoch, and the ms from which on this replica leads in it."""
        self._driver: QuorumDriver | None = None
        self._opening: set[PartitionId] = set()
        self._opening_in: int | None = None
        self._snapshots = Tasks()
        self._changing: asyncio.Future[ask.Answer] | None = None
        self._wanted: tuple[int, Collection[int]] | None = None
        self._wanted_since_ms = 0

    async def start(self, driver: QuorumDriver) -> None:
        self._driver = driver
        await self.group.start(driver)

    async def stop(self, *, resign: bool = True) -> None:
        if self.claiming is not None:
            self.claiming.cancel()
        if self.leaving is not None:
            self.leaving.cancel()
        if self._driver is not None:
            await self.group.stop(resign=resign)
        await self._snapshots.settle()

    @property
    def number(self) -> int:
        return self.log.partition

    @property
    def is_running(self) -> bool:
        return self._driver is not None and self._driver.is_running

    @property
    def quorum(self) -> QuorumDriver:
        """Answers peers while the replica takes part."""
        assert self._driver is not None, "it has not been started"
        return self._driver

    @property
    def leads(self) -> bool:
        return self.is_running and self.group.leads and not self.group.proposer.gives_way

    def lies_in(self, path: str) -> bool:
        return self.own_log.parent == path or any(one.log.parent == path for one in self.group.partitions.values())

    def logs(self) -> list[PartitionLog]:
        """The group's own and those of its partitions."""
        return [self.own_log, *(one.log for one in self.group.partitions.values())]

    # What belongs to the group.

    def sort_out(self, topics: Iterable[TopicImage], since: int) -> None:
        """While it leads: let partitions of these topics in, which are all of the group's at that offset of the
        metadata, and those of deleted ones out.
        """
        if not self.leads:
            return
        group = self.group
        if self._opening_in != group.proposer.epoch:
            self._opening_in, self._opening = group.proposer.epoch, set()
        self._opening -= group.partitions.keys() | group.removed.keys()
        for topic in topics:
            for index in topic.partitions:
                partition = PartitionId(topic.topic_id, index)
                if partition not in group.partitions and partition not in self._opening:
                    self._opening.add(partition)
                    group.open(partition, topic.name, since)
        for partition in list(group.removed):
            group.close(partition)

    # Who has caught up.

    def caught_up(self, within_ms: int, live: Collection[int], before: Collection[int] = ()) -> list[int]:
        """The leader, and the live nodes whose replicas had all there was at most `within_ms` ago.

        Those of `before` had it when the leader took over: it cannot know better until it has heard them.
        """
        description = self.quorum.describe()
        if self._led_since is None or self._led_since[0] != description.epoch:
            self._led_since = description.epoch, max(voter.last_caught_up_ms for voter in description.voters)
        return caught_up(description, within_ms, live, dict.fromkeys(before, self._led_since[1]))

    # Who votes.

    @property
    def voters(self) -> list[ReplicaKey]:
        driver = self.quorum
        return [voter.key for voter in driver.quorum_at(driver.high_watermark).voters]

    @property
    def is_changing_voters(self) -> bool:
        """Whether the voters may be others in a moment than those on which a majority has agreed."""
        return self._changes or {voter.key for voter in self.quorum.describe().voters} != set(self.voters)

    @property
    def _changes(self) -> bool:
        return self._changing is not None and not self._changing.done()

    def change_voters(self, wanted: Collection[int], within_ms: int) -> None:
        """Where the voters are not these nodes, begin one change; a replica gets a vote if it caught up at most
        `within_ms` ago.
        """
        if self._changes:
            return
        quorum = self.quorum.describe()
        if (quorum.epoch, wanted) != self._wanted:
            self._wanted = quorum.epoch, wanted
            self._wanted_since_ms = max(voter.last_fetch_ms for voter in quorum.voters)
        change = next_change(quorum, wanted, within_ms, self._wanted_since_ms)
        if change is not None:
            self._changing = self.quorum.request(change)
            self._changing.add_done_callback(lambda done: self._changed(change, done))

    def _changed(self, change: ask.AddVoter | ask.RemoveVoter, done: asyncio.Future[ask.Answer]) -> None:
        """A refused change is asked for again, if it is still to be done then."""
        if done.cancelled() or done.exception() is not None:
            return
        answer, does = done.result(), "gets a vote" if isinstance(change, ask.AddVoter) else "votes no longer"
        assert isinstance(answer, ask.VoterChangeAnswer)
        who = f"node {change.key.id} with the directory {uuid_to_text(change.key.directory_id)}"
        if answer.error is ErrorCode.NONE:
            logger.info("%s: %s %s", self.log, who, does)
        else:
            logger.info("%s: not yet: %s %s: %s", self.log, who, does, answer.message or answer.error.name)

    # The lead.

    def claim(self, cluster: ClusterImage, node_id: int, within_ms: int) -> ClaimStorageGroupRequest | None:
        """What the controller is to hear of this group, which this node leads; None if the metadata say it, or if no
        claim of this node's counts. `within_ms`: as for `caught_up`.
        """
        image = cluster.storage_groups[self.number]
        live = [broker.node_id for broker in cluster.brokers.values() if broker.active]
        if node_id not in live:
            return None
        caught_up = self.caught_up(within_ms, live, image.isr)
        directories = {key.id: _directory(cluster, image, key) for key in self.voters}
        wanted = {*image.replicas} - {*image.removing_replicas}
        moves = bool(image.adding_replicas or image.removing_replicas)
        has_arrived = moves and directories.keys() == wanted and not self.is_changing_voters
        is_said = not has_arrived and all(image.directory_of(it) == directories[it] for it in directories)
        if is_said and image.leader == node_id and set(image.isr) == set(caught_up):
            return None
        epoch = self.group.proposer.epoch
        assert epoch is not None, "it leads"
        return ClaimStorageGroupRequest(
            group=self.number,
            group_epoch=epoch,
            caught_up=caught_up,
            voters=[GroupVoter(voter_id=voter_id, directory_id=it) for voter_id, it in directories.items()],
            # What is on its way to change would make this claim's voters those of a moment ago.
            partition_epoch=-1 if self.is_changing_voters else image.partition_epoch,
        )

    # Its log.

    @property
    def writes_snapshot(self) -> bool:
        return bool(self._snapshots)

    def keep_short(self) -> bool:
        """Begin a snapshot, if it is worth one, and none is under way: then true."""
        begins = self.group.bytes_since_snapshot >= self._snapshot_bytes and not self._snapshots
        if begins:
            self._snapshots.start(self._take_snapshot(), f"snapshot of {self.log}")
        return begins

    async def _take_snapshot(self) -> None:
        try:
            await self.group.snapshot()
        except KafkaError as error:
            if self.is_running:
                logger.error("the log of %s is as long as it was: %s", self.log, error.message or error.code.name)
        except Exception:
            logger.exception("the log of %s is as long as it was", self.log)


def _directory(cluster: ClusterImage, image: PartitionImage, voter: ReplicaKey) -> UUID:
    """In which directory a voter has the group's log; one that began anew there has an id of its own."""
    broker = cluster.brokers.get(voter.id)
    is_directory = broker is not None and voter.directory_id in broker.directories
    return voter.directory_id if is_directory else image.directory_of(voter.id)
