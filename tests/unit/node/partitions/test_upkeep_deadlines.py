"""When a partition is looked at: tables of what its log asks for, and what the intervals say."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.retention import CHECK_INTERVAL_MS, SEGMENTS_AT_ONCE
from penstock.node.partitions.flushes import Flushes
from penstock.node.partitions.upkeep import HELD_UP_MS, Upkeep, UpkeepIntervals
from penstock.protocol.sweeping_heap import FEW

NOW_MS = 1_000_000
OFTEN, SELDOM = CHECK_INTERVAL_MS - 1, CHECK_INTERVAL_MS


class Held:
    """A partition with these attributes, which is a key of dictionaries."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Looking:
    def __init__(self, **intervals: int) -> None:
        self.directories = SimpleNamespace(roots=None)
        self.upkeep = Upkeep(cast("Any", self.directories), UpkeepIntervals(**intervals), lambda: NOW_MS)

    def due(self) -> list[tuple[int, int]]:
        """When each that is watched is due, and when it is to be checked."""
        dues = {number: due_ms for due_ms, number, _ in self.upkeep._heap}
        return [(dues[one.number], one.check_ms) for one in self.upkeep._watched.values()]


def log(deadline_ms: int, *, is_loaded: bool = True, flush_ms: int = 50) -> Any:
    return SimpleNamespace(
        next_deadline_ms=lambda now_ms: deadline_ms,
        is_loaded=is_loaded,
        config=SimpleNamespace(flush_ms=flush_ms),
        when_back=lambda go_on: False,
    )


def partition(of: Any, **fields: Any) -> Any:
    return SimpleNamespace(log=of, **fields)


@pytest.mark.parametrize(
    ("interval_ms", "is_loaded", "flush_ms", "due_ms", "due", "check"),
    [
        (SELDOM, True, 50, None, 900_000, 900_000),
        (SELDOM, False, 50, None, 50, 900_000),
        (SELDOM, False, 1_000_000, None, 900_000, 900_000),
        (SELDOM, True, 50, 7, 7, 7),
        (SELDOM, False, 50, 7, 7, 7),
        (OFTEN, True, 50, None, OFTEN, OFTEN),
        (OFTEN, False, 50, None, 50, OFTEN),
        (OFTEN, True, 50, 7, 7, 7),
    ],
)
def test_when_a_partition_that_is_watched_is_due(
    interval_ms: int, is_loaded: bool, flush_ms: int, due_ms: int | None, due: int, check: int
) -> None:
    """From now on; its log asks to be looked at in 900 seconds."""
    looking = Looking(retention_check_ms=interval_ms)
    one = partition(log(NOW_MS + 900_000, is_loaded=is_loaded, flush_ms=flush_ms))
    looking.upkeep.watch(one, due_ms=None if due_ms is None else NOW_MS + due_ms)
    assert looking.due() == [(NOW_MS + due, NOW_MS + check)]


@pytest.mark.parametrize(("flush_ms", "due"), [(50, 50), (1_000, 900)])
async def test_a_log_that_nobody_has_read_in_is_not_read_in_before_it_is_to_be_checked(flush_ms: int, due: int) -> None:
    looking = Looking(retention_check_ms=SELDOM)
    one = partition(log(NOW_MS + 900, is_loaded=False, flush_ms=flush_ms))
    looking.upkeep._watch(one, NOW_MS, NOW_MS + 900)
    await looking.upkeep.run_due()
    assert looking.due() == [(NOW_MS + due, NOW_MS + 900)]


@pytest.mark.parametrize(
    ("deadline", "retired", "next_in"),
    [
        (700, 0, 700),
        (700, 1, 700),
        (9_000, 0, 8_000),
        (9_000, SEGMENTS_AT_ONCE - 1, 8_000),
        (9_000, SEGMENTS_AT_ONCE, 0),
        (0, 0, HELD_UP_MS),
        (-5, 0, HELD_UP_MS),
        (1, 0, 1),
        (0, 1, 0),
        (-5, 1, -5),
    ],
)
def test_when_a_partition_is_looked_at_next(deadline: int, retired: int, next_in: int) -> None:
    looking = Looking(retention_check_ms=8_000)
    assert looking.upkeep._next_ms(log(NOW_MS + deadline), retired, NOW_MS) == NOW_MS + next_in


