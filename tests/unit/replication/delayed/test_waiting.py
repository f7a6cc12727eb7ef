"""What waits, against a list that is sorted anew each time."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from penstock.protocol.batch import DELAYED, LOG_APPEND_TIME, read_header, set_base_offset
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.delayed import NO_ID, OWN_PLACE, WAITED_AT, Row, hold
from penstock.protocol.records import Record, encode_batch
from penstock.replication.delayed import slots, waiting
from penstock.replication.delayed.begun import Begun
from penstock.replication.delayed.machine import MOST_MOVED, DelayedRecords
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.slots import Part
from penstock.replication.delayed.waiting import Waiting

DAY_MS = 24 * 3_600_000
YEAR_MS = 366 * 24 * 3_600_000
NOW_MS = 1_700_000_000_000


class Model:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.ids: dict[int, int] = {}
        """By where they wait."""

    def add(self, entry: Entry, id_: int) -> None:
        self.cancel(id_)
        self.entries[entry.waited_at] = entry
        self.ids[entry.waited_at] = id_

    def add_plain(self, times: list[int], first: int) -> list[Row]:
        rows = [Row(offset, due_ms, 0) for offset, due_ms in enumerate(times, first)]
        for row in rows:
            self.add(Entry(row.due_ms, row.waited_at), 0)
        return rows

    def _of(self, id_: int) -> list[Entry]:
        return [entry for entry in self.entries.values() if id_ and self.ids[entry.waited_at] == id_]

    def cancel(self, id_: int) -> None:
        for entry in self._of(id_):
            del self.entries[entry.waited_at]

    def hasten(self, id_: int) -> None:
        for entry in self._of(id_):
            self.entries[entry.waited_at] = entry._replace(due_ms=0)

    def due(self, now_ms: int, most: int) -> list[Entry]:
        return [entry for entry in sorted(self.entries.values()) if entry.due_ms <= now_ms][:most]


def opened(entries: Waiting, now_ms: int, most: int) -> list[Entry]:
    """What is due once all that may be is opened."""
    assert any(entries._open(now_ms) for _ in range(10_000)), "it has an end"
    return entries.due(now_ms, most)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(waiting, "MOST_GONE", 10)
    monkeypatch.setattr(waiting, "MOST_NEAR", random.choice((5, 1_000)))
    monkeypatch.setattr(waiting, "MOST_AT_ONCE", random.choice((0, 10, 1_000)))
    for module in (waiting, slots):
        monkeypatch.setattr(module, "MOST_OPENED", 7)
    monkeypatch.setattr(waiting, "FEWEST", 3)
    entries, model, now_ms, offset = Waiting(), Model(), NOW_MS, 0
    span_ms = random.choice((10, 5_000, 10_000_000, YEAR_MS))
    rows: list[Row] = []
    for step in range(1_000):
        offset += 1
        kind, id_ = random.random(), random.choice((0, 0, 0, random.randrange(1, 30)))
        if kind < 0.05:
            times = [now_ms + random.randrange(span_ms) for _ in range(random.choice((1, 4, 20)))]
            entries.add_plain(times, offset)
            rows += model.add_plain(times, offset)
            offset += len(times)
        elif kind < 0.6:
            entry = Entry(now_ms + random.randrange(span_ms), offset)
            entries.add(entry, id_, offset)
            model.add(entry, id_)
            rows.append(Row(offset, entry.due_ms, id_))
        elif kind < 0.65:
            entries.cancel(id_)
            model.cancel(id_)
        elif kind < 0.7:
            entries.hasten(id_)
            model.hasten(id_)
        elif kind < 0.75 and model.entries:
            at = random.choice(list(model.entries))
            entries.carried(at, offset)
        elif kind < 0.9:
            now_ms = max(NOW_MS, now_ms + random.randrange(-span_ms // 50 - 1, span_ms // 20 + 1))
            deliver(entries, model, now_ms, random)
        assert len(entries) == len(model.entries)
        if step % 100 == 99:
            check(entries, model, rows)


def deliver(entries: Waiting, model: Model, now_ms: int, random: Random) -> None:
    most = random.choice((1, 5, 100))
    found, wanted = opened(entries, now_ms, most), model.due(now_ms, most)
    assert found == wanted[: len(found)]
    assert found == wanted or (found and most >= waiting.MOST_NEAR)
    for entry in found[: random.randrange(len(found) + 1)]:  # a batch may have no room for all
        entries.moved(entry.waited_at, model.ids[entry.waited_at])
        del model.entries[entry.waited_at]


def check(entries: Waiting, model: Model, rows: list[Row]) -> None:
    assert entries.entries() == sorted(model.entries.values())
    still = [row._replace(due_ms=model.entries[row.waited_at].due_ms) for row in rows if row[0] in model.entries]
    assert entries.of_rows(rows) == still
    assert (entries.next_due_ms is None) == (not model.entries)
    if model.entries:
        assert entries.next_due_ms <= min(model.entries.values()).due_ms  # type: ignore[operator]
        assert entries.oldest_place <= min(map(entries.place_of, model.entries))  # type: ignore[operator]


def test_what_died_in_its_slot_takes_no_room_for_long() -> None:
    entries = Waiting()
    for offset in range(50_000):
        entries.add(Entry(NOW_MS + offset * 60_000, offset), offset + 1, offset)
    for offset in range(49_000):
        entries.cancel(offset + 1)
    assert len(entries) == 1_000
    assert len(entries._gone) <= 2 * waiting.MOST_GONE
    assert sum(1 for level in entries._levels for part in level for _ in part) < 25_000


def test_very_many_due_at_once_are_opened_in_steps() -> None:
    entries = Waiting()
    for offset in range(10_000):
        entries.add(Entry(NOW_MS, offset), 0, offset)
    steps = 0
    while not (found := entries.due(NOW_MS, 3)):
        steps += 1
    assert steps + 1 >= 10_000 // slots.MOST_OPENED
    assert [entry.waited_at for entry in found] == [0, 1, 2]


def test_no_step_looks_at_all_that_is_due_in_one_slot() -> None:
    """As many as a topic gets within an hour: what of a batch still waits, and the dead, are looked for in parts."""
    entries, rows = Waiting(), list[Row]()
    for offset in range(50_000):
        entry = Entry(NOW_MS + DAY_MS + offset % 1_000, offset)
        entries.add(entry, 0, offset)
        rows.append(Row(offset, entry.due_ms, 0))
    assert {len(part) for level in entries._levels for part in level} == {slots.MOST_OPENED}
    assert len(entries._far(rows[20_000:20_200])) == slots.MOST_OPENED
    for first in (20_000, 20_999):
        assert entries._far(rows[first : first + 1]) == set(range(20_000, 21_000)), "those of one part"
    for offset in range(30_000):
        entries.moved(offset, 0)
    assert entries.of_rows(rows) == rows[30_000:]
    assert len(entries._gone) <= 30_000
    assert entries.entries() == sorted(Entry(row.due_ms, row.waited_at) for row in rows[30_000:])


def test_what_lies_on_both_sides_of_a_block_of_offsets_keeps_its_offsets() -> None:
    """As many records as 36 bits count: an entry in a slot has the low bits of its offset alone."""
    first = (1 << slots.OFFSET_BITS) - 3
    times = [NOW_MS + YEAR_MS + number for number in range(6)]
    entries = Waiting()
    entries.add_plain(times[:1], first)
    entries.add_plain(times[1:], first + 1)
    assert entries.entries() == [Entry(due_ms, first + number) for number, due_ms in enumerate(times)]
    assert opened(entries, NOW_MS + 2 * YEAR_MS, 10) == entries.entries()


@pytest.mark.parametrize("seed", range(10))
def test_plain_records_at_once_are_as_one_after_the_other(seed: int) -> None:
    random = Random(seed)
    at_once, alone = Waiting(), Waiting()
    first = random.randrange(5) << waiting.BLOCK_SHIFT
    for _ in range(5):
        span_ms = random.choice((10, 10_000_000, YEAR_MS))
        first += random.choice((0, 1, 1 << waiting.BLOCK_SHIFT))
        count = random.choice((1, 3, (1 << waiting.BLOCK_SHIFT) + random.randrange(5)))
        times = [NOW_MS + random.randrange(span_ms) for _ in range(count)]
        at_once.add_plain(times, first)
        for offset, due_ms in enumerate(times, first):
            alone.add(Entry(due_ms, offset), 0, offset)
        first += count
        assert at_once._blocks == alone._blocks
        assert len(at_once) == len(alone)
        assert list(at_once.entries()) == list(alone.entries())


def test_of_very_many_only_those_are_put_where_they_belong_that_are_due_before_long() -> None:
    """A new leader reads of millions that wait before it delivers."""
    entries, random = Waiting(), Random(1)
    for first in range(0, 20_000, 1_000):
        entries.add_plain([NOW_MS + DAY_MS + random.randrange(YEAR_MS) for _ in range(1_000)], first)
    entries.due(NOW_MS, 1)
    assert not entries.near.due_ms
    assert not any(level.parts for level in entries._levels)
    assert len(opened(entries, NOW_MS + DAY_MS + YEAR_MS, 20_000)) == 20_000


def test_who_has_come_out_of_a_batch_takes_no_room_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new leader reads of a log of which almost all was delivered."""
    monkeypatch.setattr(waiting, "MOST_GONE", 1_000)
    entries = Waiting()
    for first in range(0, 50_000, 1_000):
        entries.add_plain([NOW_MS + YEAR_MS] * 1_000, first)
        for offset in range(first, first + 999):
            entries.moved(offset, 0)
    assert [entry.waited_at for entry in entries.entries()] == list(range(999, 50_000, 1_000))
    assert sum(map(len, entries._runs)) + sum(len(part) for level in entries._levels for part in level) < 5_000


