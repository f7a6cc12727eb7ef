"""One round of the cleaner, what may become of it, and how many are at work: each thing counts alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.metrics.told import told
from tests.unit.node.partitions.cleaner_worlds import NO_ROOM, Log, Runner, Segments, World

from penstock.log.compaction.rounds import Cleaned, Moved, Summary
from penstock.node.environment.cleaning_process import WorkerDiedError
from penstock.node.metrics.registry import Group
from penstock.node.partitions import cleaner as module
from penstock.node.partitions.cleaner import IDLE_S, Cleaner, _GivenUpError
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

DAMAGED = KafkaError(ErrorCode.CORRUPT_MESSAGE, "damaged")
SUMMARY = Summary(
    end_offset=30, bytes_read=200, bytes_written=30, records_read=9, records_written=4, keys=7, capacity=28
)


def prepared(log: Any, *_: object) -> Generator[None, None, Any]:
    yield
    return SimpleNamespace(directory=log.directory), log.segments


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "prepare", prepared)
    return World()


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize(
    ("error", "deaths", "why"),
    [
        (None, 0, None),
        (_GivenUpError(), 0, None),
        (WorkerDiedError(ErrorCode.UNKNOWN_SERVER_ERROR, "killed"), 1, None),
        (NO_ROOM, 0, None),
        (DAMAGED, 0, str(DAMAGED)),
        (DecodeError("nonsense"), 0, "nonsense"),
    ],
)
async def test_what_may_become_of_a_round(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception | None,
    deaths: int,
    why: str | None,
    is_deleted: bool,
) -> None:
    busy: list[object] = []

    async def do_round(*_: object) -> None:
        busy.extend(world.cleaner._busy)
        if error is not None:
            raise error

    monkeypatch.setattr(Cleaner, "_do_round", do_round)
    world.log.is_deleted = is_deleted
    assert await world.cleaner._clean(world.partition, world.found, None) is (error is None)
    assert (busy, world.cleaner._busy) == ([world.log], {})
    passed_by = {} if why is None or is_deleted else {world.log: why}
    assert (world.cleaner.metrics.deaths, world.cleaner.uncleanable) == (deaths, passed_by)
    is_told = error is NO_ROOM or isinstance(error, WorkerDiedError) or bool(passed_by)
    assert bool(caplog.records) is is_told
    world.partition.owns_log = False
    busy.clear()
    assert not await world.cleaner._clean(world.partition, world.found, None)
    assert not busy, "it may not be compacted by now"


@pytest.mark.parametrize(
    "changes", [{"is_loaded": False}, {"content": SimpleNamespace(cuts=4)}, {"cuts": 5}, {"steps": []}]
)
async def test_a_log_that_was_cut_while_it_was_read_is_not_taken_for_damaged(
    world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    async def do_round(*_: object) -> None:
        vars(world.log.content if "cuts" in changes else world.log).update(changes)
        raise DAMAGED

    monkeypatch.setattr(Cleaner, "_do_round", do_round)
    assert not await world.cleaner._clean(world.partition, world.found, None)
    assert bool(world.cleaner.uncleanable) is ("steps" in changes)


async def test_a_round_from_its_beginning_to_its_end(world: World) -> None:
    runner = Runner(Moved(1), Cleaned((0, 10), 5, (3,)), Cleaned((20,), 5), SUMMARY)

    world.log.segments.sync_names = lambda: setattr(world, "now_ms", world.now_ms + 3_500)
    await world.do_round(runner)
    assert world.log.steps == ["flush", ([0, 10], 1_000, (3,)), ([20], 4_500, ())]
    assert (world.log.cleaned_to, world.written) == (30, ["a"])
    assert world.discarded == [], "nothing is left, and no names are looked at"
    metrics = world.cleaner.metrics
    assert (metrics.cleaned_ms(world.log), metrics._round_ms) == (8_000, 7_000)
    told_of = told(world.registry, Group.CLEANER)
    names = ("cleaner-recopy-percent", "max-buffer-utilization-percent", "max-clean-time-secs")
    assert [told_of[name] for name in names] == [15, 25, 7]


async def test_what_was_made_of_segments_that_have_gone_is_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, world.log.segments = world.log.segments, Segments(world.log.segments[2:])
    world.log.segments.sync_names = lambda: None
    monkeypatch.setattr(
        module, "prepare", lambda log, *_: prepared(SimpleNamespace(directory=log.directory, segments=read))
    )
    await world.do_round(Runner(Cleaned((0, 10), 5), Cleaned((20,), 5), SUMMARY))
    assert world.discarded == [world.log]


@pytest.mark.parametrize(("recovery_point", "is_flushed"), [(29, True), (30, False), (31, False)])
async def test_a_log_is_flushed_where_its_round_goes_beyond_what_is_on_the_disk(
    world: World, recovery_point: int, is_flushed: bool
) -> None:
    world.log.recovery_point = recovery_point
    await world.do_round(Runner())
    assert world.log.steps == (["flush"] if is_flushed else [])


@pytest.mark.parametrize("changes", [{"content": SimpleNamespace(cuts=4)}, {"cuts": 5}])
@pytest.mark.parametrize("when", ["it is flushed", "it is prepared", 0, 1])
async def test_what_was_read_before_a_cut_is_not_swapped_in(
    world: World, changes: dict[str, Any], when: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other records may have been written since, where those were that were cut off."""
    steps = [Cleaned((0,), 5), Cleaned((10,), 5), SUMMARY]

    def cut() -> None:
        vars(world.log.content if "cuts" in changes else world.log).update(changes)

    def cut_in_between(*_: object) -> Generator[None, None, None]:
        cut()
        yield
        raise AssertionError("it goes on with what is there no more")

    class Cut(Runner):
        async def run(self, work: object, bytes_per_s: float) -> AsyncIterator[Any]:
            for number, step in enumerate(steps):
                if number == when:
                    cut()
                yield step

    if when == "it is flushed":
        world.log.flush = cut  # type: ignore[method-assign]
    if when == "it is prepared":
        monkeypatch.setattr(module, "prepare", cut_in_between)
    with pytest.raises(_GivenUpError):
        await world.do_round(Cut())
    assert [step for step in world.log.steps if step != "flush"] == [([0], 1_000, ())] * (when == 1)
    assert world.log.cleaned_to == 10