@pytest.mark.parametrize(
    ("owns_log", "checkpoint_ms", "end", "is_dirty", "rests"),
    [
        (True, 8_000, 5, False, True),
        (False, 8_000, 5, False, False),
        (True, 8_001, 5, False, False),
        (True, 8_000, 6, False, False),
        (True, 8_000, 5, True, False),
    ],
)
def test_who_rests(owns_log: bool, checkpoint_ms: int, end: int, is_dirty: bool, rests: bool) -> None:
    looking = Looking(retention_check_ms=8_000, high_watermark_checkpoint_ms=checkpoint_ms)
    of = SimpleNamespace(log_end_offset=end, rests_until_ms=lambda: 77)
    one: Any = Held(log=of, owns_log=owns_log, high_watermark=5)
    if is_dirty:
        looking.upkeep.dirty[one] = None
    assert looking.upkeep._rests_until_ms(one) == (77 if rests else None)


@pytest.mark.parametrize(
    ("due", "seconds"),
    [(None, None), (2_000, 2.0), (-5, 0), (9_000, 8.0)],
)
def test_how_long_nobody_is_looked_at(due: int | None, seconds: float | None) -> None:
    looking = Looking(retention_check_ms=8_000)
    if due is not None:
        looking.upkeep._watch(partition(log(0)), NOW_MS + due, NOW_MS + due)
    assert looking.upkeep._seconds_to_next() == seconds


def test_who_is_given_up_is_not_flushed() -> None:
    looking, one = Looking(), cast("Any", object())
    looking.upkeep._due["/a"] = {one: None}
    looking.upkeep._high_watermarks["orders", 0] = looking.upkeep._high_watermarks["orders", 1] = 4
    gone: Any = Held(topic="orders", index=0, high_watermark=0)
    looking.upkeep._due["/a"][gone] = looking.upkeep.dirty[gone] = None
    looking.upkeep.remember(gone)
    assert looking.upkeep._high_watermarks["orders", 0] == 4, "nothing is known of it"
    looking.upkeep.forget(gone)
    assert (looking.upkeep._due, looking.upkeep.dirty) == ({"/a": {one: None}}, {})
    assert looking.upkeep._high_watermarks == {("orders", 1): 4}


def test_who_waits_for_the_first_that_is_due_hears_of_one_that_comes_before() -> None:
    looking = Looking()
    for due_ms, is_told in ((50, True), (60, False), (40, True)):
        looking.upkeep._changed.clear()
        looking.upkeep._watch(partition(log(0)), NOW_MS + due_ms, NOW_MS + due_ms)
        assert looking.upkeep._changed.is_set() is is_told


async def test_a_flush_that_messages_want_may_take_as_long_as_the_intervals_say() -> None:
    looking, wanted, made = Looking(flush_timeout_ms=3_000), list[object](), list[Any]()
    looking.directories.threads_of = lambda _: None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Flushes, "want", lambda _, one: wanted.append(one))
        for one in ("first", "second"):
            looking.upkeep.flush(cast("Any", one))
            made.append(looking.upkeep._flushes)
    assert (wanted, made[0]) == (["first", "second"], made[1])
    assert made[0]._hangs_s == 3.0


def held(of: Any) -> Any:
    return Held(log=of, topic="t", index=0)


@pytest.mark.parametrize("rests", [False, True])
def test_partitions_that_are_made_and_deleted_leave_no_deadlines(rests: bool) -> None:
    """Each may be due in days: a thousand topics made and deleted again and again would be kept until then."""
    upkeep = Looking().upkeep
    stays = held(log(NOW_MS + 1_000))
    upkeep.watch(stays)
    for _ in range(5_000):
        one = held(log(NOW_MS + 900_000))
        upkeep.watch(one)
        if rests:
            upkeep._rest(one, NOW_MS + 7 * 86_400_000)
        upkeep.forget(one)
    assert len(upkeep._heap) <= FEW + 3
    assert (NOW_MS + 1_000, id(stays)) in {(due_ms, key) for due_ms, _, key in upkeep._heap}


def test_what_rests_is_due_in_its_time_however_many_come_and_go() -> None:
    upkeep = Looking().upkeep
    stays = held(log(NOW_MS + 1_000))
    upkeep._rest(stays, NOW_MS + 7_000)
    upkeep.watch(stays)  # awake, and the later deadline is still to be there when it rests again
    for _ in range(5_000):
        one = held(log(NOW_MS + 900_000))
        upkeep.watch(one)
        upkeep.forget(one)
    assert sorted(due_ms for due_ms, _, key in upkeep._heap if key == id(stays)) == [NOW_MS + 1_000, NOW_MS + 7_000]
