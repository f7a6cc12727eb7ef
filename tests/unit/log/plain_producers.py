"""What a partition knows of its producers, told anew each time from all that they wrote: a model for tests."""

from dataclasses import dataclass, field
from typing import Any

from penstock.log.aborted_transactions import AbortedTransaction
from penstock.log.producer_state import MAX_EPOCH, MAX_SEQUENCE, WrittenBatch
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode

Verdict = ErrorCode | WrittenBatch | None


@dataclass(frozen=True)
class Marker:
    offset: int
    coordinator_epoch: int


@dataclass(frozen=True)
class Event:
    producer_id: int
    epoch: int
    time_ms: int
    what: WrittenBatch | Marker
    is_transactional: bool = True


@dataclass(eq=False)
class Asked:
    """A question to the coordinator of a transaction."""

    epoch: int
    lowest: int
    expects_zero: bool
    is_verified: bool = False
    waiting: int = 0


@dataclass
class PlainProducers:
    events: list[Event] = field(default_factory=list)
    ended: list[tuple[int, int]] = field(default_factory=list)
    """The offsets of markers, and the first ones of what they ended."""
    asked: dict[int, Asked] = field(default_factory=dict)

    # What holds.

    def ids(self) -> list[int]:
        return list(dict.fromkeys(event.producer_id for event in self.events))

    def of(self, producer_id: int) -> list[Event]:
        return [event for event in self.events if event.producer_id == producer_id]

    def batches(self, producer_id: int) -> list[WrittenBatch]:
        """Of the present epoch."""
        found: list[WrittenBatch] = []
        events = self.of(producer_id)
        for event in reversed(events):
            if event.epoch != events[-1].epoch:
                break
            if isinstance(event.what, WrittenBatch):
                found.insert(0, event.what)
        return found[-5:]

    def open_since(self, producer_id: int) -> int:
        """-1 if no transaction is open."""
        since = -1
        for event in self.of(producer_id):
            if isinstance(event.what, Marker):
                since = -1
            elif event.is_transactional and since == -1:
                since = event.what.first_offset
        return since

    def coordinator_epoch(self, producer_id: int) -> int:
        marked = [event.what for event in self.of(producer_id) if isinstance(event.what, Marker)]
        return marked[-1].coordinator_epoch if marked else -1

    def first_open(self) -> int | None:
        return min((since for since in map(self.open_since, self.ids()) if since >= 0), default=None)

    def stable(self, high_watermark: int) -> int:
        unstable = [first for marker, first in self.ended if marker >= high_watermark]
        opened = self.first_open()
        return min([high_watermark, *unstable, *([] if opened is None else [opened])])

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                producer_id,
                events[-1].epoch,
                self.batches(producer_id),
                self.coordinator_epoch(producer_id),
                events[-1].time_ms,
                self.open_since(producer_id),
            )
            for producer_id in self.ids()
            if (events := self.of(producer_id))
        ]

    # What is taken.

    def verdict(self, header: BatchHeader) -> Verdict:
        """The error, the batch that is repeated, or None for one that is to be written."""
        producer_id, first = header.producer_id, header.base_sequence
        known, batches = self.of(producer_id), self.batches(producer_id)
        if known and header.producer_epoch < known[-1].epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if first >= 0 and known:
            is_new = header.producer_epoch > known[-1].epoch
            expected = 0 if is_new or not batches else (batches[-1].last_sequence + 1) % (MAX_SEQUENCE + 1)
            repeated = [one for one in batches if (one.first_sequence, one.last_sequence) == (first, _last(header))]
            if first != expected:
                return repeated[0] if repeated and not is_new else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        is_open = self.open_since(producer_id) >= 0
        if not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE if is_open and first >= 0 else None
        if is_open and header.producer_epoch == known[-1].epoch:
            return None
        asked = self.asked.get(producer_id)
        if asked is None or not asked.is_verified or asked.epoch != header.producer_epoch:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        begins_at = 0 if asked.expects_zero and not batches else asked.lowest
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if first > begins_at else None

    def verdict_on_marker(self, header: BatchHeader, coordinator_epoch: int, version: int) -> ErrorCode | None:
        known = self.of(header.producer_id)
        if not known:
            return None
        epoch, is_open = known[-1].epoch, self.open_since(header.producer_id) >= 0
        if header.producer_epoch < epoch or (
            version >= 2 and is_open and header.producer_epoch == epoch and epoch < MAX_EPOCH
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_old = coordinator_epoch < self.coordinator_epoch(header.producer_id)
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_old else None

    # What happens.

    def note_batch(self, header: BatchHeader, first_offset: int, time_ms: int) -> None:
        producer_id, is_transactional = header.producer_id, header.is_transactional
        if is_transactional and self.open_since(producer_id) < 0:
            self.asked.pop(producer_id, None)
        last_offset = first_offset + header.last_offset_delta
        what = WrittenBatch(header.base_sequence, _last(header), first_offset, last_offset, time_ms)
        self.events.append(Event(producer_id, header.producer_epoch, time_ms, what, is_transactional))

    def note_marker(
        self, header: BatchHeader, offset: int, coordinator_epoch: int, *, aborts: bool
    ) -> list[AbortedTransaction]:
        """What it aborts."""
        producer_id = header.producer_id
        since = self.open_since(producer_id)
        if since >= 0:
            self.ended.append((offset, since))
        self.asked.pop(producer_id, None)
        what = Marker(offset, coordinator_epoch)
        self.events.append(Event(producer_id, header.producer_epoch, header.max_timestamp, what))
        opened = self.first_open()
        stable = offset + 1 if opened is None else opened
        return [AbortedTransaction(producer_id, since, offset, stable)] if aborts and since >= 0 else []

    def cut_to(self, end_offset: int) -> None:
        """The log was cut: nothing lies at that offset or behind it. What was asked and not used is forgotten."""
        kept = list[Event]()
        for event in self.events:
            what = event.what
            if (what.last_offset if isinstance(what, WrittenBatch) else what.offset) < end_offset:
                kept.append(event)
        self.events = kept
        self.ended = [one for one in self.ended if one[0] < end_offset]
        self.asked.clear()

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        silent = [
            one for one in self.ids() if now_ms - self.of(one)[-1].time_ms >= expiration_ms and self.open_since(one) < 0
        ]
        self.events = [event for event in self.events if event.producer_id not in silent]
        return len(silent)

    # What is asked.

    def verify(self, producer_id: int, epoch: int, sequence: int, *, expects_zero: bool) -> Asked:
        asked = self.asked.get(producer_id)
        newest_waiting = asked.epoch if asked is not None and asked.waiting else -1
        if asked is None or asked.epoch != epoch:
            asked = Asked(epoch, sequence, expects_zero)
            if epoch > newest_waiting:
                self.asked[producer_id] = asked
        asked.lowest = min(asked.lowest, sequence)
        asked.waiting += 1
        return asked

    def verified(self, producer_id: int, asked: Asked) -> None:
        if self.asked.get(producer_id) is asked:
            asked.is_verified = True

    def no_longer_verified(self, producer_id: int, asked: Asked) -> None:
        asked.waiting -= 1
        if not asked.waiting:
            asked.is_verified = False


def _last(header: BatchHeader) -> int:
    first = header.base_sequence
    return first if first < 0 else (first + header.last_offset_delta) % (MAX_SEQUENCE + 1)
