"""One partition that this node holds: its log, and the machine of the role that its replica has.

The machines say which waiters are due after an event, and here they are called. How a partition is replicated decides
how it is appended to and which replica may read it: the replicas in sync (`IsrPartition`), or a storage group
(`ConsensusPartition`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol
from uuid import UUID

from penstock.log.log_slice import LogSlice
from penstock.log.partition_log import PartitionLog
from penstock.log.validation import CLIENT, AppendOrigin, AppendResult
from penstock.metadata.topics import PartitionImage
from penstock.node.metrics.counts import Traffic
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import is_internal
from penstock.replication.committed import Committed, Kept
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.quota import ReplicationQuota
from penstock.replication.waits import Waiter, Waits

if TYPE_CHECKING:
    from penstock.node.environment.alarm import Turns
    from penstock.node.links.hand_over import HoldsBack

ALL_REPLICAS = -1
"""acks=-1: the answer waits until every in-sync replica has the records."""


class NotAppendingError(KafkaError):
    """Nothing is appended here: another replica leads, or is about to."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.partition = partition


class Later(NamedTuple):
    """What a read begins with is on its way: `waits` calls those who wait for `offset` when it is here."""

    waits: Waits
    offset: int


class Delivers(Protocol):
    """Delivers, as the leader, what waits in a partition's log (`delayed.Delivery`)."""

    @property
    def waiting(self) -> tuple[int, int] | None:
        """How many records wait, and when (ms) the next one is due, or now. None while the log is being read."""

    @property
    def needed_from(self) -> int:
        """All before this offset may go."""

    def delete_before(self, offset: int) -> None: ...

    def proposed(self, batch: memoryview) -> None:
        """The next batch has its offsets. It is in the log once a storage group has agreed."""

    def stop(self) -> None: ...


