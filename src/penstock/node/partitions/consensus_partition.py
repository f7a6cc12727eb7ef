"""A partition that a storage group replicates: only the group writes its log, and all in it is committed.

So to the code for the ISR this replica is the only one: what is in its log is committed, and no follower has to fetch
it. The metadata are a signpost: this replica leads when they name this node, and the group leads here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.log.validation import CLIENT, AppendOrigin, AppendResult
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.partition import NotAppendingError, Partition
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.waits import Waits

if TYPE_CHECKING:
    from penstock.node.environment.alarm import Turns
    from penstock.node.links.hand_over import HoldsBack
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.group_partition import GroupPartition


class ConsensusPartition(Partition):
    """`member` is the partition as its group knows it: log and high watermark are the same objects."""

    __slots__ = ("_named", "_turns", "group", "member")

    owns_log = False

    def __init__(self, topic: str, index: int, topic_id: UUID, group: StorageGroup, member: GroupPartition) -> None:
        super().__init__(topic, index, topic_id, member.log, member.committed)
        self.group = group
        self.member = member
        self._named: PartitionLeader | None = None
        self._turns: Turns | None = None
        member.observe(self)

    @property
    def leader(self) -> PartitionLeader | None:
        """None from the moment at which the group leads here no more."""
        return self._named if self.group.leads else None

    @property
    def role(self) -> PartitionLeader | PartitionFollower | None:
        """A leader without its lease has none: another replica may lead, and have acknowledged more."""
        return (self._named if self.group.can_be_read else None) or self.follower

    @property
    def hand_over(self) -> HoldsBack | None:
        return self.group.hand_over

    def check_leader(self, current_leader_epoch: int = -1) -> PartitionLeader:
        """Also raises KafkaError NOT_LEADER_OR_FOLLOWER when the group has no lease here."""
        leader = super().check_leader(current_leader_epoch)
        if not self.group.can_be_read:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "the lease of the storage group is over: others may lead"
            )
        return leader

    def check_replica(self, current_leader_epoch: int = -1) -> PartitionLeader:
        """Only the leader answers consumers: a follower does not know what was acknowledged."""
        return self.check_leader(current_leader_epoch)

    def append(self, batches: memoryview, *, acks: int, now_ms: int, origin: AppendOrigin = CLIENT) -> AppendResult:
        """Let the group append it. Waiters are also called when the group loses its lead."""
        if self.leader is None or self.group.proposer.gives_way:
            raise NotAppendingError(self)
        log, traffic = self.log, self.traffic
        traffic.produces += 1
        place = self.group.append(self.member.id, batches, leader_epoch=self.leader_epoch, origin=origin)
        if not place.is_duplicate:
            traffic.bytes_in += len(batches)
            traffic.records_in += place.last_offset - place.first_offset + 1
        time_ms = place.timestamp_ms if log.config.uses_log_append_time else -1
        return AppendResult(place.first_offset, place.last_offset, time_ms, log.log_start_offset, place.is_duplicate)

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int) -> None:
        self.group.check_marker(self.member.id, header, coordinator_epoch, transaction_version)

    def begin_at(self, offset: int) -> None:
        """Let the group delete it, on all replicas. Raises KafkaError as `StorageGroup.begin_at` says."""
        if offset > self.log.log_start_offset:
            self.group.begin_at(self.member.id, offset)

    # records that wait

    def deliver(self, turns: Turns) -> None:
        self._turns = turns
        if self.is_to_deliver:
            from penstock.node.partitions.delayed import Delivery  # few topics have records that wait

            self.delivery = Delivery(self, turns)

    def lead_changed(self) -> None:
        """What is known of records that wait rests on what the group has proposed in one epoch."""
        self.stop_delivering()
        if self._turns is not None:
            self.deliver(self._turns)

    def proposed(self, batch: memoryview) -> None:
        if self.delivery is not None:
            self.delivery.proposed(batch)

    def retain(self, now_ms: int) -> int:
        """Where records wait the leader decides for all: others do not know which are still needed."""
        count = super().retain(now_ms)
        if count and self.delivery is not None:
            self.group.begin_at(self.member.id, self.log.log_start_offset)
        return count

    @property
    def growth(self) -> Waits:
        return self.committed.waits

    @property
    def next_offset(self) -> int:
        return self.group.proposer.end_of(self.member.id, self.member)

    def on_fetched(
        self, replica: int, fetch_offset: int, broker_epoch: int, now_ms: int, log_start_offset: int = -1
    ) -> None:
        raise AssertionError("its leader knows of no follower")

    def note_high_watermark(self, before: int) -> None:
        """Its group keeps that."""

    def obey(self, node_id: int, image: PartitionImage, now_ms: int) -> None:
        super().obey(node_id, image._replace(replicas=(node_id,), isr=(node_id,)), now_ms)

    def end(self) -> None:
        super().end()
        if self.member.observer is self:
            self.member.observer = None  # it leads here

    def _become(
        self, leader: PartitionLeader | None, follower: PartitionFollower | None
    ) -> PartitionLeader | PartitionFollower | None:
        self.stop_delivering()
        former = self._named or self.follower
        self._named, self.follower = leader, follower
        if leader is not None:
            leader.deletions = self.member.deletions
        return former