def test_who_dies_pays_for_what_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that died first lie where is looked last: so many die between one part and the next as that is worth."""
    died = paid_until = looks = 0

    def looked(part: Part) -> Iterable[int]:
        nonlocal paid_until, looks
        assert len(part) <= (died - paid_until) * 4
        paid_until, looks = died, looks + 1
        return offsets(part)

    offsets = Part.offsets
    monkeypatch.setattr(Part, "offsets", looked)
    entries = Waiting()
    for offset in range(40_000):
        entries.add(Entry(NOW_MS + DAY_MS + offset, offset), NO_ID, offset)
    for offset in range(39_000):
        died += 1
        entries.moved(offset, NO_ID)
    assert looks > 20


@pytest.mark.parametrize("count", [30_000, pytest.param(500_000, marks=pytest.mark.soak)])
def test_very_many_due_in_the_same_millisecond_take_small_steps_and_little_memory(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step takes more of them than the others do, nor makes a table anew in which all are."""
    monkeypatch.setattr(waiting, "MOST_NEAR", 3_000)
    monkeypatch.setattr(waiting, "MOST_AT_ONCE", 5_000)
    entries, due_ms = Waiting(), NOW_MS + DAY_MS
    for first in range(0, count, 1_000):
        entries.add_plain([due_ms] * 1_000, first)
    came, before, largest = 0, 0, 0
    tracemalloc.start()
    while came < count:
        found = entries.due(due_ms, MOST_MOVED)
        assert [entry.waited_at for entry in found] == list(range(came, came + len(found)))
        opened_now = len(entries.near.due_ms)
        assert opened_now - before <= slots.MOST_OPENED
        largest = max([largest, *map(len, entries.near.due_ms._shards.values())])
        for entry in found:
            entries.moved(entry.waited_at, 0)
        came, before = came + len(found), len(entries.near.due_ms)
    most = tracemalloc.get_traced_memory()[1]
    here = tracemalloc.Filter(True, f"{Path(waiting.__file__).parent}/*")  # other threads of this process go on as well
    left = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([here]).traces)
    tracemalloc.stop()
    assert largest <= 5_000
    assert most < 20 * count + 160 * (waiting.MOST_NEAR + slots.MOST_OPENED)
    assert left < 100_000
    assert not entries.near.due_ms._shards


