"""A partition that is replicated by the ISR: the leader appends to its own log, and the others fetch from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.log.log_content import LogContent
from penstock.log.log_holder import LentError
from penstock.log.partition_log import PartitionLog
from penstock.log.validation import CLIENT, AppendOrigin, AppendResult
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.partition import ALL_REPLICAS, NotAppendingError, Partition, call
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.committed import Committed
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.waits import Waits

if TYPE_CHECKING:
    from penstock.node.environment.alarm import Turns
    from penstock.node.links.hand_over import HoldsBack


class InSync(Protocol):
    """Keeps the replicas in sync of the partitions that are led here (`InSyncReplicas`)."""

    def watch(self, partition: IsrPartition) -> None:
        """The leader of a partition with followers begins, or is about to append."""

    def has_changed(self, more: int) -> None:
        """What a leader proposed holds: so many more are in sync, or fewer where it is negative."""

    def fetched(self, partition: IsrPartition, replica: int) -> None: ...

    def refused(self, partition: IsrPartition) -> None:
        """The disk of a partition with followers had no room for what was to be appended or flushed, or hangs."""


class IsrPartition(Partition):
    __slots__ = ("_flush", "appender", "dirty", "hand_over", "in_sync", "leader")

    leader: PartitionLeader | None
    hand_over: HoldsBack | None

    owns_log = True

    def __init__(
        self,
        log: PartitionLog,
        topic_id: UUID,
        in_sync: InSync | None = None,
        flush: Callable[[IsrPartition], None] | None = None,
        *,
        high_watermark: int = 0,
        dirty: dict[Partition, None] | None = None,
    ) -> None:
        """`high_watermark` is that of the last stop; the partition enters itself in `dirty` when it moves. `flush` has
        its log flushed soon, and then calls `flushed`: needed where `flush.messages` wants that.
        """
        super().__init__(log.topic, log.partition, topic_id, log, Committed(high_watermark))
        self.leader = self.hand_over = None
        self.appender: PartitionLeader | None = None
        """The leader, unless it hands over and appends nothing any more."""
        self.dirty = {} if dirty is None else dirty
        self.in_sync = in_sync
        self._flush = flush

    @property
    def role(self) -> PartitionLeader | PartitionFollower | None:
        return self.leader or self.follower

    def append(self, batches: memoryview, *, acks: int, now_ms: int, origin: AppendOrigin = CLIENT) -> AppendResult:
        leader, traffic = self.appender, self.traffic
        if leader is None:
            raise NotAppendingError(self)
        traffic.produces += 1
        if acks == ALL_REPLICAS and len(leader.isr) < leader.needed_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leader.isr)} replicas are in sync, {leader.needed_replicas} must be (min.insync.replicas)",
            )
        if leader.followers and self.in_sync is not None:
            self.in_sync.watch(self)
        try:
            result = self.log.append_as_leader(batches, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        except LentError as error:
            raise NotAppendingError(self) from error
        except KafkaError as error:
            is_full = error.code == ErrorCode.KAFKA_STORAGE_ERROR and self.log.health.is_full
            if is_full:
                self.has_no_room()
            raise
        base_offset, last_offset, _, _, is_duplicate = result
        if not is_duplicate:
            end_offset = last_offset + 1
            traffic.bytes_in += len(batches)
            traffic.records_in += end_offset - base_offset
            self.dirty[self] = None
            is_kept = self.log.config.flush_messages > end_offset or self.is_kept()
            due = leader.on_appended(end_offset, is_kept)
            if due:
                call(due)
        return result

    def got_stuck(self) -> None:
        """Its flush found no room, or hangs."""
        self.kept.is_stuck = True
        self.has_no_room()

    def has_no_room(self) -> None:
        """Its disk is full, or hangs."""
        if self.leader is not None and self.leader.followers and self.in_sync is not None:
            self.in_sync.refused(self)

    # flushes

    def is_kept(self) -> bool:
        """Whether the log is as durable as `flush.messages` wants it. If not, it is flushed soon. Raises KafkaError."""
        if self.log.kept_offset == self.log.log_end_offset:
            return True
        assert self._flush is not None, "who sets flush.messages has logs flushed"
        self._flush(self)
        return False

    def when_kept(self, go_on: Callable[[], None]) -> bool:
        """Whether a flush is due: then this is called when that is done, or the epoch of a leader is over. Raises
        KafkaError.
        """
        end_offset = self.log.log_end_offset
        if self.log.config.flush_messages > end_offset or self.is_kept():
            return False
        self.kept.waits.add(end_offset, go_on)
        return True

    def flushed(self) -> None:
        """Those who wait for that go on; another flush may be due. Raises KafkaError."""
        offset, before = self.log.kept_offset, self.high_watermark
        self.kept.is_stuck = False
        if self.leader is not None:
            call(self.leader.on_kept(offset))
        else:
            self.kept.offset = offset
            call(self.kept.waits.take_due(offset))
        self.note_high_watermark(before)
        self.is_kept()

    def begin_at(self, offset: int) -> None:
        self.log.advance_log_start(offset)
        self.dirty[self] = None

    def deliver(self, turns: Turns) -> None:
        if self.is_to_deliver:
            from penstock.node.partitions.delayed import Delivery  # few topics have records that wait

            self.delivery = Delivery(self, turns)

    @property
    def growth(self) -> Waits:
        assert self.leader is not None, "it leads"
        return self.leader.appended

    # followers, as this leader sees them

    def on_fetched(
        self, replica: int, fetch_offset: int, broker_epoch: int, now_ms: int, log_start_offset: int = -1
    ) -> None:
        leader = self.leader
        if leader is None or replica not in leader.followers:
            return
        before = self.high_watermark
        call(leader.on_fetched(replica, fetch_offset, broker_epoch, now_ms, log_start_offset))
        if self.high_watermark != before:  # for each fetch: not by another call
            self.dirty[self] = None
        if self.in_sync is not None and replica not in leader.isr:
            self.in_sync.fetched(self, replica)

    def on_joining(self, replicas: Sequence[int]) -> None:
        """Wait for these followers, so that they can come in sync."""
        if self.leader is not None:
            before = self.high_watermark
            call(self.leader.on_joining(replicas))
            self.note_high_watermark(before)

    def on_isr_refused(self) -> None:
        if self.leader is not None:
            before = self.high_watermark
            call(self.leader.on_refused())
            self.note_high_watermark(before)

    def note_high_watermark(self, before: int) -> None:
        if self.high_watermark != before:
            self.dirty[self] = None

    # this replica as a follower

    def append_fetched(self, batches: bytes | memoryview, leader_high_watermark: int, leader_start_offset: int) -> None:
        """Also takes over the leader's offsets. KafkaError as `PartitionLog.append_as_follower` says."""
        follower, log = self.follower, self.log
        assert follower is not None
        if batches:
            log.append_as_follower(memoryview(batches))
            self.traffic.replication_bytes_in += len(batches)
            self.dirty[self] = None
        before = self.high_watermark
        call(follower.on_appended(log.log_end_offset, leader_high_watermark))
        if leader_start_offset > log.log_start_offset:
            log.advance_log_start(min(leader_start_offset, log.log_end_offset))
            self.dirty[self] = None
        self.note_high_watermark(before)

    def cut_to(self, offset: int, threads: Executor, checkpoint: Callable[[], object] = int) -> asyncio.Future[None]:
        """Remove every batch that ends at `offset` or behind it, by a thread of the disk; the log is lent until that is
        done, and nobody hears where it ends. It is done also if this replica follows no longer.

        `checkpoint` writes down how far logs are compacted. The thread calls it where this one is so less far: after a
        crash what is appended there would count as compacted.
        """
        return self._cut(partial(LogContent.cut_to, offset=offset), threads, offset, checkpoint)

    def begin_anew_at(
        self, offset: int, threads: Executor, checkpoint: Callable[[], object] = int
    ) -> asyncio.Future[None]:
        """In the same way remove everything: the leader's log begins at `offset`, behind the end of this one."""
        # It may come in sync without another record.
        return self._cut(partial(LogContent.start_anew_at, offset=offset, durable=True), threads, 0, checkpoint)

    def _cut(
        self, cut: Callable[[LogContent], None], threads: Executor, offset: int, checkpoint: Callable[[], object]
    ) -> asyncio.Future[None]:
        log, cleaned_to = self.log, self.log.cleaned_to
        content, health = log.lend(), log.health
        log.cleaned_to = min(cleaned_to, offset)

        def work() -> None:
            with health.reporting(f"cutting {log.directory}"):
                cut(content)
            log.cleaned_to = min(log.cleaned_to, content.end_offset)  # the cut may have been within a batch
            if log.cleaned_to < cleaned_to:
                checkpoint()

        done = asyncio.get_running_loop().run_in_executor(threads, work)
        done.add_done_callback(self._take_back)
        return done

    def _take_back(self, cut: asyncio.Future[None]) -> None:
        waiting = self.log.take_back(is_whole=cut.exception() is None)
        if self.log.is_loaded:  # else nobody knows yet where it ends, or its directory has failed meanwhile
            self.was_cut()
        for go_on in waiting:
            go_on()

    def was_cut(self) -> None:
        """The log ends sooner, or begins anew."""
        log = self.log
        self.committed.cut_to(log.log_end_offset)
        call(self.committed.advance(log.log_start_offset))
        if self.role is not None:  # else it may not be held any more
            self.dirty[self] = None

    # roles

    def obey(self, node_id: int, image: PartitionImage, now_ms: int) -> None:
        former, isr, before = self.leader, () if self.leader is None else self.leader.isr, self.high_watermark
        super().obey(node_id, image, now_ms)
        self.note_high_watermark(before)
        leader = self.leader
        if leader is not None and leader is not former:
            self.is_kept()
        if leader is None or self.in_sync is None:
            return
        if leader is former and len(leader.isr) != len(isr):
            self.in_sync.has_changed(len(leader.isr) - len(isr))
        if leader.followers:
            self.in_sync.watch(self)

    def _become(
        self, leader: PartitionLeader | None, follower: PartitionFollower | None
    ) -> PartitionLeader | PartitionFollower | None:
        former = self.role
        self.stop_delivering()
        self.leader = self.appender = leader
        self.follower = follower
        return former