async def test_a_log_that_was_cut_is_not_clean_beyond_its_end(world: World) -> None:
    world.log.log_end_offset = 25
    await world.do_round(Runner(SUMMARY))
    assert world.log.cleaned_to == 25


@pytest.mark.parametrize(
    ("limit", "threads", "of_each"),
    [("6000", 0, 6000), ("6000", 1, 6000), ("6000", 4, 1500), ("0", 1, 1), ("-1", 2, math.inf), ("0.5", 2, 0.5)],
)
async def test_rounds_share_what_may_be_read_and_written_in_a_second(
    monkeypatch: pytest.MonkeyPatch, limit: str, threads: int, of_each: float
) -> None:
    monkeypatch.setattr(module, "prepare", prepared)
    world = World(log_cleaner_threads=str(threads), log_cleaner_io_max_bytes_per_second=limit)
    runner = Runner()
    await world.do_round(runner)
    assert runner.bytes_per_s == [of_each]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(FileNotFoundError(), _GivenUpError), (OSError(5, "broken"), KafkaError), (DAMAGED, KafkaError)],
)
async def test_what_is_left_of_a_round_that_failed_goes(world: World, error: Exception, raised: type) -> None:
    with pytest.raises(raised):
        await world.do_round(Runner(error))
    assert (world.log.cleaned_to, world.discarded) == (10, [world.log])


@pytest.mark.parametrize(
    ("changes", "goes"),
    [
        ({}, True),
        ({"is_deleted": True}, False),
        ({"is_lent": True}, False),
        ({"directory": "/b/t-0"}, False),
        ({"health": SimpleNamespace(failure=OSError())}, False),
    ],
)
def test_what_is_left_of_a_round_goes_where_nobody_else_has_the_log(
    world: World, changes: dict[str, Any], goes: bool
) -> None:
    vars(world.log).update(changes)
    world.cleaner._discard(world.log, SimpleNamespace(directory="/a/t-0"))
    assert world.discarded == ([world.log] if goes else [])


async def test_what_is_left_while_a_thread_has_the_log_goes_after_its_next_round(world: World) -> None:
    world.log.is_lent = True
    world.cleaner._discard(world.log, SimpleNamespace(directory=world.log.directory))
    world.log.is_lent = False
    for _ in range(2):
        await world.do_round(Runner(Cleaned((0, 10), 5), SUMMARY))
        assert world.discarded == [world.log]


