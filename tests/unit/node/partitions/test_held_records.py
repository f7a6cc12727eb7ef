"""What is cut out of held batches and not delivered yet, and what is remembered of batches and their parts."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.partitions import held_records as module
from penstock.node.partitions.held_records import FEW_BYTES, SOON_MS, HeldRecords, _Batch, _Part
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import BEHIND_VALUE
from penstock.protocol.errors import DecodeError

COUNT = 40
"""Records of a batch, ten in each of its four parts; the record at place n is 7 bytes long, or 8."""


class Held(HeldRecords):
    """Over batches of 40 records, the first of which are at 0, 40, 80 and so on. They wait since 1,000 later."""

    def __init__(self) -> None:
        self.near = SimpleNamespace(numbers=self.numbers, of=lambda known: [at for at in known if at in self.waits])
        self.waits: set[int] = set()
        self.asked: list[Any] = []
        waiting = SimpleNamespace(near=self.near, place_of=lambda waited_at: waited_at - 1_000)
        super().__init__(cast("Any", SimpleNamespace(changes=0)), cast("Any", waiting))

    def numbers(self, offsets: Any, until_ms: int) -> list[int]:
        """What is due until then: each waits until the ms of its place."""
        return [number for number, at in enumerate(offsets) if at in self.waits and at - 1_000 <= until_ms]

    def _looked_up(self, place: int) -> _Batch:
        base = place // COUNT * COUNT
        self.asked.append(("batch", base))
        firsts = cast("Any", [0, 10, 20, 30])
        offsets = range(base + 1_000, base + 1_000 + COUNT)
        return _Batch(base, base + COUNT - 1, cast("Any", None), firsts, cast("Any", None), offsets)

    def _unpacked(self, batch: _Batch, which: int) -> _Part:
        self.asked.append(("part", batch.base_offset, which))
        first = batch.firsts[which]
        offsets = batch.offsets[first : first + 10]
        return _Part(offsets, Compression.GZIP, bytes(100), cast("Any", offsets))

    def take_at(self, place: int) -> Any:
        return self.take(cast("Any", SimpleNamespace(waited_at=place + 1_000, due_ms=place)))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    def cut(data: bytes, span: int, waited_at: int) -> Any:
        return SimpleNamespace(waited_at=waited_at, body=bytes(7 + waited_at % 2))

    monkeypatch.setattr(module, "cut", cut)
    return Held()


def bytes_of(held: HeldRecords) -> int:
    return sum(len(due.body) for due, _ in held._cut.values())


def test_what_was_cut_out_is_forgotten_with_its_bytes_when_it_is_delivered() -> None:
    held = HeldRecords(cast("Any", SimpleNamespace(changes=0)), cast("Any", None))
    some = [cast("Any", SimpleNamespace(waited_at=at, body=bytes(10 + at))) for at in range(3)]
    held._cut = {due.waited_at: (due, Compression.NONE) for due in some[:2]}
    held._cut_bytes = 21
    held.are_delivered(some[1:])
    assert (list(held._cut), held._cut_bytes) == ([0], 10)
    held.are_delivered(some)
    assert (held._cut, held._cut_bytes) == ({}, 0)


def test_what_is_due_soon_is_cut_out_with_a_record(held: Held) -> None:
    """Of the same part. What is there is not cut out again, and what does not wait is left."""
    held._soon_ms = 5
    held.waits = {1_000 + place for place in (10, 11, 14, 15, 16, 21)}
    due, compression = held.take_at(10)
    assert (due.waited_at, compression) == (1_010, Compression.GZIP)
    assert sorted(held._cut) == [1_010, 1_011, 1_014, 1_015]
    assert held.work == 4 * module.A_CUT
    assert held.take_at(11)[0].waited_at == 1_011
    assert held.asked == [("batch", 0), ("part", 0, 1)]
    held.waits.add(1_013)
    assert held.take_at(16)[0].waited_at == 1_016
    assert sorted(held._cut) == [1_010, 1_011, 1_013, 1_014, 1_015, 1_016]
    assert held.work == 6 * module.A_CUT
    assert held._cut_bytes == bytes_of(held)
    held.waits.clear()
    assert held.take_at(29)[0].waited_at == 1_029, "also where it is not among what is near"


def test_a_log_that_lies_elsewhere_is_read_anew(held: Held) -> None:
    held.take_at(3)
    held._log.changes = 1
    held.take_at(3)
    held.take_at(3)
    assert held.asked == [("batch", 0), ("part", 0, 0)] * 2
    held.rest()
    assert (held._batches, held._bases, held._parts, held._cut) == ({}, [], {}, {})
    assert (held._parts_bytes, held._cut_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("cut_bytes", "found_bytes", "is_looked_through"),
    [
        (FEW_BYTES, 0, False),
        (FEW_BYTES + 1, 0, True),
        (FEW_BYTES + 1, FEW_BYTES // 2, True),
        (2 * FEW_BYTES, FEW_BYTES, False),
        (2 * FEW_BYTES + 1, FEW_BYTES, True),
    ],
)
def test_what_waits_no_longer_is_forgotten(
    held: Held, cut_bytes: int, found_bytes: int, is_looked_through: bool
) -> None:
    held.waits = {1_000, 1_001, 1_002}
    held.take_at(0)
    held.waits = {1_001}
    held._cut_bytes, held._found_bytes, held._soon_ms = cut_bytes, found_bytes, 1
    held.has_caught_up()
    assert held._soon_ms == SOON_MS
    assert list(held._cut) == ([1_001] if is_looked_through else [1_000, 1_001, 1_002])
    assert (held._cut_bytes, held._found_bytes) == ((8, 8) if is_looked_through else (cut_bytes, found_bytes))


@pytest.mark.parametrize(("soon_ms", "then_ms"), [(8, 4), (3, 1), (1, 1)])
def test_where_too_much_is_cut_out_less_comes_with_a_record(
    held: Held, monkeypatch: pytest.MonkeyPatch, soon_ms: int, then_ms: int
) -> None:
    monkeypatch.setattr(module, "CUT_BYTES", 7)
    held._soon_ms = soon_ms
    held.take_at(0)
    assert (held._soon_ms, held._cut_bytes) == (soon_ms, 7)
    held.take_at(1)
    assert (held._soon_ms, sorted(held._cut)) == (soon_ms, [1_000, 1_001])
    held.take_at(2)
    assert (held._soon_ms, sorted(held._cut), held._cut_bytes) == (then_ms, [1_002], 7)


@pytest.mark.parametrize("seed", range(6))
def test_so_many_batches_and_parts_are_remembered_that_were_used_last(
    held: Held, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Beside lists of what was used, the last at the end. Parts of more than 250 bytes are too large to be several."""
    batches, parts, random = list[int](), list[tuple[int, int]](), Random(seed)
    most_parts, most_bytes = random.choice(((3, 300), (3, 299), (9, 300)))
    for name, limit in (("BATCHES", 3), ("PARTS", most_parts), ("PARTS_BYTES", most_bytes), ("CUT_BYTES", 0)):
        monkeypatch.setattr(module, name, limit)
    for _ in range(100):
        place = random.randrange(6 * COUNT)
        base, which = place // COUNT * COUNT, place % COUNT // 10
        is_known, is_unpacked = base in batches, (base, which) in parts
        held._cut.clear()
        held._cut_bytes = 0
        held.asked.clear()
        assert held.take_at(place)[0].waited_at == place + 1_000
        batches = [*(one for one in batches if one != base), base][-3:]
        parts = [*(one for one in parts if one != (base, which)), (base, which)]
        while not is_unpacked and len(parts) > (most_parts if 100 * len(parts) <= most_bytes else 1):
            parts.pop(0)
        assert held.asked == [("batch", base)] * (not is_known) + [("part", base, which)] * (not is_unpacked)
        assert (list(held._batches), held._bases) == (batches, sorted(batches))
        assert (list(held._parts), held._parts_bytes) == (parts, 100 * len(parts))


