"""Whatever lies in a partition's log, what waits behind it is what a plain reading says, from wherever it begins."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from penstock.protocol.batch import (
    DELAYED,
    HEADER,
    LOG_APPEND_TIME,
    BatchHeader,
    read_header,
    set_base_offset,
    write_crc,
)
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.delayed import CANCELS, DELAY_ID, HASTENS, NO_ID, OWN_PLACE, WAITED_AT, Row, carry, hash_of, hold
from penstock.protocol.records import Record, encode_batch
from penstock.replication.delayed import machine, waiting
from penstock.replication.delayed.machine import DelayedRecords
from penstock.replication.delayed.near import Entry

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
PRODUCERS = (7, 8)
NAMES = [b"a", b"b", b"c", b"d"]
BATCHES = 60


class Batch(NamedTuple):
    """Its bytes, None for one of records that do not wait, and in plain words what it says."""

    header: BatchHeader
    data: bytes | None = None
    rows: tuple[Row, ...] = ()
    moves: tuple[int, ...] = ()
    ends: bool | None = None
    """Of a marker: whether it commits."""


class Plain:
    """Reads a log as the table in `machine` says, one row after the other, with nothing but dicts."""

    def __init__(self) -> None:
        self.due: dict[int, int] = {}
        self.ids: dict[int, int] = {}
        self.places: dict[int, int] = {}
        """By where they first waited."""
        self.open: dict[int, list[Batch]] = {}

    def read(self, batch: Batch) -> None:
        producer = batch.header.producer_id
        if batch.ends is not None:
            for held in self.open.pop(producer, []):
                for row in held.rows if batch.ends else ():
                    self.row(row, held.header.base_offset)
        elif batch.header.is_transactional and batch.data is not None:
            self.open.setdefault(producer, []).append(batch)
        else:
            for row in batch.rows:
                self.row(row, batch.header.base_offset)
            for waited_at in batch.moves:
                self.drop(waited_at)

    def row(self, row: Row, base_offset: int) -> None:
        if row.due_ms == CANCELS:
            self.forget(row.id)
        elif row.due_ms == HASTENS:
            self.due.update({at: 0 for at, known in self.ids.items() if known == row.id})
        elif row.waited_at in self.due:
            self.places[row.waited_at] = base_offset
        else:
            self.forget(row.id)
            self.due[row.waited_at], self.ids[row.waited_at] = row.due_ms, row.id
            self.places[row.waited_at] = base_offset if row.waited_at < base_offset else row.waited_at

    def forget(self, id_: int) -> None:
        for waited_at in [at for at, known in self.ids.items() if known == id_ != NO_ID]:
            self.drop(waited_at)

    def drop(self, waited_at: int) -> None:
        self.due.pop(waited_at, None)
        self.ids.pop(waited_at, None)
        self.places.pop(waited_at, None)

    @property
    def entries(self) -> list[Entry]:
        return sorted(Entry(due_ms, waited_at) for waited_at, due_ms in self.due.items())

    @property
    def held_open(self) -> list[range]:
        """The offsets of all that an open transaction has held."""
        batches = [batch for some in self.open.values() for batch in some]
        return [range(one.header.base_offset, one.header.base_offset + len(one.rows)) for one in batches]


class Writer:
    """A log that a leader could have, drawn batch by batch."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.plain = Plain()
        self.log: list[Batch] = []
        self.end = 0
        self.now_ms = NOW_MS

    def write(self) -> Batch:
        kinds = {self.held: 10, self.marker: 3, self.moved: 6, self.carried: 6, self.other: 3}
        batch = self.random.choices(list(kinds), list(kinds.values()))[0]()
        self.log.append(batch)
        self.end = batch.header.last_offset + 1
        self.plain.read(batch)
        return batch

    def placed(self, data: bytearray, **said: object) -> Batch:
        set_base_offset(data, 0, self.end)
        return Batch(read_header(data), bytes(data), **said)  # type: ignore[arg-type]

    def held(self) -> Batch:
        random = self.random
        count = random.choice((1, 2, 5, 60, 300))
        span_ms = random.choice((10, 5_000, 3 * DAY_MS))
        has_ids = random.choice((0.0, 0.0, 0.5))
        rows = []
        for _ in range(count):
            id_ = hash_of(random.choice(NAMES)) if random.random() < has_ids else NO_ID
            due_ms = self.now_ms + random.randrange(span_ms)
            rows.append(
                Row(OWN_PLACE, random.choice((due_ms, due_ms, due_ms, CANCELS, HASTENS)) if id_ else due_ms, id_)
            )
        producer = random.choice((-1, *PRODUCERS))
        batch = encode_batch(
            [Record(self.now_ms, value=b"")] * count,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=producer >= 0 and random.random() < 0.7,
        )
        held = hold(bytes(batch), read_header(batch), rows, now_ms=self.now_ms, unpacked_bytes=0)
        return self.placed(held, rows=tuple(row._replace(waited_at=self.end + at) for at, row in enumerate(rows)))

    def marker(self) -> Batch:
        commits = self.random.random() < 0.7
        marker = transaction_marker(
            ControlType.COMMIT if commits else ControlType.ABORT,
            producer_id=self.random.choice(PRODUCERS),
            producer_epoch=0,
            coordinator_epoch=1,
            now_ms=self.now_ms,
        )
        return self.placed(marker, ends=commits)

    def moved(self) -> Batch:
        """Those that are due first, or any: the clock of another leader may go otherwise."""
        some = self.plain.entries[: self.random.choice((1, 5, 50))]
        if self.random.random() < 0.3:
            some = self.random.sample(self.plain.entries, len(some))
        if not some:
            return self.other()
        names = {hash_of(name): name for name in NAMES}
        records = []
        for _, waited_at in some:
            id_ = self.plain.ids[waited_at]
            named: list[tuple[str, bytes | None]] = [(DELAY_ID, names[id_])] if id_ else []
            records.append(Record(self.now_ms, headers=[*named, (WAITED_AT, b"%d" % waited_at)]))
        data = encode_batch(records)
        HEADER.pack_into(data, 0, *read_header(data)._replace(attributes=DELAYED | LOG_APPEND_TIME))
        write_crc(data, 0, len(data))
        return self.placed(data, moves=tuple(waited_at for _, waited_at in some))

    def carried(self) -> Batch:
        """What lies in the oldest batch, or some of all."""
        known = sorted(self.plain.due, key=self.plain.places.__getitem__)[: self.random.choice((1, 3, 100))]
        if not known:
            return self.other()
        rows = tuple(Row(at, self.plain.due[at], self.plain.ids[at]) for at in sorted(known))
        records = [Record(self.now_ms, value=b"")] * len(rows)
        return self.placed(carry(records, rows, Compression.NONE, now_ms=self.now_ms), rows=rows)

    def other(self) -> Batch:
        self.now_ms += self.random.choice((1, 50, 3_000, DAY_MS))
        data = encode_batch([Record(self.now_ms, value=b"")])
        header = read_header(data)._replace(base_offset=self.end, last_offset_delta=self.random.choice((0, 10, 5_000)))
        return Batch(header)