@pytest.mark.parametrize(
    ("first", "is_loaded", "may_swap", "swapped"),
    [
        (0, True, True, [10, 20]),
        (20, True, True, [20]),
        (21, True, True, None),
        (35, True, True, None),
        (0, True, False, _GivenUpError),
        (35, False, True, []),
    ],
)
async def test_what_is_made_of_segments_takes_their_place_if_they_are_there(
    world: World, first: int, is_loaded: bool, may_swap: bool, swapped: Any
) -> None:
    """Of a log that is not read in the swap says so itself."""
    log, segments = world.log, [one for one in world.log.segments if one.base_offset >= first]
    log.segments = Segments([SimpleNamespace(base_offset=first), *segments[1:]])
    log.is_loaded, log.may_swap, synced = is_loaded, may_swap, list[int]()
    log.segments.sync_names = lambda: synced.append(1)
    old = [one for one in segments if one.base_offset in (10, 20)]
    swapping = world.cleaner._swap_in(log, Cleaned((10, 20), 5), old)
    if swapped is _GivenUpError:
        with pytest.raises(_GivenUpError):
            await swapping
        assert synced == []
        return
    await swapping
    assert log.steps == ([] if swapped is None else [(swapped, 1_000, ())])
    assert bool(synced) is (swapped is not None)


@pytest.mark.parametrize(
    ("cleaned_to", "owns_log", "found"), [(34, True, 1), (35, True, None), (36, True, None), (34, False, None)]
)
def test_a_log_is_looked_at_that_has_more_than_is_clean(
    world: World, monkeypatch: pytest.MonkeyPatch, cleaned_to: int, owns_log: bool, found: int | None
) -> None:
    monkeypatch.setattr(module, "look_at", lambda log, stable, now_ms: 1 if (stable, now_ms) == (39, 1_000) else 0)
    world.log.cleaned_to, world.partition.owns_log = cleaned_to, owns_log
    assert world.cleaner._look_at(world.partition, world.now_ms) == found


def test_a_log_that_cannot_be_looked_at_has_no_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise NO_ROOM

    monkeypatch.setattr(module, "look_at", fails)
    assert world.cleaner._look_at(world.partition, world.now_ms) is None
    assert world.cleaner.state(world.log, 3) == (-1, -1, "no room")


def test_figures_of_logs_that_are_gone_go(world: World) -> None:
    metrics, logs = world.cleaner.metrics, [Log(), Log(), Log()]
    assert (metrics._round_ms, metrics.delay_ms, metrics.cleaned_ms(cast("Any", logs[0]))) == (0, 0, -1)
    metrics.delay_ms = 9_000
    assert told(world.registry, Group.CLEANER)["max-compaction-delay-secs"] == 9
    for log in logs:
        metrics.note_round(cast("Any", log), SUMMARY, 0, 5)
    logs[0].is_deleted = logs[1].is_deleted = True
    world.now_ms += 4
    metrics.begin_look(world.now_ms)
    world.now_ms += 3
    assert (list(metrics._cleaned_ms), metrics.delay_ms) == ([logs[2]], 0)
    assert told(world.registry, Group.CLEANER_MANAGER)["time-since-last-run-ms"] == 3


class Asleep:
    """In the place of asyncio: notes how long who sleeps, and ends it at last."""

    Task = asyncio.Task

    def __init__(self, times: int) -> None:
        self.slept: list[float] = []
        self.times, self.now_s = times, 0.0

    async def sleep(self, s: float) -> None:
        self.slept.append(s)
        self.now_s += s
        if len(self.slept) >= self.times:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    def get_running_loop(self) -> Any:
        return self

    def time(self) -> float:
        return self.now_s


