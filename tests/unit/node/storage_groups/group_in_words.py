"""A storage group beside plain words of what is so in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.unit.node.lone_group import AtOnce

from penstock.log.config import LogConfig
from penstock.log.producer_state import Producers
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch, iterate_batches
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    decode_opened,
    decode_proposals,
)
from penstock.replication.storage_groups.proposer import ProposalSettings
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, decode_snapshot

ME, OTHER = 1, 2
NOT_LEADER, UNKNOWN = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
QUORUM = Quorum.of([Voter(ReplicaKey(ME)), Voter(ReplicaKey(OTHER))])


class Log:
    """A partition's log in memory."""

    def __init__(self) -> None:
        self.config, self.producers = LogConfig(), Producers()
        self.log_start_offset = self.log_end_offset = self.retired = 0
        self.latest_epoch = -1
        self.is_dirty = False

    def append_as_follower(self, batches: memoryview) -> None:
        for _, header in iterate_batches(batches):
            assert header.base_offset == self.log_end_offset
            self.log_end_offset, self.latest_epoch = header.last_offset + 1, header.partition_leader_epoch
            if header.producer_id >= 0:
                self.producers.note_batch(header, header.base_offset, header.last_offset, header.max_timestamp)
        self.is_dirty = True

    def advance_log_start(self, offset: int) -> None:
        assert self.log_start_offset < offset <= self.log_end_offset
        self.log_start_offset = offset

    def retire_below_start(self, now_ms: int) -> None:
        self.retired = self.log_start_offset

    def flush(self) -> None:
        self.is_dirty = False


def plain(state: PartitionState) -> PartitionState:
    """Where a log that is removed began is nobody's concern."""
    return state.replace(start_offset=0) if state.end_offset == REMOVED else state