def show(records: DelayedRecords, batch: Batch) -> None:
    """As who reads the log does."""
    if batch.data is None or not records.concerns(batch.header):
        assert batch.data is None or batch.ends is not None, "what holds or moves records concerns them"
        records.pass_over(batch.header)
        return
    while not records.take(batch.data, batch.header):
        assert records.has_begun(batch.header)
        assert not records.has_begun(batch.header._replace(base_offset=batch.header.base_offset + 1))
        assert batch.header.base_offset <= records.position <= batch.header.last_offset, "a log may begin within it"
    assert not records.has_begun(batch.header)


def check(records: DelayedRecords, plain: Plain, end: int) -> None:
    found = records.waiting
    assert records.position == end
    assert found.entries() == plain.entries
    assert len(found) == len(plain.due)
    open_now = plain.held_open
    assert records.unsettled_from == min((one.start for one in open_now), default=None)
    offsets = [*map(found.place_of, plain.due), *(one.start for one in open_now)]
    oldest = min(offsets, default=None)
    shift = waiting.BLOCK_SHIFT
    assert found.oldest_place == (None if oldest is None else oldest >> shift << shift)
    for waited_at, place in plain.places.items():
        assert found.place_of(waited_at) == place


def read(log: list[Batch], start: int) -> Iterator[tuple[DelayedRecords, Plain, Batch]]:
    records, plain = DelayedRecords(start), Plain()
    for batch in log:
        if batch.header.last_offset >= start:
            show(records, batch)
            plain.read(batch)
            yield records, plain, batch


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps and limits are reached by few records."""
    monkeypatch.setattr(machine, "MOST_ROWS", 70)
    monkeypatch.setattr(waiting, "MOST_GONE", 20)
    monkeypatch.setattr(waiting, "MOST_OPENED", 30)


@pytest.mark.parametrize("seed", range(15))
def test_what_waits_is_what_a_plain_reading_says(seed: int) -> None:
    random = Random(seed)
    writer, records = Writer(random), DelayedRecords(0)
    for _ in range(BATCHES):
        batch = writer.write()
        show(records, batch)
        check(records, writer.plain, writer.end)
        if random.random() < 0.3:  # who leads looks what is due
            now_ms, most = writer.now_ms + random.choice((0, 3_000, DAY_MS)), random.choice((1, 7, 100))
            assert any(records.waiting._open(now_ms) for _ in range(10_000)), "it has an end"
            is_due = [entry for entry in writer.plain.entries if entry.due_ms <= now_ms]
            assert records.waiting.due(now_ms, most) == is_due[:most]
            check(records, writer.plain, writer.end)


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_begins_later_says_what_is_left_in_it(seed: int) -> None:
    """What was held before its beginning waits if it was carried since."""
    random = Random(seed)
    writer = Writer(random)
    for _ in range(BATCHES):
        writer.write()
    first = random.choice(writer.log[: BATCHES // 2]).header
    start = random.randint(first.base_offset, first.last_offset)
    for records, plain, batch in read(writer.log, start):
        assert records.waiting.entries() == plain.entries, batch
        assert len(records.waiting) == len(plain.due)
        assert records.unsettled_from == min((one.start for one in plain.held_open), default=None)
