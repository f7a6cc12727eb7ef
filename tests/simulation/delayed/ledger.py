"""What clients asked for and what consumers read: a record that was acknowledged comes once, not early, and in order.

* an acknowledged record comes exactly once, any other at most once
* none comes before it is due by the clock of the leader that moves it
* when one is moved, none waits that is due earlier, or as early and has arrived before
* what was cancelled, or replaced, comes before that or never; what was hastened comes
"""

from dataclasses import dataclass, field
from random import Random

from tests.simulation.replication_invariants import must

from penstock.protocol.batch import DELAYED, BatchHeader
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


@dataclass(slots=True)
class Place:
    offset: int
    waited_at: int


class Ledger:
    def __init__(self, random: Random, producers: int) -> None:
        self._random = random
        self._open: list[Sent | None] = [None] * producers
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
        self.acknowledged_count = self.carried = 0

    # producers

    def next(self, now_ms: int, longest_ms: int) -> Sent:
        """Of some producer: what it has sent and has no answer to, or something new."""
        number = self._random.randrange(len(self._open))
        open_ = self._open[number]
        if open_ is not None and self._random.random() >= GIVE_UP:
            return open_
        if open_ is not None:  # another process of that producer goes on, and never learns what became of it
            self._doubtful |= {*open_.values, *open_.ends}
            self._sequences[number] = 0
            self._ids[number] = {}
            self._epochs[number] += 1
        self._open[number] = sent = self._new(number, now_ms, longest_ms)
        return sent

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
        batch = encode_batch(records, producer_id=number, producer_epoch=epoch, base_sequence=sequence)
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
                self._acknowledged |= dict.fromkeys(sent.values)
                self._ended |= {value: (sent.offset + place, True) for value, place in sent.ends.items()}

    # consumers

    def read(self, batch: memoryview, header: BatchHeader) -> None:
        """The next that is committed."""
        if header.is_held:
            self._held(Held(batch, header), header)
        elif header.attributes & DELAYED:
            for record in iterate_records(batch, 0, header):
                self._moved(record)
        elif not header.is_control:
            for record in iterate_records(batch, 0, header):
                self._came(record.value or b"", record.offset, record.offset)

    def _held(self, held: Held, header: BatchHeader) -> None:
        rows = list(held.rows())
        if rows and rows[0].waited_at < header.base_offset:
            self.carried += 1
            return
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
        for value in self._acknowledged:
            if value not in self._ended and value not in self._doubtful and not self._may_be_ended(value):
                must(value in self.places, f"{value!r} was acknowledged and never comes")
        for value, (offset, _) in self._ended.items():
            place = self.places.get(value)
            must(place is None or place.offset < offset, f"{value!r} comes after it was cancelled or replaced")

    def _may_be_ended(self, value: bytes) -> bool:
        return any(sent is not None and value in sent.ends for sent in self._open)