async def test_a_topic_and_a_log_after_the_other_is_looked_at_and_others_have_their_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = Asleep(99)
    monkeypatch.setattr(module, "asyncio", asleep)
    monkeypatch.setattr(module, "LOOKED_AT_ONCE", 3)
    rows: list[Any] = [
        None,
        SimpleNamespace(ratio=0.4, delay_ms=5, is_due=lambda _: True),
        SimpleNamespace(ratio=0.7, delay_ms=9, is_due=lambda _: True),
        SimpleNamespace(ratio=0.7, delay_ms=2, is_due=lambda _: True),
        SimpleNamespace(ratio=0.6, delay_ms=1, is_due=lambda _: True),
    ]
    monkeypatch.setattr(Cleaner, "_look_at", lambda _, one, __: rows[one.index])
    ones = [SimpleNamespace(index=index, log=Log()) for index in range(5)]
    world.topics = [{one.index: one} for one in ones]
    assert await world.cleaner._compacted() == ones
    assert asleep.slept == [0]
    world.topics = [{}, dict(enumerate(ones)), {}]
    asleep.slept.clear()
    world.cleaner.uncleanable |= {Log(): "gone", ones[0].log: "damaged"}
    next(iter(world.cleaner.uncleanable)).is_deleted = True
    assert await world.cleaner._dirtiest() == (ones[2], rows[2])
    assert asleep.slept == [0, 0], "for the third topic, and for the third log"
    assert list(world.cleaner.uncleanable) == [ones[0].log]
    assert (world.cleaner.metrics.dirtiest_ratio, world.cleaner.metrics.delay_ms) == (0.7, 9)


@pytest.mark.parametrize(("backoff_ms", "pause_s"), [("250", 0.25), ("0", 0.001)])
async def test_so_many_work_as_there_are_threads(
    monkeypatch: pytest.MonkeyPatch, backoff_ms: str, pause_s: float
) -> None:
    world = World(log_cleaner_backoff_ms=backoff_ms)
    asleep, working = Asleep(4), list[int]()
    counts = iter((2, 3, 1, 1))
    config = SimpleNamespace(log_cleaner_backoff_ms=int(backoff_ms), log_cleaner_threads=0)

    async def clean_on() -> None:
        working.append(working[-1] + 1 if working else 1)
        try:
            await asyncio.Event().wait()
        finally:
            working.append(working[-1] - 1)

    async def sleep(s: float) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        config.log_cleaner_threads = next(counts)
        await Asleep.sleep(asleep, s)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep, Task=asyncio.Task))
    world.cleaner._config, world.cleaner._clean_on = config, clean_on
    with pytest.raises(asyncio.CancelledError):
        await world.cleaner._run()
    assert working == [1, 2, 3, 2, 1]
    assert (len(world.cleaner._workers), asleep.slept) == (1, [pause_s] * 4)
    await world.cleaner.stop()


@pytest.mark.parametrize(
    ("backoff_ms", "pause_s", "rests", "in_all"),
    [("20000", 20.0, [0] * 7 + [1], 3), ("0", 0.001, [0] * 8, 1)],
)
async def test_who_has_nothing_to_do_looks_again_and_lets_its_process_go_after_a_while(
    monkeypatch: pytest.MonkeyPatch, backoff_ms: str, pause_s: float, rests: list[int], in_all: int
) -> None:
    """That is after its last round, not after the first."""
    world, asleep, runner = World(log_cleaner_backoff_ms=backoff_ms), Asleep(6), Runner()
    looks, found = list[int](), iter((True, False, True, *[False] * 9))
    assert IDLE_S == 60

    async def clean_dirtiest(_: object) -> bool:
        looks.append(runner.rests)
        return next(found)

    monkeypatch.setattr(module, "asyncio", asleep)
    world.cleaner._make_runner, world.cleaner.clean_dirtiest = lambda: runner, clean_dirtiest
    with pytest.raises(asyncio.CancelledError):
        await world.cleaner._clean_on()
    assert asleep.slept == [pause_s] * 6
    assert (looks, runner.rests) == (rests, in_all)


async def test_whether_a_log_is_cleaner_now(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    for found, is_cleaner in ((None, False), (world.found, False), (world.found, True)):

        async def dirtiest(_: object, found: object = found) -> object:
            return None if found is None else (world.partition, found)

        async def clean(_: object, partition: object, given: object, runner: object, is_: bool = is_cleaner) -> bool:
            assert (partition, given, runner) == (world.partition, world.found, "runner")
            return is_

        monkeypatch.setattr(Cleaner, "_dirtiest", dirtiest)
        monkeypatch.setattr(Cleaner, "_clean", clean)
        assert await world.cleaner.clean_dirtiest("runner") is is_cleaner


async def test_a_cleaner_that_is_disabled_does_nothing(tmp_path: Path) -> None:
    for is_enabled in (True, False):
        world = World(log_cleaner_enable=str(is_enabled).lower())
        world.cleaner.start()
        assert len(world.cleaner._tasks) == is_enabled
        await world.cleaner.stop()