class Partition(ABC):
    """A replica of one partition on this node. It has a `leader` or a `follower`, from its first metadata on.

    Waiters for the high watermark are in `committed.waits`, waiters for the log's end in `leader.appended`: each is
    called once, when its offset is reached or the epoch of the replica is over.
    """

    __slots__ = (
        "_min_insync_replicas",
        "bytes_read",
        "committed",
        "delivery",
        "follower",
        "follower_quota",
        "index",
        "is_internal",
        "kept",
        "leader_epoch",
        "leader_quota",
        "log",
        "topic",
        "topic_id",
        "traffic",
    )

    owns_log: ClassVar[bool]
    """Whether this replica writes, moves, compacts and deletes its log by itself. If not, its storage group does, and
    what is appended is in the log once it is committed."""

    def __init__(self, topic: str, index: int, topic_id: UUID, log: PartitionLog, committed: Committed) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = -1
        self.follower: PartitionFollower | None = None
        self.committed = committed
        self.kept = Kept()
        self.is_internal = is_internal(topic)
        self.leader_quota: ReplicationQuota | None = None
        """What replicas that the high watermark does not wait for may take from here; None if they are not throttled.
        """
        self.follower_quota: ReplicationQuota | None = None
        """The same for what this replica takes."""
        self.delivery: Delivers | None = None
        """Of the records that wait in the log, where this replica leads."""
        self.traffic = Traffic()
        """What is counted of it, together with other partitions of the topic."""
        self.bytes_read = 0
        """What consumers and followers were sent of it."""
        self._min_insync_replicas = 1

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    @abstractmethod
    def leader(self) -> PartitionLeader | None: ...

    @property
    @abstractmethod
    def role(self) -> PartitionLeader | PartitionFollower | None:
        """What this replica is in its epoch, if it may answer consumers."""

    @property
    @abstractmethod
    def hand_over(self) -> HoldsBack | None:
        """Keeps what arrives while the partition goes to another leader."""

    @abstractmethod
    def append(self, batches: memoryview, *, acks: int, now_ms: int, origin: AppendOrigin = CLIENT) -> AppendResult:
        """Append as the leader: where it is, or will be, or an error as `PartitionLog.append_as_leader` says.

        The caller waits while the partition `lacks` the result's last offset; where one replica has it, and
        `flush.messages` wants nothing, it does not when this returns.
        """

    def lacks(self, last_offset: int, acks: int) -> bool:
        """Whether what was appended up to there is not as safe yet as `acks`, which is not 0, wants it."""
        if acks == ALL_REPLICAS or not self.owns_log:
            return self.committed.high_watermark <= last_offset
        return self.kept.offset <= last_offset

    def waits_of(self, acks: int) -> Waits:
        """For what `lacks` asks for."""
        return self.committed.waits if acks == ALL_REPLICAS or not self.owns_log else self.kept.waits

    # Records that wait until they are due: few topics have such.

    @abstractmethod
    def deliver(self, turns: Turns) -> None:
        """Role or settings may have changed: as the leader, deliver them."""

    @property
    def is_to_deliver(self) -> bool:
        """As the leader, and nobody does it yet."""
        return self.delivery is None and self.leader is not None and self.log.config.penstock_delay_enable

    def stop_delivering(self) -> None:
        """Until there is another leader, or the node starts anew."""
        if self.delivery is not None:
            self.delivery.stop()
            self.delivery = None

    @property
    def waiting(self) -> tuple[int, int] | None:
        """How many records wait here until they are due, and when (ms) the next one is, or now; None where none may,
        and while that is not known yet.
        """
        return None if self.delivery is None else self.delivery.waiting

    @property
    def needed_from(self) -> int:
        """Retention takes nothing from this offset on."""
        if not self.log.config.penstock_delay_enable:
            return self.high_watermark
        return min(
            self.high_watermark, self.log.log_start_offset if self.delivery is None else self.delivery.needed_from
        )

    def delete_before(self, offset: int) -> None:
        """As the leader, have the partition begin there; where records wait in the log, once they have moved on. Raises
        KafkaError.
        """
        if self.delivery is not None:
            self.delivery.delete_before(offset)
        elif not self.log.config.penstock_delay_enable:  # else this node stops
            self.begin_at(offset)

    @abstractmethod
    def begin_at(self, offset: int) -> None:
        """As the leader, have the partition begin there at once. Raises KafkaError."""

    def retain(self, now_ms: int) -> int:
        """Delete the segments that are too old or too many; how many. Raises KafkaError."""
        return self.log.apply_retention(now_ms, high_watermark=self.needed_from)

    @property
    @abstractmethod
    def growth(self) -> Waits:
        """As the leader: who waits for an end of the log."""

    @property
    def next_offset(self) -> int:
        """As the leader: of the next batch that is appended; the log's end, if nothing is under way."""
        return self.log.log_end_offset

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int) -> None:
        """KafkaError where a marker of this version of transactions may not be appended (`Producers.check_marker`)."""
        self.log.producers.check_marker(header, coordinator_epoch, transaction_version)

    @abstractmethod
    def on_fetched(
        self, replica: int, fetch_offset: int, broker_epoch: int, now_ms: int, log_start_offset: int = -1
    ) -> None:
        """A follower (`check_follower`) has all before `fetch_offset`, which is not behind the log's end."""

    @abstractmethod
    def _become(
        self, leader: PartitionLeader | None, follower: PartitionFollower | None
    ) -> PartitionLeader | PartitionFollower | None:
        """Take on a role, or none; returns the former one."""

    # What may be read.

    @property
    def log_start_offset(self) -> int:
        """The first offset of the partition, wherever its record lies."""
        return self.log.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset whose record lies here."""
        return self.log.log_start_offset

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one_batch: bool) -> LogSlice | Later:
        """Whole batches, as `PartitionLog.read` gives them, or when to ask again: where they lie elsewhere."""
        return self.log.read(offset, max_bytes, upper_offset=upper_offset, at_least_one_batch=at_least_one_batch)

    @property
    def high_watermark(self) -> int:
        return self.committed.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records stop: all transactions before it have ended. Reads the log in."""
        return self.log.last_stable_offset(self.committed.high_watermark)

    @property
    def min_insync_replicas(self) -> int:
        return self._min_insync_replicas

    @min_insync_replicas.setter
    def min_insync_replicas(self, count: int) -> None:
        self._min_insync_replicas = count
        if self.leader is not None and self.leader.min_insync_replicas != count:
            before = self.high_watermark
            call(self.leader.on_configured(count))
            self.note_high_watermark(before)

    @abstractmethod
    def note_high_watermark(self, before: int) -> None:
        """It was this one, and may have moved: then it is to be written down, where that is this replica's business."""

    def check_leader(self, current_leader_epoch: int = -1) -> PartitionLeader:
        """The leader's state; KafkaError when this node does not lead in the epoch that the client knows (KIP-320)."""
        self._check_epoch(current_leader_epoch)
        if self.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leader

    def check_follower(self, replica: int, current_leader_epoch: int) -> PartitionLeader:
        """The leader's state, as `check_leader`, for a replica that follows; KafkaError when it is none, or not yet."""
        leader = self.check_leader(current_leader_epoch)
        if replica not in leader.followers:
            is_known_epoch = current_leader_epoch >= 0
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_known_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return leader

    def check_replica(self, current_leader_epoch: int = -1) -> PartitionLeader | PartitionFollower:
        """The state of this replica, if it may answer consumers; KafkaError as for `check_leader` (KIP-392)."""
        return self.check_any(current_leader_epoch)

    def check_any(self, current_leader_epoch: int = -1) -> PartitionLeader | PartitionFollower:
        """The state of this replica, whether it leads or follows; KafkaError as for `check_leader`."""
        self._check_epoch(current_leader_epoch)
        role = self.leader or self.follower
        if role is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return role

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # The term of a leader begins at the log's end when it is elected, as in Kafka; the log hears of it with the first
    # append, so that 10,000 partitions without a write cost no file. Until then these three know better.

    @property
    def _is_new_term(self) -> bool:
        return self.leader is not None and self.leader_epoch > self.log.latest_epoch

    @property
    def latest_epoch(self) -> int:
        """The epoch that the next record gets, or where another node leads, that of the last one; -1 if unknown."""
        return self.leader_epoch if self._is_new_term else self.log.latest_epoch

    def epoch_at(self, offset: int) -> int:
        """The epoch whose term this offset belongs to, or -1."""
        if offset >= self.log.log_end_offset and self._is_new_term:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        latest = self.log.latest_epoch
        if latest < epoch <= self.leader_epoch and self._is_new_term:
            known = epoch if epoch == self.leader_epoch or latest < 0 else latest
            return known, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def on_log_start_moved(self) -> None:
        """The log was told to begin later: followers hear of it."""
        if self.leader is not None:
            call(self.leader.on_log_start_moved())

    # roles

    def obey(self, node_id: int, image: PartitionImage, now_ms: int) -> None:
        """Be what the committed metadata says. KafkaError when the log of a new leader cannot be read."""
        is_new_epoch = image.leader_epoch != self.leader_epoch
        if image.leader == node_id:
            if self.leader is None or is_new_epoch:
                self._lead(node_id, image, now_ms)
            else:
                call(self.leader.on_metadata(image.partition_epoch, image.replicas, image.isr))
        elif self.follower is None or is_new_epoch:
            self._follow(node_id, image)
        else:
            self.follower.on_metadata(is_in_sync=node_id in image.isr)

    def _lead(self, node_id: int, image: PartitionImage, now_ms: int) -> None:
        log_end_offset = self.log.log_end_offset
        woken = self._end_epoch()
        self.leader_epoch = image.leader_epoch
        self.committed.advance(self.log.log_start_offset)  # what was written down of it may be older than that
        self.kept.offset = self.log.kept_offset
        leader = PartitionLeader(
            node_id,
            image.leader_epoch,
            image.partition_epoch,
            image.replicas,
            image.isr,
            log_end_offset=log_end_offset,
            committed=self.committed,
            kept=self.kept,
            min_insync_replicas=self._min_insync_replicas,
            now_ms=now_ms,
        )
        self._become(leader, None)
        call(woken)

    def _follow(self, node_id: int, image: PartitionImage) -> None:
        self.committed.cut_to(self.log.log_end_offset)  # what was written down of it may be newer than the log
        woken = self._end_epoch()
        self.leader_epoch = image.leader_epoch
        follower = PartitionFollower(
            image.leader,
            image.leader_epoch,
            self.committed,
            is_in_sync=node_id in image.isr,
        )
        self._become(None, follower)
        call(woken)

    def resign(self) -> None:
        call(self._end_epoch())

    def end(self) -> None:
        """This node has it no more."""
        self.resign()

    def _end_epoch(self) -> Sequence[Waiter]:
        """Who waits hears of it, also who came while there was no role: a fetch may stand here for what comes."""
        role = self._become(None, None)
        return self.committed.waits.take_all() if role is None else role.on_epoch_over()


def call(waiters: Sequence[Waiter]) -> None:
    for waiter in waiters:
        waiter()