class Driver:
    """As much of a driver as a group looks at."""

    def __init__(self) -> None:
        self.local_key = ReplicaKey(ME)
        self.epoch = self.applied_offset = self.log_start_offset = 0
        self.leader_id: int | None = None
        self.has_lease = True
        self.refuses = False
        self.resigns: Callable[[], None] = lambda: None
        self.proposals: list[tuple[bytes, asyncio.Future[int]]] = []
        self.raft = SimpleNamespace(**{name: self._noted(name) for name in ("handed_over", "lay_down", "take_back")})
        self.told: list[tuple[object, ...]] = []
        self.stopped: list[bool] = []
        self.snapshots: list[tuple[list[PartitionState], int]] = []
        self.disk_works = asyncio.Event()
        self.threads = SimpleNamespace(do=self._do)

    async def start(self) -> None: ...

    async def stop(self, *, resign: bool) -> None:
        self.stopped.append(resign)

    def _noted(self, name: str) -> Callable[..., list[object]]:
        def does(*given: object) -> list[object]:
            self.told.append((name, *given))
            return []

        return does

    def holds_lease(self, epoch: int) -> bool:
        return self.has_lease and epoch == self.epoch

    def event(self, event: Callable[[int], object]) -> None:
        event(7)

    def append(self, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        assert epoch == self.epoch
        if self.refuses:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.proposals.append((bytes(batch), done))
        return done

    def resign(self) -> None:
        self.resigns()

    def quorum_at(self, end_offset: int) -> Quorum:
        return QUORUM

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        return SnapshotId(end_offset, self.epoch)

    async def _do(self, work: Callable[..., object], *given: object) -> None:
        work(*given)
        await self.disk_works.wait()

    async def snapshot(self, chunks: Sequence[bytes], end_offset: int) -> None:
        self.snapshots.append((list(decode_snapshot(b"".join(chunks))), end_offset))
        self.log_start_offset = end_offset


@dataclass(eq=False)
class Ack:
    """Who waits for a batch, and in which epoch it was appended."""

    done: asyncio.Future[None]
    partition: PartitionId
    last_offset: int
    epoch: int | None
    outcome: str = "waits"


@dataclass
class Deletion:
    partition: PartitionId
    offset: int
    calls: int = 0
    is_over: bool = False

    def __call__(self) -> None:
        self.calls += 1


@dataclass(eq=False)
class Observer:
    """Notes what a partition tells it."""

    proposed_to: list[int] = field(default_factory=list)
    leads: int = 0

    def lead_changed(self) -> None:
        self.leads += 1

    def proposed(self, batch: memoryview) -> None:
        self.proposed_to.append(read_header(batch).base_offset)


class InWords:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = Driver()
        self.group = StorageGroup(self, self.copied, ProposalSettings(), lambda: 0)
        self.live = [PartitionId(UUID(int=number), number) for number in (1, 2, 3)]
        self.ids = 3
        self.deleted: set[UUID] = set()
        self.logs: dict[PartitionId, Log] = {}
        # What is so, in plain words.
        self.members: dict[PartitionId, int] = {}
        self.removed: dict[PartitionId, int] = {}
        """With the offset since which the metadata had its topic."""
        self.closed: dict[PartitionId, object] = {}
        self.gone: list[PartitionId] = []
        self.epoch: int | None = None
        self.gives_way = False
        self.collected: list[Entry] = []
        self.closing: set[PartitionId] = set()
        self.handed_over: int | None = None
        self.taken_over, self.taken_over_proposals = 0, 0
        self.bytes = self.leads = 0
        self.acks: list[Ack] = []
        self.deletions: list[Deletion] = []
        self.observers: dict[PartitionId, Observer] = {}
        self.observed: dict[PartitionId, list[int]] = {}
        self.observed_leads: dict[PartitionId, int] = {}
        self.changed: list[PartitionId] = []
        self.was_changed: list[PartitionId] = []
        self.snapshotting: tuple[asyncio.Task[None], dict[PartitionId, object], list[PartitionState], int] | None = None
        self.counts = Counter[str]()
        self.group.member_changed.listen(self.was_changed.append)
        self.leads_told = 0
        self.group.lead_changed.listen(self.note_lead)

    def note_lead(self) -> None:
        self.leads_told += 1

    def open(self, partition: PartitionId, topic: str) -> Any:
        return self.logs.setdefault(partition, Log())

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        return topic_id in self.deleted

    def threads_of(self, log: object) -> Executor:
        return AtOnce()

    def remove(self, log: object) -> None:
        self.gone.append(next(partition for partition, its in self.logs.items() if its is log))

    async def copied(self, node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        assert node_id == OTHER
        return 0, bytes(encode_batch([Record(value=b"c")] * 2, base_offset=offset, partition_leader_epoch=0))

    def log_of(self, partition: PartitionId) -> Log:
        return self.logs[partition]

    def refusal(self, partition: PartitionId, *, wants_member: bool) -> ErrorCode | None:
        if wants_member and partition not in self.members:
            return UNKNOWN
        return NOT_LEADER if self.epoch is None or self.gives_way else None

    def under_way(self, partition: PartitionId) -> list[Entry]:
        proposed = [one for batch, _ in self.driver.proposals for one in decode_proposals(batch)]
        return [
            one
            for one in (*proposed, *self.collected)
            if isinstance(one, Entry) and one.kind is Kind.APPENDED and one.partition == partition
        ]

    def committed(self, batch: bytes, entries: Sequence[Entry | HandedOver]) -> None:
        base, told = self.driver.applied_offset, len(self.driver.told)
        appended = dict[PartitionId, int]()
        for entry in entries:
            if isinstance(entry, HandedOver):
                self.handed_over = entry.epoch if entry.epoch == self.driver.epoch else self.handed_over
            else:
                self.take(entry, appended)
        before = {one: self.logs[one].log_start_offset for one in self.members}
        self.group.committed(batch, base, base + len(entries) - 1)
        self.driver.applied_offset = base + len(entries)
        self.bytes += len(batch)
        for partition, end in appended.items():
            assert self.logs[partition].log_end_offset == end
            self.reaches(partition)
        self.check_beginnings(before, entries)
        gave = [one for one in entries if isinstance(one, HandedOver)]
        assert self.driver.told[told:] == [("handed_over", one.epoch, one.successor, one.ends_in_ms, 7) for one in gave]

    def take(self, entry: Entry, appended: dict[PartitionId, int]) -> None:
        """In plain words: what an entry changes."""
        partition = entry.partition
        if entry.kind is Kind.OPENED and partition not in {*self.members, *self.removed}:
            since = decode_opened(entry.content)[1]
            if partition.topic_id in self.deleted:
                self.removed[partition] = since
            else:
                self.members[partition] = since
                self.closed.pop(partition, None)
                self.changed.append(partition)
                self.logs.setdefault(partition, Log())
        elif entry.kind is Kind.CLOSED:
            appended.pop(partition, None)
            self.closing.discard(partition)
            self.removed.pop(partition, None)
            if self.members.pop(partition, None) is not None:
                self.closed[partition] = object()
                self.leaves(partition)
        elif entry.kind is Kind.APPENDED and partition in self.members:
            appended[partition] = read_header(entry.content).last_offset + 1

    def check_beginnings(self, before: dict[PartitionId, int], entries: Sequence[Entry | HandedOver]) -> None:
        wanted = {**before}
        for entry in entries:
            if isinstance(entry, Entry) and entry.kind is Kind.BEGINS and entry.partition in wanted:
                wanted[entry.partition] = max(wanted[entry.partition], int.from_bytes(entry.content))
        for partition, start in wanted.items():
            assert self.logs[partition].log_start_offset == start
            assert self.logs[partition].retired == start or start == before[partition]

    def reaches(self, partition: PartitionId) -> None:
        """The partition's log has grown."""
        for ack in self.acks:
            is_there = ack.partition == partition and self.logs[partition].log_end_offset > ack.last_offset
            if ack.outcome == "waits" and is_there:
                ack.outcome = "there" if ack.epoch == self.epoch else "refused"

    def leaves(self, partition: PartitionId) -> None:
        """The partition belongs to the group no more: nobody waits for it any longer."""
        self.changed.append(partition)
        self.observers.pop(partition, None)
        for ack in self.acks:
            if ack.outcome == "waits" and ack.partition == partition:
                ack.outcome = "refused"
        for deletion in self.deletions:
            deletion.is_over |= deletion.partition == partition

    def lose(self, leader_id: int | None) -> None:
        """In plain words: nothing is collected, and nobody waits."""
        if self.epoch is not None:
            for ack in self.acks:
                ack.outcome = "refused" if ack.outcome == "waits" else ack.outcome
            self.nobody_waits()
        self.epoch, self.gives_way, self.collected, self.closing = None, False, [], set()

    def nobody_waits(self) -> None:
        for deletion in self.deletions:
            deletion.is_over |= deletion.partition in self.members
        self.tell_lead()

    def tell_lead(self) -> None:
        self.leads += 1
        for partition in self.observers:
            self.observed_leads[partition] += 1

    def states(self) -> list[PartitionState]:
        members = [
            PartitionState(one, "t", self.logs[one].log_end_offset, since, self.logs[one].log_start_offset)
            for one, since in self.members.items()
        ]
        return [*members, *(PartitionState(one, "t", REMOVED, since) for one, since in self.removed.items())]

    def check(self) -> None:
        group = self.group
        assert group.leads is (self.epoch is not None)
        assert group.can_be_read is (self.epoch is not None)
        self.driver.has_lease = False
        assert not group.can_be_read
        self.driver.has_lease = True
        assert {one: its.since for one, its in group.partitions.items()} == self.members
        for partition, found in group.partitions.items():
            assert cast("object", found.log) is self.logs[partition]
            assert found.committed.high_watermark == found.end_offset == self.logs[partition].log_end_offset
            assert group.member(*partition) is group.partition(partition) is found
        removed = {one: PartitionState(one, "t", REMOVED, since) for one, since in self.removed.items()}
        assert {one: plain(its) for one, its in group.removed.items()} == removed
        assert group.bytes_since_snapshot == self.bytes
        assert self.was_changed == self.changed
        assert self.leads_told == self.leads
        assert (group.taken_over, group.taken_over_proposals) == (self.taken_over, self.taken_over_proposals)
        for partition, observer in self.observers.items():
            assert observer.proposed_to == self.observed[partition]
            assert observer.leads == self.observed_leads[partition]
        for ack in self.acks:
            assert self.outcome(ack.done) == ack.outcome
            self.counts[ack.outcome] += 1
        self.acks = [ack for ack in self.acks if ack.outcome == "waits"]
        for deletion in self.deletions:
            is_over = deletion.is_over or self.logs[deletion.partition].log_start_offset >= deletion.offset
            assert deletion.calls == is_over
        self.deletions = [one for one in self.deletions if not one.calls]

    @staticmethod
    def outcome(done: asyncio.Future[None]) -> str:
        if not done.done() or done.cancelled():
            return "cancelled" if done.done() else "waits"
        with suppress(KafkaError):
            done.result()
            return "there"
        return "refused"
