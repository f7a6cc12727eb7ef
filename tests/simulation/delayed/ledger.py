"""What clients asked for and what consumers read: a record that was acknowledged comes once, not early, and in order.

* an acknowledged record comes exactly once, any other at most once
* none comes before it is due by the clock of the leader that moves it
* when one is moved, none waits that is due earlier, or as early and has arrived before
* what was cancelled, or replaced, comes before that or never; what was hastened comes
* of a transaction all this holds from its commit on; nothing of it comes before, or if it is aborted
"""

from dataclasses import dataclass, field
from random import Random

from tests.simulation.replication_invariants import must

from penstock.protocol.batch import DELAYED, BatchHeader
from penstock.protocol.control.records import ControlType, control_type, transaction_marker
from penstock.protocol.delayed import (
    CANCEL,
    CANCELS,
    DELAY,
    DELAY_ID,
    DELIVER_AT,
    HASTENS,
    NOW,
    WAITED_AT,
    Held,
    Row,
    hash_of,
)
from penstock.protocol.records import Record, encode_batch, iterate_records

IDS = 3
GIVE_UP = 0.02


@dataclass(slots=True)
class Sent:
    batch: bytes
    count: int
    values: dict[bytes, int]
    """Each value with its place in the batch."""
    ends: dict[bytes, int] = field(default_factory=dict)
    """The values whose ids it cancels or takes, with the places of the records that do."""
    epoch: int = -1
    offset: int = -1
    """Where a leader has it, in whose epoch."""
    ends_transaction: bool = False
    commits: bool = False


@dataclass(slots=True)
class Transaction:
    left: int
    """Batches until its end."""
    ids: dict[bytes, bytes]
    """What the producer's ids stood for before it."""
    values: dict[bytes, None] = field(default_factory=dict)
    ends: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class Pending:
    """What is written of a producer's open transaction: held rows, and records that did not have to wait."""

    rows: list[Row] = field(default_factory=list)
    came: list[tuple[bytes, int]] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    offset: int
    waited_at: int