@pytest.mark.parametrize("before", [-5, -(1 << slots.OFFSET_BITS)])
def test_what_is_first_leaves_also_where_what_follows_lies_in_another_block_of_offsets(before: int) -> None:
    """That takes more offsets than fit into an entry."""
    first, begun = Entry(NOW_MS, (2 << slots.OFFSET_BITS) - 3), Begun()
    second = Entry(NOW_MS + 1, (1 << slots.OFFSET_BITS) + before)
    last = Entry(NOW_MS + 2, (3 << slots.OFFSET_BITS) + 1)
    for entry in (last, second, first):
        part = slots.Part(NOW_MS, entry.waited_at)
        part.add(*entry)
        begun.add(part)
    assert [begun.take_some(10) for _ in range(3)] == [[first], [second], [last]]
    assert (begun.head, list(begun)) == (None, [])


def test_where_very_many_parts_have_the_same_times_not_each_entry_is_taken_alone() -> None:
    begun, taken = Begun(), list[int]()
    for first in range(0, 20_000, 500):
        part = slots.Part(NOW_MS, first)
        for offset in range(first, first + 500):
            part.add(NOW_MS + offset % 500, offset)
        begun.add(part)
    while (head := begun.head) is not None:
        some = begun.take_some(300)
        assert tuple(head) == some[0]
        taken.append(len(some))
    assert sum(taken) == 20_000
    assert len(taken) <= 20_000 // slots.FEWEST_TAKEN


