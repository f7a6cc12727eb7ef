"""When a share partition looks at what is due, whom it wakes, and what it takes of what was found in the log."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.log_slice import LogSlice
from penstock.node.partitions.partition import Later
from penstock.node.sharing import shared as module
from penstock.node.sharing.progress import UNKNOWN_MS
from penstock.node.sharing.share_metrics import Counted, register_shares
from penstock.node.sharing.shared import BETWEEN_LOOKS_MS, LAST_OFFSET, Found, Shared
from penstock.node.sharing.shares import AT_ONCE, Shares
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import SMALL_BYTES
from penstock.replication.waits import NEVER, Waits
from penstock.sharing.acquiring import Acquired, Demand
from penstock.sharing.breaker import State
from penstock.sharing.values import ACCEPT, NEVER_MS, REJECT, RELEASE, Acknowledgement, ShareSettings, Status

NOW_MS = 5_000


class Loop:
    """Notes timers, and when they are to go off."""

    def __init__(self) -> None:
        self.due: list[float] = []

    def call_at(self, at_s: float, call: Any) -> Any:
        self.due.append(at_s)
        return SimpleNamespace(cancel=lambda: self.due.remove(at_s))


def made(**machine: Any) -> Any:
    it: Any = object.__new__(Shared)
    it._loop = Loop()
    it.key = SimpleNamespace(group_id="g", partition=3)
    it.now_ms = lambda: NOW_MS
    it.machine = SimpleNamespace(**{"status": Status.ACTIVE, "next_expiry_ms": NEVER_MS, **machine})
    it._timer, it._timer_ms, it._looked_ms = None, NEVER_MS, -BETWEEN_LOOKS_MS
    it._waiting = {}
    it.reads_committed = False
    return it


@pytest.mark.parametrize(
    ("looked_ms", "steps"),
    [
        (-BETWEEN_LOOKS_MS, [(NEVER_MS, []), (9_000, [9.0]), (8_000, [8.0]), (8_500, [8.0]), (8_000, [8.0])]),
        (8_990, [(9_000, [8.99 + BETWEEN_LOOKS_MS / 1000]), (9_050, [8.99 + BETWEEN_LOOKS_MS / 1000])]),
        (8_980, [(9_000, [9.0]), (8_990, [9.0])]),
        (9_000, [(0, [9.0 + BETWEEN_LOOKS_MS / 1000])]),
    ],
)
def test_the_timer_is_for_what_is_due_next_and_not_too_soon(
    looked_ms: int, steps: list[tuple[int, list[float]]]
) -> None:
    it = made()
    it._looked_ms = looked_ms
    for expiry_ms, due in steps:
        it.machine.next_expiry_ms = expiry_ms
        it._set_timer()
        assert it._loop.due == pytest.approx(due)


def test_what_is_not_active_has_no_timer() -> None:
    it = made(next_expiry_ms=9_000, status=Status.INITIALIZING)
    it._set_timer()
    assert it._loop.due == []


def test_each_look_is_followed_by_the_next() -> None:
    it, looks = made(next_expiry_ms=4_000), list[int]()
    it._expire = lambda shared: looks.append(shared._looked_ms)
    it._locks_run_out()
    assert (looks, it._loop.due) == ([NOW_MS], [(NOW_MS + BETWEEN_LOOKS_MS) / 1000])


@pytest.mark.parametrize("has_timer", [True, False])
def test_its_end_wakes_who_waits_and_leaves_no_timer(has_timer: bool) -> None:
    it, woken = made(fence=lambda: None), list[str]()
    waits = Waits()
    it.partition = SimpleNamespace(committed=SimpleNamespace(waits=waits), high_watermark=4)
    it.when_led_no_longer(lambda: woken.append("ends"))
    assert (it._end_of_epoch is not None, LAST_OFFSET) == (True, NEVER - 1)
    it.wait(lambda: woken.append("waits"))
    if has_timer:
        it.machine.next_expiry_ms = 9_000
        it._set_timer()
    it.machine.status = Status.FENCED
    it.close()
    assert (woken, it._loop.due, it._timer, it._end_of_epoch) == (["waits"], [], None, None)
    it.close()
    assert woken == ["waits"]


@pytest.mark.parametrize(
    ("status", "can_acquire", "next_offset", "error", "wakes"),
    [
        (Status.ACTIVE, True, 3, None, True),
        (Status.ACTIVE, True, 4, None, False),
        (Status.ACTIVE, False, 3, None, False),
        (Status.ACTIVE, False, 4, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), True),
        (Status.FENCED, False, 4, None, True),
    ],
)
def test_who_waits_is_called_once_where_there_is_something(
    status: Status, can_acquire: bool, next_offset: int, error: KafkaError | None, wakes: bool
) -> None:
    class Partition:
        high_watermark = 4
        last_stable_offset = 9
        committed = SimpleNamespace(waits=Waits())

        @property
        def log_start_offset(self) -> int:
            if error is not None:
                raise error
            return 0

    it, woken = made(status=status, can_acquire=can_acquire, next_fetch_offset=next_offset, start_offset=0), [0, 0]
    it.partition = Partition()

    def first() -> None:
        woken[0] += 1

    def second() -> None:
        woken[1] += 1

    it.wait(first)
    it.wait(second).cancel()
    it.has_news()
    it.has_news()
    assert woken == [int(wakes), 0]


@pytest.mark.parametrize(("start", "log_start", "told"), [(3, 2, []), (3, 3, []), (3, 4, [4])])
def test_where_the_log_begins_is_told_where_it_begins_later(start: int, log_start: int, told: list[int]) -> None:
    found: list[int] = []
    it = made(can_acquire=True, next_fetch_offset=8, start_offset=start, log_begins_at=found.append)
    it.partition = SimpleNamespace(log_start_offset=log_start, high_watermark=9, last_stable_offset=8)
    assert it.has_records
    it.reads_committed = True
    found.clear()
    assert not it.has_records
    assert found == told


def header(base: int, last: int, size: int) -> Any:
    return SimpleNamespace(base_offset=base, last_offset=last, size_in_bytes=size)


class Log:
    """Has batches of five records, each so long."""

    def __init__(self, count: int, size: int) -> None:
        self.headers = [(at * size, header(at * 5, at * 5 + 4, size)) for at in range(count)]
        self.looked_at = 0

    def headers_of(self, _: LogSlice) -> Any:
        for one in self.headers:
            self.looked_at += 1
            yield one

    def bytes_of(self, records: LogSlice) -> bytes:
        return b"x" * records.length


@pytest.mark.parametrize(
    ("acquired", "size", "taken"),
    [
        ([Acquired(0, 4, 1)], 100, (0, 100)),
        ([Acquired(5, 9, 1)], 100, (100, 100)),
        ([Acquired(4, 5, 1)], 100, (0, 200)),
        ([Acquired(5, 6, 2), Acquired(10, 10, 1)], 100, (100, 200)),
        ([Acquired(0, 4, 1)], SMALL_BYTES, (0, SMALL_BYTES)),
        ([Acquired(0, 4, 1)], SMALL_BYTES + 1, (0, SMALL_BYTES + 1)),
    ],
)
def test_the_batches_of_what_is_acquired_are_taken(acquired: list[Acquired], size: int, taken: tuple[int, int]) -> None:
    it, counted = made(acquire=lambda *_: acquired, settings=ShareSettings()), list[tuple[int, ...]]()
    log = Log(4, size)
    it.partition = SimpleNamespace(log=log)
    it.deliveries = SimpleNamespace(count=lambda *of: counted.append(of))
    found = it.take(Demand("ann", 500, 500), Found(0, LogSlice(cast("Any", "file"), 0, 4 * size, 20)))
    begin, length = taken
    if length <= SMALL_BYTES:
        assert found.records == b"x" * length
    else:
        taken_slice = found.records
        assert (taken_slice.position, taken_slice.length, taken_slice.end_offset) == (begin, length, 20)
    again = sum(it.last - it.first + 1 for it in acquired if it.delivery_count > 1)
    first = sum(it.last - it.first + 1 for it in acquired if it.delivery_count == 1)
    assert (found.acquired, counted) == (acquired, [(first, again, NOW_MS)])


@pytest.mark.parametrize(
    ("max_records", "batch_size", "locks", "looked_at"),
    [
        (5, 4, 500, 2),
        (5, 5, 500, 3),
        (6, 5, 500, 3),
        (14, 0, 500, 3),
        (15, 0, 500, 4),
        (500, 500, 4, 2),
        (500, 500, 5, 3),
    ],
)
def test_no_more_batches_are_looked_at_than_may_be_acquired(
    max_records: int, batch_size: int, locks: int, looked_at: int
) -> None:
    it, log = made(acquire=lambda *_: [], settings=ShareSettings(partition_max_record_locks=locks)), Log(9, 10)
    it.partition = SimpleNamespace(log=log)
    found = Found(0, LogSlice(cast("Any", "file"), 0, 90, 45))
    assert it.take(Demand("ann", max_records, batch_size), found) is None
    assert log.looked_at == looked_at


def test_of_nothing_nothing_is_taken() -> None:
    it = made(settings=ShareSettings())
    it.partition = SimpleNamespace(log=Log(0, 10))
    assert it.take(Demand("ann", 5, 5), Found(0, LogSlice(cast("Any", "file"), 0, 0, 0))) is None


@pytest.mark.parametrize(("length", "is_found"), [(0, False), (1, True)])
@pytest.mark.parametrize("reads_committed", [False, True])
def test_at_least_one_batch_is_looked_for_up_to_the_end(length: int, is_found: bool, reads_committed: bool) -> None:
    asked: list[Any] = []
    found = LogSlice(cast("Any", "file"), 0, length, 9)

    def read(*of: int, **how: object) -> LogSlice:
        asked.append((of, how))
        return found

    it = made(next_fetch_offset=6)
    it.reads_committed = reads_committed
    it.partition = SimpleNamespace(read=read, high_watermark=9, last_stable_offset=8)
    assert it.find(77) == (Found(6, found) if is_found else None)
    upper = 8 if reads_committed else 9
    assert asked == [((6, 77), {"upper_offset": upper, "at_least_one_batch": True})]
    later = Later(Waits(), 5)
    it.partition.read = lambda *_, **__: later
    assert it.find(77) is later


def test_pauses_are_told_as_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, module.logger.name)
    breaker = SimpleNamespace(state=State.CLOSED, next_ms=NOW_MS + 10_001)
    it = made(breaker=breaker, settings=ShareSettings(dead_letter_max_rate=7))
    it.partition = SimpleNamespace(topic="orders")
    it._told = State.CLOSED
    told = []
    for state in (State.CLOSED, State.OPEN, State.OPEN, State.PROBING, State.CLOSED):
        breaker.state = state
        caplog.clear()
        it.tell_of_pauses()
        told.append([one.getMessage() for one in caplog.records])
    of = "share group g: deliveries of orders-3"
    assert [len(them) for them in told] == [0, 1, 0, 1, 1]
    assert f"{of} pause for 11 s, as more than 7 records" in told[1][0]
    assert "a few records of orders-3 are delivered" in told[3][0]
    assert told[4] == [f"{of} go on"]


class Oldest:
    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.looks: list[bool] = []

    def is_known(self, offset: int) -> bool:
        return offset == self.offset

    def came_ms(self, offset: int, *, may_look: bool) -> int:
        self.looks.append(may_look)
        return self.offset if may_look or self.is_known(offset) else UNKNOWN_MS


def test_only_so_many_logs_are_looked_into_while_metrics_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.sharing.share_metrics.MOST_LOOKS", 2)
    rows = [(7, 7, 1), (8, 7, 1), (9, 7, 1), (10, 7, 1), (7, 7, 0), (12, 7, 1)]
    led: list[Any] = [
        SimpleNamespace(
            key=SimpleNamespace(group_id="g", partition=number),
            partition=SimpleNamespace(topic="t"),
            machine=SimpleNamespace(start_offset=start),
            oldest=Oldest(known),
            backlog=backlog,
        )
        for number, (start, known, backlog) in enumerate(rows)
    ]
    metrics: list[Any] = []
    register_shares(
        cast("Any", SimpleNamespace(add=lambda *them: metrics.extend(them))),
        Counted(),
        cast("Any", None),
        lambda: led,
        lambda: 10,
    )
    (waiting,) = (one for one in metrics if one.name == "OldestWaitingMs")
    assert [ms for _, ms in waiting.samples()] == [3, 3, 3, 0, 0, 0]
    assert [it.oldest.looks for it in led] == [[True], [True], [True], [False], [], [False]]


def test_acknowledgements_are_counted_by_record() -> None:
    counted = Counted()
    counted.holds([Acknowledgement(3, 7, (ACCEPT,)), Acknowledgement(8, 10, (ACCEPT, REJECT, RELEASE))])
    assert counted.acknowledged == {ACCEPT: 6, REJECT: 1, RELEASE: 1}


@pytest.mark.parametrize(
    ("ordered", "wants", "writes", "is_another"),
    [(False, True, False, True), (False, True, True, False), (False, False, False, False), (True, True, False, False)],
)
def test_who_has_another_order_by_now_is_another_once_all_is_written(
    monkeypatch: pytest.MonkeyPatch, ordered: bool, wants: bool, writes: bool, is_another: bool
) -> None:
    class Ordered:
        machine = SimpleNamespace(is_writing=writes)

    monkeypatch.setattr("penstock.node.sharing.shares.OrderedShared", Ordered)
    shared: Any = Ordered() if ordered else SimpleNamespace(machine=Ordered.machine)
    settings: Any = SimpleNamespace(partitions=SimpleNamespace(ordered_by_key=wants))
    assert Shares._is_of_another_kind(shared, settings) is is_another


@pytest.mark.parametrize(("count", "at_once"), [(0, True), (AT_ONCE, True), (AT_ONCE + 1, False)])
def test_very_many_are_gone_through_in_the_background(count: int, at_once: bool) -> None:
    did: list[Any] = []
    shares: Any = SimpleNamespace(
        _tasks=SimpleNamespace(start=lambda work, name: did.append((work, name))),
        _slices=SimpleNamespace(each=lambda items, most, do: (len(items), most)),
    )
    Shares.in_slices(shares, range(count), lambda items: did.append(len(items)))
    assert did == ([count] if at_once else [((count, AT_ONCE), "share partitions")])