class Ledger:
    def __init__(self, random: Random, producers: int, transactional: int) -> None:
        """The last ones write in transactions."""
        self._random = random
        self._open: list[Sent | None] = [None] * producers
        self._transactions: list[Transaction | None] = [None] * producers
        self._transactional = range(producers - transactional, producers)
        self._aborted: set[bytes] = set()
        self._pending: dict[int, Pending] = {}
        self._epochs = [0] * producers
        self._sequences = [0] * producers
        self._ids: list[dict[bytes, bytes]] = [{} for _ in range(producers)]
        self._number = 0
        self._acknowledged: dict[bytes, None] = {}
        self._ended: dict[bytes, tuple[int, bool]] = {}
        """Values that were to be cancelled or replaced: at which offset, and whether that was acknowledged."""
        self.places: dict[bytes, Place] = {}
        self._waiting: dict[int, tuple[int, int]] = {}
        self._by_id: dict[int, int] = {}
        self._doubtful: set[bytes] = set()
        self.acknowledged_count = self.carried = self.committed = self.aborted = 0

    # producers

    def next(self, now_ms: int, longest_ms: int) -> Sent:
        """Of some producer: what it has sent and has no answer to, or something new."""
        number = self._random.randrange(len(self._open))
        open_ = self._open[number]
        if open_ is not None and (open_.ends_transaction or self._random.random() >= GIVE_UP):
            return open_
        if open_ is not None:  # another process of that producer goes on, and never learns what became of it
            self._doubtful |= {*open_.values, *open_.ends}
            self._sequences[number] = 0
            self._ids[number] = {}
            self._epochs[number] += 1
        self._open[number] = sent = self._following(number, open_, now_ms, longest_ms)
        return sent

    def _following(self, number: int, given_up: Sent | None, now_ms: int, longest_ms: int) -> Sent:
        if number not in self._transactional:
            return self._new(number, now_ms, longest_ms)
        transaction = self._transactions[number]
        if transaction is None:
            left = self._random.choice((1, 1, 2, 5))
            transaction = self._transactions[number] = Transaction(left, dict(self._ids[number]))
        if given_up is not None:
            transaction.values |= dict.fromkeys(given_up.values)
            transaction.ids = {}
            return self._end(number, now_ms, commits=False)
        if not transaction.left:
            return self._end(number, now_ms, commits=self._random.random() < 0.7)
        transaction.left -= 1
        return self._new(number, now_ms, longest_ms)

    def ends(self, now_ms: int) -> list[Sent]:
        """The coordinator ends what is still open."""
        for number, transaction in enumerate(self._transactions):
            open_ = self._open[number]
            if transaction is not None and (open_ is None or not open_.ends_transaction):
                transaction.values |= dict.fromkeys(open_.values if open_ is not None else ())
                self._epochs[number] += 1
                self._open[number] = self._end(number, now_ms, commits=False)
        return [sent for sent in self._open if sent is not None and sent.ends_transaction]

    def _end(self, number: int, now_ms: int, *, commits: bool) -> Sent:
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        epoch = self._epochs[number]
        marker = transaction_marker(kind, producer_id=number, producer_epoch=epoch, coordinator_epoch=0, now_ms=now_ms)
        return Sent(bytes(marker), 1, {}, ends_transaction=True, commits=commits)

    def _new(self, number: int, now_ms: int, longest_ms: int) -> Sent:
        random = self._random
        records: list[Record] = []
        values: dict[bytes, int] = {}
        ends: dict[bytes, int] = {}
        ids, epoch = self._ids[number], self._epochs[number]
        for place in range(random.choice((1, 1, 2, 5))):
            self._number += 1
            value, kind = b"%d" % self._number, random.random()
            delay = random.choice((0, 1, 100, 2_000, longest_ms))
            due = [(DELIVER_AT, b"%d" % (now_ms + delay))] if random.random() < 0.7 else [(DELAY, b"%d" % delay)]
            if kind < 0.3:
                due = []
            id_ = b"%d-%d-%d" % (number, epoch, random.randrange(IDS))
            if kind > 0.9 and id_ in ids:
                is_cancel = random.random() < 0.7
                order = (CANCEL if is_cancel else NOW, b"")
                records.append(Record(0, now_ms, b"k", None, [(DELAY_ID, id_), order]))
                if is_cancel:
                    ends[ids.pop(id_)] = place
                continue
            if kind > 0.7:
                due = [*due, (DELAY_ID, id_)]
                if id_ in ids:
                    ends[ids[id_]] = place
                ids[id_] = value
            records.append(Record(0, now_ms, b"k", value, [*due]))
            values[value] = place
        sequence = self._sequences[number]
        batch = encode_batch(
            records,
            producer_id=number,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=number in self._transactional,
        )
        self._sequences[number] = sequence + len(records)
        return Sent(bytes(batch), len(records), values, ends)

    @property
    def repeats(self) -> bool:
        """Whether something was written of which its producer has not heard."""
        return any(sent is not None and sent.epoch >= 0 for sent in self._open)

    def appended(self, sent: Sent, epoch: int, offset: int) -> None:
        sent.epoch, sent.offset = epoch, offset

    def acknowledge(self, epoch: int, high_watermark: int) -> None:
        for number, sent in enumerate(self._open):
            if sent is None or sent.epoch != epoch:
                continue
            if high_watermark >= sent.offset + sent.count:
                self._open[number] = None
                self.acknowledged_count += 1
                transaction = self._transactions[number]
                if transaction is None:
                    self._acknowledged |= dict.fromkeys(sent.values)
                    self._ended |= {value: (sent.offset + place, True) for value, place in sent.ends.items()}
                elif sent.ends_transaction:
                    self._transactions[number] = None
                    self._has_ended(number, transaction, sent)
                else:
                    transaction.values |= dict.fromkeys(sent.values)
                    transaction.ends |= dict.fromkeys(sent.ends)

    def _has_ended(self, number: int, transaction: Transaction, end: Sent) -> None:
        if end.commits:
            self.committed += 1
            self._acknowledged |= transaction.values
            self._ended |= dict.fromkeys(transaction.ends, (end.offset, True))
        else:
            self.aborted += 1
            self._aborted |= transaction.values.keys()
            self._ids[number] = transaction.ids

    # consumers

    def read(self, batch: memoryview, header: BatchHeader) -> None:
        """The next that is committed."""
        if header.is_held:
            rows = list(Held(batch, header).rows())
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, Pending()).rows += rows
            elif rows and rows[0].waited_at < header.base_offset:
                self.carried += 1
            else:
                self._held(rows)
        elif header.attributes & DELAYED:
            for record in iterate_records(batch, 0, header):
                self._moved(record)
        elif header.is_marker:
            if header.producer_id in self._pending:
                self._settle(self._pending.pop(header.producer_id), next(iterate_records(batch, 0, header)))
        else:
            pending = Pending(
                came=[(record.value or b"", record.offset) for record in iterate_records(batch, 0, header)]
            )
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, Pending()).came += pending.came
            else:
                self._settle(pending)

    def _settle(self, pending: Pending, marker: Record | None = None) -> None:
        if marker is not None and control_type(marker) != ControlType.COMMIT:
            return
        self._held(pending.rows)
        for value, offset in pending.came:
            self._came(value, offset, offset)

    def _held(self, rows: list[Row]) -> None:
        for row in rows:
            if row.due_ms == HASTENS:
                at = self._by_id.get(row.id, -1)
                if at in self._waiting:
                    self._waiting[at] = (0, at)
                continue
            if row.id:
                self._waiting.pop(self._by_id.pop(row.id, -1), None)
            if row.due_ms == CANCELS:
                continue
            self._waiting[row.waited_at] = (row.due_ms, row.waited_at)
            if row.id:
                self._by_id[row.id] = row.waited_at

    def _moved(self, record: Record) -> None:
        headers = dict(record.headers)
        waited_at = int(headers[WAITED_AT] or b"")
        must(waited_at in self._waiting, f"what waited at {waited_at} comes, and waits no longer")
        key = self._waiting.pop(waited_at)
        first = min(self._waiting.values(), default=key)
        must(key <= first, f"{key} comes before {first}")
        id_ = headers.get(DELAY_ID)
        if id_ is not None and self._by_id.get(hash_of(id_)) == waited_at:
            del self._by_id[hash_of(id_)]
        self._came(record.value or b"", record.offset, waited_at)

    def _came(self, value: bytes, offset: int, waited_at: int) -> None:
        must(value not in self.places, f"{value!r} comes twice")
        self.places[value] = Place(offset, waited_at)

    @staticmethod
    def is_timely(batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """A leader whose clock shows this has just appended it."""
        if header.is_held or not header.attributes & DELAYED:
            return
        for record in iterate_records(batch, 0, header):
            due = dict(record.headers).get(DELIVER_AT)
            is_hastened = DELAY_ID in dict(record.headers)
            must(due is None or is_hastened or int(due) <= now_ms, f"{record.value!r} is early: {due!r}, not {now_ms}")

    # at the end

    def check_at_the_end(self) -> None:
        must(not self._waiting, f"{len(self._waiting)} still wait")
        must(not self._pending, f"{len(self._pending)} transactions are open")
        for value in self._aborted:
            must(value not in self.places, f"{value!r} was aborted and comes")
        for value in self._acknowledged:
            if value not in self._ended and value not in self._doubtful and not self._may_be_ended(value):
                must(value in self.places, f"{value!r} was acknowledged and never comes")
        for value, (offset, _) in self._ended.items():
            place = self.places.get(value)
            must(place is None or place.offset < offset, f"{value!r} comes after it was cancelled or replaced")

    def _may_be_ended(self, value: bytes) -> bool:
        return any(sent is not None and value in sent.ends for sent in self._open)