def test_records_that_are_put_one_by_one_as_one_is_due_soon_count_in_full_for_the_step() -> None:
    """The loop would be held for as long as eight times as many."""
    rows = {}
    for first_ms in (NOW_MS, NOW_MS + DAY_MS):
        records = DelayedRecords(0)
        records.waiting.due(NOW_MS, 1)
        times = [first_ms, *[NOW_MS + DAY_MS] * 799]
        batch = bytes(encode_batch([Record(timestamp_ms=NOW_MS, value=b"")] * len(times)))
        held = hold(
            batch, read_header(batch), [Row(OWN_PLACE, each, NO_ID) for each in times], now_ms=NOW_MS, unpacked_bytes=0
        )
        assert records.take(bytes(held), read_header(held))
        rows[first_ms] = records.rows_taken
    assert rows == {NOW_MS: 1 + 800, NOW_MS + DAY_MS: 1 + 100}


def held_batch(base_offset: int, times: list[int], *, has_ids: bool = False, producer_id: int = -1) -> bytes:
    batch = bytes(
        encode_batch(
            [Record(timestamp_ms=NOW_MS, value=b"")] * len(times),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0,
        )
    )
    rows = [Row(OWN_PLACE, due_ms, 1 + number if has_ids else NO_ID) for number, due_ms in enumerate(times)]
    held = hold(batch, read_header(batch), rows, now_ms=NOW_MS, unpacked_bytes=0)
    set_base_offset(held, 0, base_offset)
    return bytes(held)


@pytest.mark.parametrize(
    ("counts", "steps"),
    [
        ((2_500,), [2_501]),
        ((2_501,), [2_501, 2]),
        ((1_249, 1_249), [2_500]),
        ((1_250, 1_250), [2_501, 2]),
        ((1_249, 1_249, 10), [2_500, 11]),
    ],
)
def test_a_step_takes_so_many_rows_and_counts_a_batch_as_one_more(counts: tuple[int, ...], steps: list[int]) -> None:
    """Those of several batches, where a transaction ends: each of its rows is one by itself."""
    records, end = DelayedRecords(0), 0
    is_transaction = len(counts) > 1
    for count in counts:
        batch = held_batch(end, [NOW_MS + DAY_MS] * count, has_ids=True, producer_id=7 if is_transaction else -1)
        end += count
        if is_transaction:
            assert records.take(batch, read_header(batch))
    if is_transaction:
        batch = bytes(
            transaction_marker(ControlType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=1, now_ms=0)
        )
    assert steps_of(records, batch) == steps


def steps_of(records: DelayedRecords, batch: bytes) -> list[int]:
    taken, is_done = list[int](), False
    while not is_done:
        before = records.rows_taken
        is_done = records.take(batch, read_header(batch))
        taken.append(records.rows_taken - before)
    return taken