def test_a_batch_that_does_not_hold_what_waits_is_damaged(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    held._waiting.place_of = lambda waited_at: 3  # type: ignore[method-assign]
    with pytest.raises(DecodeError, match="the batch at offset 0 does not hold what waits since offset 5000"):
        held.take_at(4_000)


def test_to_unpack_a_part_takes_as_long_as_it_has_bytes_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    segment: Any = SimpleNamespace(opened=lambda: SimpleNamespace(read_at=lambda *given: reads.append(given)))
    batch = _Batch(40, 79, segment, cast("Any", [0, 10]), cast("Any", [500, 530, 590]), range(1_040, 1_080))
    header = SimpleNamespace(record_count=10, compression=Compression.GZIP)
    monkeypatch.setattr(module, "read_header", lambda packed: header)
    monkeypatch.setattr(module, "unpack_records", lambda packed, at, header, *, max_bytes: bytes(70 + at))
    monkeypatch.setattr(module, "spans", lambda data, count: ["span"] * count)
    held = HeldRecords(cast("Any", SimpleNamespace(changes=0)), cast("Any", None))
    part: Any = held._unpacked(batch, 1)
    assert (reads, held.work) == ([(60, 530)], 70 + 10 * module.A_RECORD)
    assert (list(part.offsets), part.compression) == (list(range(1_050, 1_060)), Compression.GZIP)
    assert (part.data, part.spans) == (bytes(70), ["span"] * 10)


@pytest.mark.parametrize("has_own_places", [True, False])
def test_where_the_parts_of_a_batch_lie(monkeypatch: pytest.MonkeyPatch, has_own_places: bool) -> None:
    read = SimpleNamespace(read_at=lambda size, position: (size, position))
    segment = SimpleNamespace(opened=lambda: read, headers_from=lambda place: iter(found))
    log = SimpleNamespace(changes=0, segments=SimpleNamespace(from_offset=lambda place: [segment]))
    batch = SimpleNamespace(
        base_offset=40, last_offset=42, count=3, has_own_places=has_own_places,
        parts=lambda: iter([(0, 61), (2, 80)]), rows=lambda: [SimpleNamespace(waited_at=at) for at in (7, 40, 9)],
    )  # fmt: skip
    monkeypatch.setattr(module, "Held", lambda data, header: batch if data == (101, 500) else None)
    held = HeldRecords(cast("Any", log), cast("Any", None))
    found: list[Any] = [(500, SimpleNamespace(size_in_bytes=101))]
    known: Any = held._looked_up(41)
    assert (known.base_offset, known.last_offset, known.segment) == (40, 42, segment)
    assert (list(known.firsts), list(known.positions)) == ([0, 2], [561, 580, 601 - BEHIND_VALUE])
    assert (list(known.offsets), held.work) == ([40, 41, 42] if has_own_places else [7, 40, 9], 101 // 4)
    found.clear()
    with pytest.raises(DecodeError, match="no batch has the offset 41"):
        held._looked_up(41)
