"""One storage group on this node: what the driver of its log applies to, and what takes appends while it leads.

    group = StorageGroup(logs, source, settings, now_ms)
    driver = QuorumDriver(application=group, ...)
    await group.start(driver)
    place = group.append(partition, batch, leader_epoch=3)
    await group.acknowledged(partition, place.last_offset)       # on the disks of a majority, and in the log here

What is collected in one turn of the event loop goes as one proposal, or with `linger_ms` what is collected for so long.

A topic that was deleted has no log any more, here or in a moment, and its id never comes again: what the group's log
still says of it is passed over, until it says that the partition has left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Protocol
from uuid import UUID

from penstock.log.partition_log import PartitionLog
from penstock.log.validation import CLIENT, AppendOrigin
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.signal import Signal
from penstock.node.links.hand_over import HoldsBack
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Reading
from penstock.node.storage_groups.copying import LostRecordsError, Source, Wanted, copy_missing, flush_all
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.raft.ports import SnapshotId
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    decode_begins,
    decode_opened,
    decode_proposals,
)
from penstock.replication.storage_groups.proposer import Place, ProposalSettings, Proposer
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, decode_snapshot, encode_snapshot
from penstock.replication.waits import Waiter

logger = logging.getLogger(__name__)


class GroupLogs(Protocol):
    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        """The log that is there, or a new one."""

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        """Whether the topic, which the metadata had at that offset, is known to be deleted."""

    def threads_of(self, log: PartitionLog) -> Executor | None:
        """Those of its disk."""

    def remove(self, log: PartitionLog) -> None:
        """The partition belongs to the group no longer, and no snapshot needs its log."""


class GivesWay(HoldsBack, Protocol):
    """Sees to it that the lead goes to another replica (`StorageGroupHandOver`)."""

    def on_leader(self, leader_id: int | None, epoch: int) -> None: ...


class StorageGroup:
    def __init__(self, logs: GroupLogs, source: Source, settings: ProposalSettings, now_ms: Callable[[], int]) -> None:
        self.partitions: dict[PartitionId, GroupPartition] = {}
        self.removed: dict[PartitionId, PartitionState] = {}
        """Partitions that the group still lists, and whose topics were deleted."""
        self.closed: dict[PartitionId, GroupPartition] = {}
        """Those that have left, and whose logs a snapshot may need."""
        self.lead_changed = Signal[()]()
        self.proposer = Proposer(settings)
        self.bytes_since_snapshot = 0
        self.member_changed = Signal[PartitionId]()
        """A partition has come into the group here, or has left it."""
        self.hand_over: GivesWay | None = None
        """Set while this replica gives the lead to another one, and for some time after that."""
        self.taken_over = self.taken_over_proposals = 0
        """How often this replica got the lead because another one gave it away, and how many proposals that took."""
        self._handed_over: HandedOver | None = None
        self._logs = logs
        self._source = source
        self._now_ms = now_ms
        self._driver: QuorumDriver | None = None
        self._is_started = False
        self._alarm = Alarm(self._propose, now_ms)

    async def start(self, driver: QuorumDriver) -> None:
        """Raises what the driver raises, and KAFKA_STORAGE_ERROR where a partition's log is not whole."""
        self._driver = driver
        await driver.start()
        self._is_started = True

    @property
    def driver(self) -> QuorumDriver:
        assert self._driver is not None, "the group has not been started"
        return self._driver

    @property
    def leads(self) -> bool:
        """Whether this replica leads, and has applied all that was proposed before: it takes appends."""
        return self.proposer.epoch is not None

    @property
    def can_be_read(self) -> bool:
        """Whether this replica leads within its lease: its logs have all that was acknowledged.

        No other has acknowledged since it applied what came before its epoch; it does so once its logs have it.
        """
        epoch = self.proposer.epoch
        return epoch is not None and self.driver.holds_lease(epoch)

    def partition(self, partition: PartitionId) -> GroupPartition:
        """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if it is not in the group, or not yet."""
        found = self.partitions.get(partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the storage group has no such partition")
        return found

    def member(self, topic_id: UUID, number: int) -> GroupPartition | None:
        """None if it is not in the group, or not yet."""
        return self.partitions.get(PartitionId(topic_id, number))

    # What producers and the metadata ask for. All raise KafkaError NOT_LEADER_OR_FOLLOWER.

    def open(self, partition: PartitionId, topic: str, since: int = 0) -> None:
        """It belongs to the group once it is among `partitions`. At the offset `since` the metadata had its topic."""
        self.proposer.open(partition, topic, since, self._now_ms())
        self._schedule()

    def close(self, partition: PartitionId) -> None:
        """The log of the partition is removed when no snapshot needs it."""
        self.proposer.close(partition, self._now_ms())
        self._schedule()

    def begin_at(self, partition: PartitionId, offset: int) -> None:
        """What is committed before this offset shall be deleted: it is, on this replica, when its log begins there."""
        self.partition(partition)
        self.proposer.begin_at(partition, offset, self._now_ms())
        self._schedule()

    def append(
        self, partition: PartitionId, batch: memoryview, *, leader_epoch: int, origin: AppendOrigin = CLIENT
    ) -> Place:
        """Raises KafkaError as `Proposer.append` and `PartitionLog.append_as_leader` say; then nothing was appended."""
        found, now_ms = self.partition(partition), self._now_ms()
        batch, header = found.check(batch, now_ms, origin)
        place = self.proposer.append(partition, found, batch, header, leader_epoch, now_ms)
        if found.observer is not None and not place.is_duplicate:
            found.observer.proposed(batch)
        self._schedule()
        return place

    def check_marker(self, partition: PartitionId, header: BatchHeader, coordinator_epoch: int, version: int) -> None:
        """Raises KafkaError as `Producers.check_marker`."""
        self.proposer.check_marker(partition, self.partition(partition), header, coordinator_epoch, version)

    def acknowledged(self, partition: PartitionId, last_offset: int) -> asyncio.Future[None]:
        """The future is done when the batch that got this offset is on the disks of a majority, and in the log here.

        It fails with NOT_LEADER_OR_FOLLOWER if this replica loses the lead before: then the outcome is unknown.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        found, epoch = self.partition(partition), self.proposer.epoch

        def look() -> None:
            if done.done():
                return
            if found.committed.high_watermark > last_offset and epoch == self.proposer.epoch:
                done.set_result(None)
            else:
                done.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node lost the lead of the group"))

        if found.committed.high_watermark > last_offset:
            done.set_result(None)
        else:
            found.committed.waits.add(last_offset + 1, look)
        return done

    # Proposals.

    def _schedule(self) -> None:
        """Send the proposal that is collected: at the end of this turn, or when it has lingered."""
        deadline_ms = self.proposer.deadline_ms
        if deadline_ms is not None:
            self._alarm.set(deadline_ms)

    def _propose(self) -> None:
        epoch, batch = self.proposer.epoch, self.proposer.take(self._now_ms())
        if batch is None:
            self._schedule()
            return
        assert epoch is not None, "who leads no longer has thrown away what was collected"
        with suppress(KafkaError):
            self._append(batch, epoch)

    def _append(self, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        try:
            done = self.driver.append(batch, epoch)
        except KafkaError as error:
            # What was collected has its offsets, and all that comes after it builds on them.
            logger.warning("nothing could be proposed in epoch %d: %s", epoch, error)
            self._resign()
            self.driver.resign()
            raise
        done.add_done_callback(partial(self._proposed, epoch))
        return done

    def propose_successor(self, successor: int) -> asyncio.Future[int]:
        """This replica appends nothing more in its epoch, and gives up its lease. The future is done when a majority
        has agreed. Raises KafkaError NOT_LEADER_OR_FOLLOWER.
        """
        batch, epoch = self.proposer.hand_over(successor, self._now_ms()), self.proposer.epoch
        assert epoch is not None, "it leads"
        driver, ends_in_ms = self.driver, self.proposer.settings.handover_scheme.ends_in_ms
        driver.event(lambda now_ms: driver.raft.lay_down(epoch, ends_in_ms, now_ms))
        return self._append(batch, epoch)

    def take_back(self, epoch: int) -> None:
        """The successor does not lead: this replica, which has led this epoch, stands again."""
        self.driver.event(lambda now_ms: self.driver.raft.take_back(epoch, now_ms))

    def _proposed(self, epoch: int, done: asyncio.Future[int]) -> None:
        if (done.cancelled() or done.exception() is not None) and epoch == self.proposer.epoch:
            self._resign()

    def _resign(self) -> None:
        """Lead no longer: clients that wait for what is under way are told so."""
        self.proposer.resign()
        waiting: list[Waiter] = []
        for found in self.partitions.values():
            waiting += found.waiting()
        _call(waiting)
        self._lead_changed()

    def _lead_changed(self) -> None:
        for found in list(self.partitions.values()):
            if found.observer is not None:
                found.observer.lead_changed()
        self.lead_changed()

    # The driver's application.

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> None:
        """Entries that a majority has on its disks. An invalid or misplaced one ends the driver."""
        decoded = list(decode_proposals(batches))
        appended = self._apply([entry for entry in decoded if isinstance(entry, Entry)])
        self.bytes_since_snapshot += len(batches)
        for partition in appended:
            found = self.partitions[partition]
            _call(found.committed.advance(found.end_offset))
        for entry in decoded:
            if isinstance(entry, HandedOver):
                self._give_way(entry)
            elif entry.kind is Kind.BEGINS and entry.partition in self.partitions:
                _call(self.partitions[entry.partition].begin_at(decode_begins(entry.content), self._now_ms()))

    def _apply(self, entries: Sequence[Entry]) -> Iterable[PartitionId]:
        appended: dict[PartitionId, list[bytes]] = {}
        for entry in entries:
            if entry.kind is Kind.OPENED:
                if entry.partition not in self.partitions and entry.partition not in self.removed:
                    self._open(entry.partition, *decode_opened(entry.content))
            elif entry.kind is Kind.CLOSED:
                appended.pop(entry.partition, None)
                self._close(entry.partition)
            elif entry.kind is Kind.BEGINS:
                pass  # when what comes before it is appended
            elif entry.partition in self.partitions:
                appended.setdefault(entry.partition, []).append(entry.content)
            elif entry.partition not in self.removed:
                raise DecodeError(f"a batch for {entry.partition}, which is not in the storage group")
        for partition, contents in appended.items():
            self.partitions[partition].apply(contents)
        for entry in entries:
            self.proposer.applied(entry)
        return appended

    def _give_way(self, entry: HandedOver) -> None:
        """The leader of this epoch gave way; voters that have heard of no later epoch learn the successor."""
        driver = self.driver
        if entry.epoch == driver.epoch:
            self._handed_over = entry
        driver.event(lambda now_ms: driver.raft.handed_over(entry.epoch, entry.successor, entry.ends_in_ms, now_ms))

    def _open(self, partition: PartitionId, topic: str, since: int) -> None:
        if self._logs.is_removed(partition.topic_id, since):
            self.removed[partition] = PartitionState(partition, topic, REMOVED, since)
        else:
            self.partitions[partition] = GroupPartition(partition, topic, self._logs.open(partition, topic), since)
            self.closed.pop(partition, None)  # by a leader that has not heard of its end: it has that log again
            self.member_changed(partition)

    def forget(self, topic_id: UUID) -> list[PartitionLog]:
        """The topic was deleted: the group uses the logs of its partitions no more, and gives them out."""
        closed = [self.closed.pop(one) for one in list(self.closed) if one.topic_id == topic_id]
        gone = [self.partitions.pop(one) for one in list(self.partitions) if one.topic_id == topic_id]
        for found in gone:
            self.removed[found.id] = PartitionState(found.id, found.topic, REMOVED, found.since)
            _call(found.waiting())
            self.member_changed(found.id)
        return [one.log for one in (*closed, *gone)]

    def _close(self, partition: PartitionId) -> None:
        self.removed.pop(partition, None)
        found = self.partitions.pop(partition, None)
        if found is not None:
            self.closed[partition] = found
            _call(found.waiting())
            self.member_changed(partition)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """This replica leads only when it has applied all that was proposed before."""
        if leader_id is not None and leader_id == self.driver.local_key.id:
            self.proposer.lead(epoch)
            self._took_over(epoch)
            self._lead_changed()
        elif self.proposer.epoch is not None:
            self._resign()
        if leader_id is not None:
            self._handed_over = None
        if self.hand_over is not None:
            self.hand_over.on_leader(leader_id, epoch)

    def _took_over(self, epoch: int) -> None:
        """Count the proposal that gave the lead away, and each attempt to begin an epoch since."""
        if self._handed_over is not None:
            self.taken_over += 1
            self.taken_over_proposals += 1 + epoch - self._handed_over.epoch

    # Snapshots.

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        """Have what the snapshot stands for on the disk; the result makes its partitions those of the group.

        At the start the disk must have it. Raises LostRecordsError, KafkaError KAFKA_STORAGE_ERROR, DecodeError.
        """
        states = list(decode_snapshot(content))
        wanted = [(self._found(state), state.end_offset) for state in states if not self._is_removed(state)]
        if self._is_started:
            copying = asyncio.ensure_future(copy_missing(wanted, self._fetch, self._is_removed, self._logs.threads_of))
            try:
                yield copying
            finally:
                copying.cancel()
            copying.result()
        else:
            for partition, _ in wanted:
                partition.log.load()  # what is known of a log that was closed cleanly need not be so any more
        lacking = self._lacking(wanted)
        if lacking:
            raise LostRecordsError(lacking)
        return partial(self._begin_anew, states)

    def _lacking(self, wanted: Wanted) -> Wanted:
        return [one for one in wanted if not self._is_removed(one[0]) and one[0].end_offset < one[1]]

    def _is_removed(self, one: PartitionState | GroupPartition) -> bool:
        return one.end_offset == REMOVED or self._logs.is_removed(one.id.topic_id, one.since)

    def _found(self, state: PartitionState) -> GroupPartition:
        known = self.partitions.get(state.id)
        if known is not None:
            return known
        return GroupPartition(state.id, state.topic, self._logs.open(state.id, state.topic), state.since)

    def _begin_anew(self, states: Sequence[PartitionState]) -> None:
        before, partitions, self.removed = self.partitions, dict[PartitionId, GroupPartition](), {}
        for state in states:
            if self._is_removed(state):
                self.removed[state.id] = state.replace(end_offset=REMOVED)
            else:
                found = partitions[state.id] = self._found(state)
                _call(found.committed.advance(found.end_offset))
                _call(found.begin_at(state.start_offset, self._now_ms()))
        gone = [partition for partition in before if partition not in partitions]
        closed = self.closed | {partition: before[partition] for partition in gone}
        self.closed = {partition: left for partition, left in closed.items() if partition not in partitions}
        self.partitions = partitions
        self.bytes_since_snapshot = 0
        for changed in (*gone, *(it for it in self.partitions if it not in before)):
            self.member_changed(changed)

    async def _fetch(self, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        leader_id = self.driver.leader_id
        if leader_id is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads the storage group")
        return await self._source(leader_id, partition, offset)

    async def snapshot(self) -> None:
        """Let go of the group's log behind what is applied, as soon as the partitions' logs have that on the disk.

        Raises KafkaError KAFKA_STORAGE_ERROR: then the log is as it was.
        """
        driver = self.driver
        end_offset, self.bytes_since_snapshot = driver.applied_offset, 0
        closed, partitions = dict(self.closed), list(self.partitions.values())
        states = [
            PartitionState(one.id, one.topic, one.end_offset, one.since, one.log.log_start_offset) for one in partitions
        ]
        states += self.removed.values()
        quorum, epoch = driver.quorum_at(end_offset), driver.snapshot_id_at(end_offset).epoch
        await driver.threads.do(flush_all, [one.log for one in partitions if one.log.is_dirty])
        if driver.log_start_offset > end_offset:
            return  # another replica's snapshot came in between
        await driver.snapshot(encode_snapshot(states, quorum, epoch=epoch, now_ms=self._now_ms()), end_offset)
        for partition, left in closed.items():
            if self.closed.get(partition) is left:
                del self.closed[partition]
                self._logs.remove(left.log)

    def ended(self) -> None:
        """The driver has failed: waiting clients are told that nothing is led here."""
        self._resign()

    async def stop(self, *, resign: bool = True) -> None:
        self._alarm.cancel()
        await self.driver.stop(resign=resign)
        self._resign()


def _call(waiters: Sequence[Waiter]) -> None:
    for waiter in waiters:
        waiter()
