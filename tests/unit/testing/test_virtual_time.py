"""Virtual time, process by process: clocks that go at rates of their own, turns, threads, pauses and timers that go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any, cast

import pytest

from penstock.testing.simulator import loop as loops
from penstock.testing.simulator.loop import (
    EPOCH_MS,
    MAX_CANCELLED,
    Clock,
    KilledError,
    Process,
    VirtualLoop,
    current_process,
)


class Half:
    """Of what is between two numbers it draws the middle."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop(cast("Any", Half()))
    yield made
    made.close()


def run(loop: VirtualLoop, moment: float) -> None:
    loop.call_at_moment(moment, loop.stop)
    loop.run_forever()


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0, None])
def test_a_process_sees_its_own_clock(loop: VirtualLoop, rate: float | None) -> None:
    loop.advance(8.0)
    assert (loop.time(), loop.moment, loop.now_ms()) == (8.0, 8.0, EPOCH_MS + 8_000)
    process = None if rate is None else Process("h", Clock(rate))
    seen: list[Any] = []

    def note(what: str) -> None:
        seen.append((what, loop.moment, loop.time(), current_process()))

    def begin() -> None:
        loop.call_later(4.0, note, "later")
        loop.call_at(loop.time() + 2.0, note, "at")
        loop.call_soon(note, "soon")
        loop.call_at_moment(9.0, note, "moment")

    if process is None:
        begin()
    else:
        process.context.run(begin)
    run(loop, 100.0)
    speed = rate or 1.0
    due = {"soon": 8.0, "moment": 9.0, "at": 8.0 + 2.0 / speed, "later": 8.0 + 4.0 / speed}
    expected = [(what, at, at * speed, process) for what, at in due.items()]
    assert sorted(seen) == sorted(expected, key=lambda it: it[:3])


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set(loop: VirtualLoop) -> None:
    seen: list[int] = []
    for number in range(5):
        loop.call_at_moment(1.0, seen.append, number)
    loop.call_at_moment(0.5, seen.append, -1)
    run(loop, 1.0)
    assert seen == [-1, 0, 1, 2, 3, 4]


def test_what_is_past_is_due_and_time_does_not_go_back(loop: VirtualLoop) -> None:
    loop.advance(5.0)
    seen: list[float] = []
    loop.call_at_moment(2.0, lambda: seen.append(loop.moment))
    run(loop, 5.0)
    assert seen == [5.0]