def test_rows_that_are_a_run_count_for_an_eighth() -> None:
    """What is left of them after a step is none any more."""
    assert steps_of(DelayedRecords(0), held_batch(0, [NOW_MS + DAY_MS] * 2_501)) == [1 + 2_500 // 8, 1 + 1]


def test_records_that_were_moved_count_for_the_step() -> None:
    records = DelayedRecords(0)
    batch = held_batch(0, [NOW_MS + DAY_MS] * 60)
    assert records.take(batch, read_header(batch))
    before = records.rows_taken
    moved = encode_batch([Record(NOW_MS, headers=[(WAITED_AT, b"%d" % at)]) for at in range(5)], base_offset=60)
    header = read_header(moved)._replace(attributes=DELAYED | LOG_APPEND_TIME)
    assert records.take(bytes(moved), header)
    assert (records.rows_taken - before, records.position) == (5, 65)


def test_an_entry_lies_in_the_widest_slot_that_has_not_begun() -> None:
    """Of a second, of nine minutes or of three days; what is due in a second that has begun is near."""
    entries = Waiting()
    assert not entries.is_opened
    entries.due(NOW_MS, 1)
    assert entries.is_opened
    second, minutes, days = (((NOW_MS >> shift) + 1) << shift for shift in (10, 19, 28))
    places = {second - 1: "near", second: 0, minutes - 1: 0, minutes: 1, days - 1: 1, days: 2, days + YEAR_MS: 2}
    for at, due_ms in enumerate(places):
        entries.add(Entry(due_ms, at), NO_ID, at)
    found: dict[int, object] = {
        entry.due_ms: level for level in range(3) for part in entries._levels[level] for entry in part
    }
    assert {**{due_ms: "near" for _, due_ms in entries.near.due_ms.items()}, **found} == places
    assert entries.next_due_ms == second - 1
    entries.moved(0, NO_ID)
    assert entries.next_due_ms == second
    entries.due(NOW_MS - 30 * DAY_MS, 1)
    entries.add(Entry(second - 1, 0), NO_ID, 0)
    assert len(entries.near.due_ms) == 1, "where the clock is set back, what has begun has"


@pytest.mark.parametrize(
    ("count", "soonest_ms", "is_run"), [(50, 20 * 60_000, True), (49, 20 * 60_000, False), (50, 1_000, False)]
)
def test_a_run_are_some_that_are_all_due_later_than_within_nine_minutes(
    count: int, soonest_ms: int, is_run: bool
) -> None:
    entries = Waiting()
    entries.due(NOW_MS, 1)
    assert entries.add_plain([NOW_MS + DAY_MS] * (count - 1) + [NOW_MS + soonest_ms], 0) is is_run
    assert sum(map(len, entries._runs)) == (count if is_run else 0)
    entries.due(NOW_MS + 1, 1)
    assert sum(map(len, entries._runs)) == (count if is_run else 0), "it stays one until then"


def test_of_a_transaction_that_is_open_only_rows_are_kept() -> None:
    records = DelayedRecords(0)
    batch = held_batch(0, [NOW_MS + DAY_MS] * 500, producer_id=7)
    assert records.take(batch, read_header(batch))
    ((held,),) = records._open.values()
    assert len(held._value) < len(batch)


@pytest.mark.parametrize(("most", "deaths"), [(10, 34), (50, 51)])
def test_as_many_as_half_of_what_waits_may_be_dead_or_some_thousands(
    most: int, deaths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred: when 34 are dead, 66 wait."""
    monkeypatch.setattr(waiting, "MOST_GONE", most)
    entries = Waiting()
    for offset in range(100):
        entries.add(Entry(NOW_MS + DAY_MS + offset, offset), NO_ID, offset)
    for offset in range(deaths - 1):
        entries.moved(offset, NO_ID)
    assert len(entries._gone) == deaths - 1
    entries.moved(99, NO_ID)
    assert (len(entries._gone), entries._credit) == (0, 0)
    assert [entry.waited_at for entry in entries.entries()] == list(range(deaths - 1, 99))
