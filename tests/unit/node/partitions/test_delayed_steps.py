"""Each step of a delivery by itself, as tables in which each condition counts alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.stepped_delivery import NOW_MS, Told, delivery

from penstock.log.validation import LOOKED_AT
from penstock.node.partitions import delayed
from penstock.node.partitions.delayed import CARRY_INTERVAL_MS, COMMIT_MS, LOOK_MS, MOST_UNDER_WAY, RETRY_MS, Delivery
from penstock.node.partitions.partition import NotAppendingError
from penstock.protocol.batch import CONTROL, DELAYED
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.delayed.machine import MOST_MOVED


@pytest.mark.parametrize(
    ("changes", "due", "does"),
    [
        ({}, None, ["_delete", "_wait_for_growth"]),
        ({"is_read": False, "position": 99}, NOW_MS, []),
        ({"is_read": False, "position": 99, "heard_from": 102}, NOW_MS, []),
        ({"is_read": False, "position": 100, "heard_from": 102}, None, ["_wait_for_growth"]),
        ({"is_read": False, "position": 102, "heard_from": 102}, NOW_MS, []),
        ({"carries": True}, NOW_MS, []),
        ({"delivers": True}, NOW_MS, ["_delete"]),
        ({"_deletes_before": 1}, NOW_MS + COMMIT_MS, ["_delete"]),
        ({"_deletes_before": 1, "start": 1}, None, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS + 7}, NOW_MS + 7, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS + LOOK_MS + 1}, NOW_MS + LOOK_MS, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS - 7}, NOW_MS, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS - 7, "next_offset": 101}, None, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS, "next_offset": 101}, None, ["_delete", "_wait_for_growth"]),
        ({"due": NOW_MS + 1, "next_offset": 101}, NOW_MS + 1, ["_delete", "_wait_for_growth"]),
        ({"_appended": deque([*range(100 - MOST_UNDER_WAY, 100), 100]), "carries": True}, NOW_MS, []),
        ({"_appended": deque(range(100, 99 + MOST_UNDER_WAY)), "carries": True}, NOW_MS, []),
        ({"_appended": deque(range(100, 100 + MOST_UNDER_WAY)), "carries": True}, None, ["_wait_for_growth"]),
    ],
)
def test_a_step(changes: dict[str, Any], due: int | None, does: list[str]) -> None:
    told, answers = Told(), {"is_read": True, "carries": False, "delivers": False}
    answers |= {name: changes[name] for name in answers if name in changes}
    one = delivery(told, **{name: it for name, it in changes.items() if name not in answers})
    one._read, one._carries, one._delivers = (lambda *_, answer=answer: answer for answer in answers.values())
    assert Delivery._step(one, NOW_MS) == due
    assert [name for name, *_ in told] == does
    assert all(last_offset >= 100 for last_offset in one._appended)


@pytest.mark.parametrize(
    ("error", "due", "is_told"),
    [
        (None, 7, False),
        (None, None, False),
        (NotAppendingError(None), NOW_MS + RETRY_MS, False),  # type: ignore[arg-type]
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), NOW_MS + RETRY_MS, True),
    ],
)
def test_what_comes_of_a_step(
    caplog: pytest.LogCaptureFixture, error: Exception | None, due: int | None, is_told: bool
) -> None:
    caplog.set_level("INFO")
    told = Told()

    def step(now_ms: int) -> int | None:
        if error is not None:
            raise error
        return due

    one = delivery(told, _step=step)
    for before, levels in (("", ["ERROR"] if is_told else []), ("another", ["ERROR" if is_told else "INFO"])):
        one._failure = before
        Delivery._ring(one)
        Delivery._ring(one)
        assert [record.levelname for record in caplog.records] == levels, "once"
        assert one._failure == (str(error) if is_told else "")
        caplog.clear()
    assert told == ([] if due is None else [("alarm", due)] * 4)
    one.is_over = True
    told.clear()
    Delivery._ring(one)
    assert told == [("stop",)]


def test_who_waits_for_growth_waits_once() -> None:
    told = Told()
    one = delivery(told)
    for _ in range(2):
        Delivery._wait_for_growth(one)
    assert (one._wait, told) == ("a wait", [("wait", 101, one._has_grown)])
    Delivery._has_grown(one)
    assert (one._wait, told[1:]) == (None, [("alarm", NOW_MS)])
    Delivery.stop(one)
    assert [name for name, *_ in told[2:]] == ["no alarm", "no turn"]
    one._wait = "a wait"
    Delivery.stop(one)
    assert (one._wait, told[-1]) == (None, ("cancel", "a wait"))


@pytest.mark.parametrize(
    ("changes", "needed", "emptied"),
    [
        ({"high_watermark": 5}, 2, (6, 4)),
        ({"high_watermark": 6}, 4, (9, 7)),
        ({"high_watermark": 8}, 4, (9, 7)),
        ({"high_watermark": 9}, 7, (9, 7)),
        ({"high_watermark": 8, "_needed_from": 5}, 5, (9, 7)),
        ({"high_watermark": 9, "_needed_from": 8}, 8, (9, 7)),
        ({"high_watermark": 9, "start": 8}, 8, (9, 7)),
    ],
)
def test_what_is_needed(changes: dict[str, Any], needed: int, emptied: tuple[int, int]) -> None:
    """When 6 is committed nothing before 4 waits; as far as the log is read, 9, nothing before 7."""
    one = delivery(Told(), **({"_emptied": (6, 4), "_needed_from": 2, "position": 9, "_waits_from": 7} | changes))
    needed_from: Any = Delivery.needed_from
    assert needed_from.fget(one) == needed
    assert one._emptied == emptied


@pytest.mark.parametrize(("oldest", "cleared", "waits_from"), [(None, 5, 100), (3, 5, 5), (7, 5, 7)])
def test_from_where_on_something_waits(oldest: int | None, cleared: int, waits_from: int) -> None:
    found: Any = Delivery._waits_from
    assert found.fget(delivery(Told(), oldest=oldest, _cleared=cleared)) == waits_from


@pytest.mark.parametrize(("before", "offset", "after"), [(0, 5, 5), (7, 5, 7)])
def test_what_is_to_be_deleted_is_looked_at_soon(before: int, offset: int, after: int) -> None:
    told = Told()
    one = delivery(told, _deletes_before=before)
    Delivery.delete_before(one, offset)
    assert (one._deletes_before, told) == (after, [("_delete",), ("alarm", NOW_MS)])


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({}, 9),
        ({"high_watermark": 8}, 8),
        ({"needed_from": 7}, 7),
        ({"_deletes_before": 6}, 6),
        ({"_begins_at": 8}, 9),
        ({"_begins_at": 9}, None),
        ({"start": 8}, 9),
        ({"start": 9}, None),
    ],
)
def test_where_the_log_is_told_to_begin(changes: dict[str, Any], begin: int | None) -> None:
    told = Told()
    one = delivery(told, **({"_deletes_before": 9} | changes))
    Delivery._delete(one)
    assert told == ([] if begin is None else [("begin at", begin), ("moved",), ("told of deletions",)])
    assert one._begins_at == (changes.get("_begins_at", 0) if begin is None else begin)


class Records:
    """Of what is read: held batches have a row of which so much more is to be read."""

    def __init__(self, told: Told, position: int) -> None:
        self.told, self.position, self.rows_taken = told, position, 3

    def concerns(self, header: Any) -> bool:
        return bool(header.concerns)

    def has_begun(self, header: Any) -> bool:
        return bool(header.has_begun)

    def take(self, batch: bytes, header: Any) -> bool:
        self.told.append(("taken", header.number, batch))
        self.rows_taken += 1
        return bool(header.is_whole)

    def pass_over(self, header: Any) -> None:
        self.told.append(("passed over", header.number))


def header(number: int, **changes: Any) -> Any:
    fields = {"concerns": True, "has_begun": False, "is_whole": True, "is_held": False, "size_in_bytes": 90}
    return SimpleNamespace(number=number, **(fields | changes))


@pytest.mark.parametrize(
    ("headers", "position", "is_all", "does"),
    [
        ([], 99, False, []),
        ([], 100, True, []),
        ([header(0, concerns=False)], 101, True, [("passed over", 0)]),
        ([header(0), header(1, is_held=True)], 100, True, [("taken", 0, b"90"), ("taken", 1, b"50")]),
        ([header(0, has_begun=True)], 100, True, [("taken", 0, b"")]),
        ([header(0, is_whole=False), header(1)], 100, False, [("taken", 0, b"90")]),
        ([header(number) for number in range(9)], 100, True, [("taken", number, b"90") for number in range(4)]),
    ],
)
def test_how_much_of_a_log_is_read_in_a_step(
    monkeypatch: pytest.MonkeyPatch, headers: list[Any], position: int, is_all: bool, does: list[Any]
) -> None:
    """A batch of 90 bytes and a row, which takes as long as 200, are 290: four of them are 1,160."""
    monkeypatch.setattr(delayed, "STEP_BYTES", 1_160)
    monkeypatch.setattr(delayed, "rows_bytes", lambda header: 50)
    told = Told()
    batches = [(lambda needed: b"%d" % needed, one) for one in headers]
    one = delivery(told, records=Records(told, position), _unread=lambda: batches)
    assert Delivery._read(one) is is_all
    assert told == does


@pytest.mark.parametrize(
    ("position", "heard_from", "found", "left"),
    [
        (99, 0, range(99, 99 + delayed.STEP_BATCHES), [90, 100, 103]),
        (99, 120, range(99, 99 + delayed.STEP_BATCHES), [90, 100, 103]),
        (100, 101, [], [90, 100, 103]),
        (100, 100, [100, 103], [100, 103]),
        (101, 100, [103], [103]),
        (104, 100, [], []),
    ],
)
def test_what_is_read_next(
    monkeypatch: pytest.MonkeyPatch, position: int, heard_from: int, found: Any, left: list[int]
) -> None:
    def batches(_: object, offset: int) -> Iterator[tuple[None, Any]]:
        return ((None, SimpleNamespace(base_offset=at)) for at in range(offset, offset + 200))

    monkeypatch.setattr(delayed, "_batches", batches)
    ahead = deque((None, SimpleNamespace(base_offset=at)) for at in (90, 100, 103))
    one = delivery(Told(), position=position, heard_from=heard_from, _ahead=ahead)
    assert [header.base_offset for _, header in Delivery._unread(one)] == list(found)
    assert [header.base_offset for _, header in ahead] == left


@pytest.mark.parametrize(("attributes", "kept"), [(0, b""), (DELAYED, b"bat"), (CONTROL, b"bat"), (1, b"")])
def test_of_what_is_proposed_that_is_kept_which_is_read(
    monkeypatch: pytest.MonkeyPatch, attributes: int, kept: bytes
) -> None:
    header = SimpleNamespace(attributes=attributes, base_offset=105)
    monkeypatch.setattr(delayed, "read_header", lambda batch: header)
    one = delivery(Told(), _ahead=deque((None, SimpleNamespace(base_offset=at)) for at in (98, 99, 100, 103)))
    Delivery.proposed(one, memoryview(b"batch"))
    assert [of.base_offset for _, of in one._ahead] == [100, 103, 105]
    read, last = one._ahead.pop()
    assert (last, read(3)) == (header, kept)


class Mover:
    """Of which two records fill a batch."""

    def __init__(self, most_bytes: int) -> None:
        self.chosen: list[int] = []

    def add(self, due: int, codec: str) -> bool:
        if len(self.chosen) < 2:
            self.chosen.append(due)
        return len(self.chosen) < 2

    def moved(self, now_ms: int) -> str:
        return "a batch"


@pytest.mark.parametrize(
    ("changes", "chosen", "may_be_more", "rests"),
    [
        ({}, [1, 2], False, "rest"),
        ({"due": NOW_MS + LOOK_MS}, [1, 2], False, None),
        ({"due": NOW_MS + LOOK_MS + 1}, [1, 2], False, "rest"),
        ({"due": NOW_MS + 1}, [1, 2], False, None),
        ({"due": NOW_MS}, [1, 2], True, None),
        ({"due": NOW_MS, "next_offset": 101}, [1, 2], True, None),
        ({"due": NOW_MS, "entries": []}, [], True, None),
        ({"due": NOW_MS, "entries": [], "next_offset": 101}, [], False, None),
        ({"entries": []}, [], False, "rest"),
        ({"in_log": [1]}, [1], False, "rest"),
        ({"in_log": [2, 3]}, [], False, "rest"),
        ({"work": delayed.UNPACKED_A_STEP}, [1, 2], False, "rest"),
        ({"work": delayed.UNPACKED_A_STEP + 1}, [1], False, "rest"),
    ],
)
def test_what_is_delivered_in_a_step(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], chosen: list[int], may_be_more: bool, rests: str | None
) -> None:
    told, changes = Told(), dict(changes)
    entries, work = changes.pop("entries", [1, 2, 3]), changes.pop("work", 0)
    in_log = changes.pop("in_log", entries)
    monkeypatch.setattr(delayed, "Mover", Mover)
    held = SimpleNamespace(work=10**9)

    def take(entry: int) -> tuple[int, str]:
        told.append(("cut", entry))
        held.work += work
        return entry, "gzip"

    held.take, held.are_delivered = take, told.does("delivered")
    held.has_caught_up, held.rest = told.does("caught up"), told.does("rest")
    one = delivery(
        told, _held=held, _is_in_log=lambda entry: entry in in_log, _append=told.does("append", 5), **changes
    )
    one._partition.log.config = SimpleNamespace(max_message_bytes=1)
    one.records.waiting.due = lambda now_ms, most: iter(entries if (now_ms, most) == (NOW_MS, MOST_MOVED) else [])
    one.records.take_moved = told.does("moved")
    assert Delivery._delivers(one, NOW_MS) is may_be_more
    appended: list[Any] = [("append", "a batch", NOW_MS), ("moved", chosen, 5), ("delivered", chosen)] if chosen else []
    is_caught_up = changes.get("due") is None or changes["due"] > NOW_MS
    then = [("caught up",)] * is_caught_up + ([(rests,)] if rests else [])
    assert told == [("cut", entry) for entry in chosen] + appended + then


@pytest.mark.parametrize(("place", "is_in_log"), [(99, True), (100, False), (101, False)])
def test_what_is_under_way_cannot_be_read(place: int, is_in_log: bool) -> None:
    assert Delivery._is_in_log(delivery(Told()), SimpleNamespace(waited_at=place)) is is_in_log  # type: ignore[arg-type]


@pytest.mark.parametrize("wait", [None, "a wait"])
def test_who_appends_needs_no_waking(monkeypatch: pytest.MonkeyPatch, wait: str | None) -> None:
    told = Told()
    one = delivery(told, _wait=wait)
    one._partition.append = told.does("append", SimpleNamespace(base_offset=100, last_offset=104))
    monkeypatch.setattr(delayed, "read_header", lambda batch: "header")
    header: Any = Delivery._append(one, bytearray(b"b"), NOW_MS)
    assert header == "header"
    assert told == [("cancel", wait)] * (wait is not None) + [("append", b"b", 1, NOW_MS, LOOKED_AT)]
    assert (one._wait, list(one._appended)) == (None, [104])


@pytest.mark.parametrize(
    ("changes", "is_more", "carried", "cleared"),
    [
        ({}, False, [3], 7),
        ({"_carried_ms": NOW_MS - CARRY_INTERVAL_MS + 1}, False, [], 0),
        ({"_carried_ms": NOW_MS + 1}, False, [3], 7),
        ({"_carried_ms": NOW_MS, "_deletes_before": 5}, False, [3], 7),
        ({"_carried_ms": NOW_MS, "_deletes_before": 50, "high_watermark": 5}, False, [3], 7),
        ({"_carried_ms": NOW_MS, "_carry_before": 5, "_deletes_before": 2}, False, [3], 7),
        ({"_carried_ms": NOW_MS, "_carry_before": 2, "_deletes_before": 3}, False, [], 3),
        ({"unsettled": 3}, False, [], 3),
        ({"carries": False}, True, [3], 3),
        ({"retained": 20}, True, [3, 7], 10),
        ({"retained": 10}, False, [3, 7], 10),
        ({"retained": 20, "end": 10}, False, [3, 7], 10),
        ({"retained": 20, "appends": True}, True, [3], 7),
        ({"_waits_from": 3}, False, [3], 7),
        ({"_cleared": 3, "_waits_from": 2}, False, [3], 7),
        ({"_waits_from": 4}, False, [], 4),
        ({"start": 4}, False, [], 4),
        ({"retained": 20, "_cleared": 7}, True, [7], 15),
    ],
)
def test_what_is_carried_on_in_a_step(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], is_more: bool, carried: list[int], cleared: int
) -> None:
    """Batches begin at 0, 3, 7 and 10, of which those at 3 and 7 are held; three are looked at in a step."""
    batches = [(0, 2, False), (3, 6, True), (7, 9, True), (10, 14, False), (15, 99, False)]
    changes = {"_carried_ms": NOW_MS - CARRY_INTERVAL_MS, "_waits_from": 0} | changes
    appends, unsettled = changes.pop("appends", False), changes.pop("unsettled", None)
    retained = changes.pop("retained", 7)
    is_last: bool = changes.pop("carries", True)
    looked_at: list[int] = []

    def found(_: object, offset: int) -> Iterator[tuple[Callable[[int], int], Any]]:
        looked_at.append(offset)
        for base, last, is_held in batches:
            if last >= offset and base >= min(offset, 15) - 1 + (offset == 4):
                header = SimpleNamespace(base_offset=base, last_offset=last, is_held=is_held, size_in_bytes=base)
                yield lambda size: size, header

    def carry(base: int, now_ms: int) -> bool:
        told.append(base)
        one.records.position += appends
        return is_last

    monkeypatch.setattr(delayed, "_batches", found)
    monkeypatch.setattr(delayed, "Held", lambda size, header: size)
    monkeypatch.setattr(delayed, "STEP_BATCHES", 3 if retained != 20 or changes.get("_cleared") != 7 else 2)
    told = Told()
    one = delivery(told, _carry=carry, _retained_from=lambda now_ms: retained, **changes)
    one.records.unsettled_from = unsettled
    assert Delivery._carries(one, NOW_MS) is is_more
    assert (list(told), one._cleared) == (carried, cleared)
    assert looked_at == [max(changes.get("_cleared", 0), changes["_waits_from"], changes.get("start", 0))]
    before_ms = changes["_carried_ms"]
    is_asked = NOW_MS - before_ms >= CARRY_INTERVAL_MS or before_ms > NOW_MS
    assert one._carried_ms == (NOW_MS if is_asked else before_ms)


@pytest.mark.parametrize(
    ("carried", "waits", "first", "chosen", "is_last"),
    [
        ((-1, 0), [0, 2], 0, ["r0"], False),
        ((3, 1), [0, 2], 0, ["r0"], False),
        ((20, 2), [0, 1, 2], 2, ["r2"], False),
        ((20, 2), [0, 1], 2, [], False),
        ((20, 3), [4], 3, ["r4"], True),
        ((20, 3), [], 3, [], True),
    ],
)
def test_what_of_a_batch_still_waits_is_carried_on(
    monkeypatch: pytest.MonkeyPatch,
    carried: tuple[int, int],
    waits: list[int],
    first: int,
    chosen: list[str],
    is_last: bool,
) -> None:
    """Five records wait since 40, in a batch of [20, 25), two in a part; what waits elsewhere by now is left."""
    told = Told()
    rows = [SimpleNamespace(waited_at=40 + number) for number in range(5)]
    held = SimpleNamespace(
        base_offset=20, last_offset=24, count=5, compression="gzip",
        numbers_of_part=lambda number: range(number, min(number + 2, 5)), rows=lambda: iter(rows),
        part=lambda number: (None, [f"r{at}" for at in range(number, min(number + 2, 5))]),
    )  # fmt: skip
    places = {40: 20, 41: 19, 42: 24, 43: 25, 44: 22}
    one = delivery(told, _carried=carried, _append=lambda batch, now_ms: "header")
    one.records.waiting.place_of = places.__getitem__
    one.records.waiting.of_rows = lambda some: [row for row in some if row.waited_at - 40 in waits]
    one.records.take = told.does("taken", True)

    def carry(records: list[str], still: list[Any], compression: str, *, now_ms: int) -> bytes:
        told.append((records, [f"r{row.waited_at - 40}" for row in still], compression))
        return b"carried"

    monkeypatch.setattr(delayed, "carry", carry)
    assert Delivery._carry(one, held, NOW_MS) is is_last  # type: ignore[arg-type]
    assert told == ([(chosen, chosen, "gzip"), ("taken", b"carried", "header")] if chosen else [])
    assert one._carried == (20, min(first + 2, 5))


class Sized(list[Any]):
    size_bytes = 70


@pytest.mark.parametrize(("count", "offset"), [(0, 4), (1, 9), (2, 100)])
def test_where_retention_wants_the_log_to_begin(monkeypatch: pytest.MonkeyPatch, count: int, offset: int) -> None:
    asked: list[Any] = []

    def deletable_segments(*given: object, **named: object) -> int:
        asked.append(named)
        return count

    monkeypatch.setattr(delayed, "deletable_segments", deletable_segments)
    one = delivery(Told(), start=4, high_watermark=60)
    one._partition.log.segments = Sized(SimpleNamespace(base_offset=at) for at in (4, 9))
    assert Delivery._retained_from(one, NOW_MS) == offset
    offsets = {"log_start_offset": 4, "high_watermark": 60, "end_offset": 100}
    assert asked == [{"size_bytes": 70, "now_ms": NOW_MS} | offsets]