def test_who_keeps_the_loop_busy_is_told(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_TURNS_AT_A_MOMENT", 10)
    turns: list[int] = []

    def again(left: int) -> None:
        turns.append(left)
        if left:
            loop.call_soon(again, left - 1)

    for _ in range(3):  # time that passes begins the count anew
        loop.call_later(1.0, again, 8)
        run(loop, loop.moment + 2.0)
    assert len(turns) == 27
    loop.call_soon(again, 20)
    with pytest.raises(RuntimeError, match="keeps the loop busy"):
        run(loop, loop.moment + 1.0)


def test_timers_that_were_cancelled_are_let_go(loop: VirtualLoop) -> None:
    seen: list[int] = []
    kept = [loop.call_at_moment(1.0 + number, seen.append, number) for number in range(MAX_CANCELLED)]
    gone = [loop.call_at_moment(0.5, seen.append, -1) for _ in range(MAX_CANCELLED)]
    for timer in gone:
        timer.cancel()
    assert len(loop._timers) == 2 * MAX_CANCELLED, "there are not yet too many of them"
    kept[5].cancel()
    assert len(loop._timers) == MAX_CANCELLED, "with the one that is just being cancelled"
    assert loop._cancelled == 0
    run(loop, 1_000.0)
    assert seen == [number for number in range(MAX_CANCELLED) if number != 5]
    loop._cancelled = 0
    few = [loop.call_at_moment(2_000.0, seen.append, 0) for _ in range(5 * MAX_CANCELLED)]
    for timer in few[: 2 * MAX_CANCELLED]:
        timer.cancel()
    assert len(loop._timers) == 5 * MAX_CANCELLED, "most are not cancelled"
    loop.call_at_moment(1_500.0, seen.append, 0).cancel()
    run(loop, 1_600.0)
    assert loop._cancelled == 2 * MAX_CANCELLED, "that of a timer that was reached is not counted any more"


def test_a_paused_process_does_all_in_its_order_when_it_goes_on(loop: VirtualLoop) -> None:
    process, other = Process("h"), Process("i")
    seen: list[str] = []
    watched: list[str] = []
    process.watch = lambda: watched.append("seen")
    for at, what in ((1.0, "a"), (2.0, "b"), (3.0, "c")):
        loop.call_at_moment(at, seen.append, what, context=process.context)
        loop.call_at_moment(at, seen.append, what.upper(), context=other.context)
    loop.call_at_moment(0.5, process.pause)
    loop.call_at_moment(4.0, process.go_on, loop)
    run(loop, 3.5)
    assert (seen, watched) == (["A", "B", "C"], [])
    run(loop, 5.0)
    assert seen == ["A", "B", "C", "a", "b", "c"]
    assert watched == ["seen"] * 3


def test_nothing_of_a_dead_process_runs(loop: VirtualLoop) -> None:
    process, seen = Process("h"), list[str]()

    def die() -> None:
        seen.append("dies")
        process.kill()

    process.watch = lambda: seen.append("watched")
    loop.call_at_moment(1.0, die, context=process.context)
    loop.call_at_moment(2.0, seen.append, "later", context=process.context)
    run(loop, 3.0)
    assert seen == ["dies"]
    loop.call_soon(seen.append, "soon", context=process.context)
    loop.call_at_moment(3.5, seen.append, "timer", context=process.context)
    assert len(loop._timers) == 0
    paused = Process("i")
    paused.pause()
    loop.call_soon(seen.append, "held", context=paused.context)
    run(loop, 4.0)
    paused.kill()
    paused.go_on(loop)
    run(loop, 5.0)
    assert seen == ["dies"]


def test_tasks_that_are_done_are_let_go(loop: VirtualLoop) -> None:
    process = Process("h")

    async def work() -> None: ...

    for _ in range(1_000):
        process.spawn(loop, work())
    assert len(process._tasks) == 1_000
    run(loop, 1.0)
    process.spawn(loop, work())
    assert len(process._tasks) == 1
    run(loop, 2.0)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("delay_s", [0.4, None])
def test_a_thread_takes_its_time(loop: VirtualLoop, fails: bool, delay_s: float | None) -> None:
    process, seen = Process("h"), list[Any]()
    if delay_s is not None:
        loop.thread_delay_s = lambda of: delay_s if of is process else pytest.fail("it is of the process")
    took_s = delay_s or (0.000_05 + 0.01) / 2

    def call(one: int, other: int) -> int:
        seen.append((round(loop.moment, 6), process.in_thread))
        if fails:
            raise ValueError("it fails")
        return one + other

    async def work() -> None:
        try:
            seen.append(await loop.run_in_executor(None, call, 3, 4))
        except ValueError as error:
            seen.append(str(error))
        seen.append((round(loop.moment, 6), process.in_thread))

    process.spawn(loop, work())
    run(loop, 2.0)
    assert seen == [
        (round(took_s / 2, 6), True),
        "it fails" if fails else 7,
        (round(took_s, 6), False),
    ]


def test_a_result_that_nobody_waits_for_any_more_is_dropped(loop: VirtualLoop) -> None:
    called: list[int] = []
    future = loop.run_in_executor(None, called.append, 1)
    future.cancel()
    run(loop, 1.0)
    assert (called, future.cancelled(), loop.failures) == ([1], True, [])
    assert loop.thread_delay_s(None) == (0.000_05 + 0.01) / 2


def test_a_fault_in_a_callback_is_kept_but_not_a_kill(loop: VirtualLoop) -> None:
    def fail(error: BaseException) -> None:
        raise error

    loop.call_at_moment(1.0, fail, ValueError("a fault"))
    run(loop, 2.0)
    (failure,) = loop.failures
    assert failure.endswith(": ValueError('a fault')")
    context = {"message": "m", "handle": "h"}
    for exception in (KilledError("h"), None):
        loop.call_exception_handler(context | ({} if exception is None else {"exception": exception}))
    assert loop.failures[1:] == ["m: None"]
    loop.call_exception_handler({"message": "m", "exception": ValueError("of a future")})
    assert len(loop.failures) == 2


def test_a_task_belongs_to_who_begins_it() -> None:
    loop, process = VirtualLoop(Random(1)), Process("h")
    inner: list[asyncio.Task[None]] = []

    async def within() -> None: ...

    async def work() -> None:
        inner.append(asyncio.get_running_loop().create_task(within()))
        await inner[0]

    task = process.spawn(loop, work())
    run(loop, 1.0)
    assert process._tasks == [task, inner[0]]
    alone = loop.create_task(within())
    run(loop, 2.0)
    assert alone not in process._tasks
    assert current_process() is None
    loop.close()
