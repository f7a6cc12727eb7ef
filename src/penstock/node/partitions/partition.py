"""One partition that this node holds: its log, what the leader knows of its replicas, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from penstock.log.partition_log import AppendResult, PartitionLog
from penstock.log.validation import AppendOrigin
from penstock.metadata.topics import INTERNAL_TOPICS
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.partition_leader import PartitionLeader

ALL_REPLICAS = -1
"""acks=-1: the answer waits until every in-sync replica has the records."""


class Partition:
    """A replica of one partition on this node. `leader` is None where another node leads.

    `last_stable_offset` is where a read_committed reader stops; `min_insync_replicas` is the topic's config.
    """

    __slots__ = (
        "_waiters",
        "dirty",
        "index",
        "is_internal",
        "leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, index: int, topic_id: UUID, log: PartitionLog, leader_epoch: int = -1) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.leader: PartitionLeader | None = None
        self.is_internal = topic in INTERNAL_TOPICS
        self.min_insync_replicas = 1
        self.dirty: dict[Partition, None] = {}
        """Where the partition enters itself when it was appended to."""
        self._waiters: dict[Callable[[], None], None] = {}

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def high_watermark(self) -> int:
        """The offset before which every in-sync replica has all records."""
        leader = self.leader
        return self.log.log_start_offset if leader is None else leader.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset before which no transaction is open; at most the high watermark."""
        return self.high_watermark

    def check_leader(self, current_leader_epoch: int = -1) -> PartitionLeader:
        """The leader's state; KafkaError when this node does not lead in the epoch that the client knows (KIP-320)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leader

    # The term of a leader begins at the log's end when it is elected, as in Kafka; the log hears of it with the first
    # append, so that 10,000 partitions that nobody writes to cost no file. Until then these three know better.

    @property
    def _is_new_term(self) -> bool:
        return self.leader is not None and self.leader_epoch > self.log.leader_epochs.latest

    @property
    def latest_epoch(self) -> int:
        """The epoch that the next record gets, or where another node leads, that of the last one; -1 if unknown."""
        return self.leader_epoch if self._is_new_term else self.log.leader_epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The epoch whose term this offset belongs to, or -1."""
        if offset >= self.log.log_end_offset and self._is_new_term:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        latest = self.log.leader_epochs.latest
        if latest < epoch <= self.leader_epoch and self._is_new_term:
            known = epoch if epoch == self.leader_epoch or latest < 0 else latest
            return known, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def append(
        self, batches: memoryview, *, acks: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        """Append as the leader: an AppendResult, or KafkaError as `PartitionLog.append_as_leader` says.

        With acks=-1 the caller waits until `high_watermark` has passed the result's last offset
        (`on_high_watermark`); on a partition with one replica that is so when this returns.
        """
        leader = self.leader
        if leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ALL_REPLICAS and len(leader.isr) < self.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leader.isr)} replicas are in sync, min.insync.replicas is {self.min_insync_replicas}",
            )
        result = self.log.append_as_leader(batches, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        self.dirty[self] = None
        if leader.on_appended(self.log.log_end_offset) and self._waiters:
            self.wake()
        return result

    def lead(self, node_id: int, leader_epoch: int, isr: tuple[int, ...], high_watermark: int) -> None:
        """Lead from now on; `high_watermark` is the one known from before."""
        if self.leader is not None:
            high_watermark = self.leader.high_watermark
        self.leader_epoch = leader_epoch
        log_end_offset = self.log.log_end_offset
        self.leader = PartitionLeader(node_id, leader_epoch, isr, log_end_offset, min(high_watermark, log_end_offset))
        self.wake()

    def stop_leading(self, leader_epoch: int) -> None:
        """Another node leads from now on: who waits here is told."""
        self.leader_epoch = leader_epoch
        self.leader = None
        self.wake()

    def on_high_watermark(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` at each move of the high watermark, and when leadership ends, until `forget` takes it back."""
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        """Take `waiter` back; one that is not there is fine."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Call everybody who waits."""
        for waiter in list(self._waiters):
            waiter()
