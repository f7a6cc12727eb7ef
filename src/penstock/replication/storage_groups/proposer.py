"""What the leader of a storage group does with what producers append: it is collected, and proposed together.

    place = proposer.append(partition, end, batch, header, leader_epoch, now_ms)     # its offsets, decided here
    batch = proposer.take(now_ms)                                                    # due at `deadline_ms`
    proposer.applied(entry)                                                          # committed, and in the log

The leader alone decides which offsets a batch gets, and whether it repeats another one: its followers, whose clocks may
have let them forget another producer, only write what they are told. It can, for it leads only once it has applied all
that was proposed before its epoch. What it knows beyond the partitions' logs is what it has proposed itself; of a
partition of which nothing is under way it knows nothing. All of that is void when it leads no longer.
"""

from typing import NamedTuple, Protocol

from penstock.protocol.batch import BatchHeader, read_header, set_place
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    Scheme,
    begins,
    encode_proposal,
    opened,
)

NO_PRODUCER_ID = -1


class ProposalSettings(Value, kw_only=True):
    """Appends are collected until the first has waited for `linger_ms`, or all have `max_bytes`."""

    linger_ms: int = 0
    max_bytes: int = 1 << 20
    handover_scheme: Scheme = Scheme.ENDED


class Written(Protocol):
    """Where a batch of an idempotent producer went (`log.producer_state.WrittenBatch`)."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


class Producers(Protocol):
    """The idempotent producers of one partition, together with what is under way (`log.producers_ahead`)."""

    def check(self, batch: memoryview, header: BatchHeader) -> Written | None:
        """The batch that this one repeats, None if it is new; KafkaError if it is wrong."""

    def check_first(self, header: BatchHeader) -> None:
        """KafkaError if a partition may not begin with it."""

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int) -> None:
        """KafkaError if it may not end its transaction."""

    def proposed(self, batch: memoryview, header: BatchHeader, first_offset: int, last_offset: int) -> None:
        """The new batch is under way."""

    def applied(self, producer_id: int) -> None: ...


class PartitionEnd(Protocol):
    """Nothing of the log is under way."""

    @property
    def end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """That of the last batch, or -1."""

    @property
    def producers(self) -> Producers:
        """Nothing is under way in this new view."""


class Place(NamedTuple):
    """Where a batch goes; a repeated one went there, or is to go."""

    first_offset: int
    last_offset: int
    is_duplicate: bool
    timestamp_ms: int
    """The latest one of its records."""


class Ahead:
    """Where a partition will end of which something is under way."""

    __slots__ = ("count", "end_offset", "latest_epoch", "producers")

    def __init__(self, end: PartitionEnd) -> None:
        self.end_offset = end.end_offset
        self.latest_epoch = end.latest_epoch
        self.producers = end.producers
        self.count = 0
        """Counts entries that are collected or under way."""


class Proposer:
    """Leads from `lead` to `resign`, and takes nothing more from `hand_over` on."""

    __slots__ = (
        "_ahead",
        "_closing",
        "_collected",
        "_since_ms",
        "_size",
        "entries",
        "epoch",
        "gives_way",
        "proposals",
        "settings",
    )

    def __init__(self, settings: ProposalSettings) -> None:
        self.settings = settings
        self.proposals = 0
        """Counted since the process began, with `entries` in all."""
        self.entries = 0
        self._ahead: dict[PartitionId, Ahead] = {}
        self._closing: set[PartitionId] = set()
        self._since_ms: int
        """When the first entry was collected."""
        self.resign()

    def resign(self) -> None:
        """What was collected is thrown away; the fate of what is under way is not known."""
        self.epoch: int | None = None
        """The group's epoch, while it leads."""
        self.gives_way = False
        """It has proposed that another leads, and takes nothing more."""
        self._ahead.clear()
        self._closing.clear()
        self._collected: list[Entry] = []
        self._size = 0

    def lead(self, epoch: int) -> None:
        self.resign()
        self.epoch = epoch

    # Each raises KafkaError NOT_LEADER_OR_FOLLOWER where this replica does not lead.

    def open(self, partition: PartitionId, topic: str, since: int, now_ms: int) -> None:
        """The metadata had the partition's topic at the offset `since`."""
        self._check_leading()
        self._collect(opened(partition, topic, since), now_ms)

    def close(self, partition: PartitionId, now_ms: int) -> None:
        """Nothing can be appended to the partition from now on."""
        self._check_leading()
        if partition not in self._closing:
            self._closing.add(partition)
            self._collect(Entry(Kind.CLOSED, partition), now_ms)

    def begin_at(self, partition: PartitionId, offset: int, now_ms: int) -> None:
        """What the partition has before this offset, which must be committed, is to be deleted."""
        self._check_leading()
        self._collect(begins(partition, offset), now_ms)

    def append(
        self,
        partition: PartitionId,
        end: PartitionEnd,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
    ) -> Place:
        """Give a checked batch its offsets and the partition's leader epoch, in place.

        Raises KafkaError as `Producers.check`, and UNKNOWN_TOPIC_OR_PARTITION for a
        partition that is being closed. A batch that repeats another one is where that is; it may be under way still.
        """
        self._check_leading()
        if partition in self._closing:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition is leaving its storage group")
        ahead = self._ahead.get(partition) or Ahead(end)
        if leader_epoch < ahead.latest_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"leader epoch {ahead.latest_epoch} has begun")
        is_idempotent = header.producer_id != NO_PRODUCER_ID
        if is_idempotent and not ahead.end_offset:
            ahead.producers.check_first(header)
        if is_idempotent and (repeated := ahead.producers.check(batch, header)) is not None:
            return Place(repeated.first_offset, repeated.last_offset, True, repeated.timestamp_ms)
        first_offset = ahead.end_offset
        last_offset = first_offset + header.last_offset_delta
        set_place(batch, header, first_offset, leader_epoch)
        if is_idempotent:
            ahead.producers.proposed(batch, header, first_offset, last_offset)
        ahead.end_offset, ahead.latest_epoch = last_offset + 1, leader_epoch
        ahead.count += 1
        self._ahead[partition] = ahead
        self._collect(Entry(Kind.APPENDED, partition, bytes(batch)), now_ms)
        return Place(first_offset, last_offset, False, header.max_timestamp)

    def check_marker(
        self,
        partition: PartitionId,
        end: PartitionEnd,
        header: BatchHeader,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """KafkaError where a transaction cannot be ended so, with all in mind that is under way."""
        ahead = self._ahead.get(partition) or Ahead(end)
        ahead.producers.check_marker(header, coordinator_epoch, transaction_version)

    def _check_leading(self) -> None:
        if self.epoch is None or self.gives_way:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the storage group")

    def _collect(self, entry: Entry, now_ms: int) -> None:
        if not self._collected:
            self._since_ms = now_ms
        self._collected.append(entry)
        self._size += len(entry.content)

    # What becomes of it.

    @property
    def deadline_ms(self) -> int | None:
        """When `take` has something to give; None while nothing is collected."""
        if not self._collected:
            return None
        return self._since_ms + (0 if self._size >= self.settings.max_bytes else self.settings.linger_ms)

    def take(self, now_ms: int) -> bytearray | None:
        """One record batch for the group's log; None if nothing is due."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return None
        return self._proposal([], now_ms)

    def hand_over(self, successor: int, now_ms: int) -> bytearray:
        """What was collected, then the entry that ends this epoch. Raises KafkaError NOT_LEADER_OR_FOLLOWER."""
        self._check_leading()
        assert self.epoch is not None, "it leads"
        self.gives_way = True
        return self._proposal([HandedOver(self.epoch, successor, self.settings.handover_scheme.ends_in_ms)], now_ms)

    def _proposal(self, last: list[HandedOver], now_ms: int) -> bytearray:
        entries: list[Entry | HandedOver] = [*self._collected, *last]
        self._collected, self._size = [], 0
        self.proposals += 1
        self.entries += len(entries)
        return encode_proposal(entries, now_ms)

    def applied(self, entry: Entry) -> None:
        """An entry is committed, and done: while this replica leads, one that it has proposed."""
        if entry.kind is Kind.CLOSED:
            self._closing.discard(entry.partition)
        if self.epoch is None or entry.kind is not Kind.APPENDED:
            return
        ahead = self._ahead[entry.partition]
        ahead.count -= 1
        if not ahead.count:
            del self._ahead[entry.partition]
        elif (producer_id := read_header(entry.content).producer_id) != NO_PRODUCER_ID:
            ahead.producers.applied(producer_id)

    def end_of(self, partition: PartitionId, end: PartitionEnd) -> int:
        """The offset that the next batch of the partition gets."""
        ahead = self._ahead.get(partition)
        return end.end_offset if ahead is None else ahead.end_offset

    def under_way(self, partition: PartitionId) -> int:
        ahead = self._ahead.get(partition)
        return 0 if ahead is None else ahead.count
