"""Long answers in slices: short ones come at once, work in threads brings results and errors, one slice at a time."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
import weakref
from collections.abc import Awaitable
from functools import partial
from typing import cast

import pytest

from penstock.node.serving.room import Room
from penstock.node.serving.slices import (
    BEGINS,
    ROOM,
    SLICED_BYTES,
    STEPS_AT_ONCE,
    Pace,
    Slices,
    Steps,
    at_once,
    comes_later,
    now_or_later,
    started,
)


def counting(steps: int, seen: list[str], name: str = "") -> Steps[str]:
    for _ in range(steps):
        seen.append(name)
        yield None
    return "done"


@pytest.mark.parametrize(("whole", "requests", "commands"), [(24, 18, 6), (-1, -1, -1)])
def test_commands_have_a_quarter_of_the_memory_and_no_more_on_top_of_it(
    whole: int, requests: int, commands: int
) -> None:
    slices = Slices(whole)
    assert (slices.memory._most, slices.commands._most) == (requests, commands)


async def test_what_is_short_comes_at_once() -> None:
    assert Slices().answer(counting(STEPS_AT_ONCE - 1, [])) == "done"


async def test_an_answer_comes_now_or_later() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result("of a future")
    later = [future, asyncio.sleep(0, "of a coroutine"), Slices().answer(counting(10 * STEPS_AT_ONCE, []))]
    assert [comes_later(one) for one in (*later, "now", None, b"")] == [True] * 3 + [False] * 3
    assert [await now_or_later(one) for one in later] == ["of a future", "of a coroutine", "done"]
    assert await now_or_later("now") == "now"


async def test_a_first_slice_has_no_further_step_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.serving.slices.FIRST_SLICE_NS", -1)
    seen: list[str] = []
    answer = Slices().answer(counting(STEPS_AT_ONCE - 1, seen))
    assert len(seen) == 1
    assert await cast("Awaitable[str]", answer) == "done"


@pytest.mark.parametrize("portions", [[1] * 25, [3] * 9, [1, 10, 10, 1], [7, 2, 9, 5]])
def test_a_step_is_over_when_enough_was_done_in_whatever_portions(portions: list[int]) -> None:
    pace, done, steps = Pace(10), 0, list[int]()
    for portion in portions:
        done += portion
        if pace.is_due(portion):
            steps.append(done)
            done = 0
    assert steps
    assert all(10 <= step < 10 + max(portions) for step in steps)
    assert done < 10


async def test_a_slice_has_no_further_step_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.serving.slices.SLICE_NS", -1)
    seen: list[str] = []
    answer = Slices().answer(counting(3 * STEPS_AT_ONCE, seen))
    waiting = asyncio.ensure_future(cast("Awaitable[str]", answer))
    while not waiting.done():
        was = len(seen)
        await asyncio.sleep(0)
        assert len(seen) <= was + 1
    assert await waiting == "done"


async def test_only_one_slice_is_worked_on_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.serving.slices.SLICE_NS", 10**15)
    seen: list[str] = []
    slices = Slices()
    answers = [slices.answer(counting(10 * STEPS_AT_ONCE, seen, name)) for name in "abc"]
    tasks = [asyncio.ensure_future(cast("Awaitable[str]", answer)) for answer in answers]
    most, before = 0, len(seen)
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        most, before = max(most, len(seen) - before), len(seen)
    assert [await task for task in tasks] == ["done"] * 3
    assert most == STEPS_AT_ONCE
    assert set(seen[-3 * STEPS_AT_ONCE :]) == {"a", "b", "c"}, "they take turns"


async def test_work_in_a_thread_brings_its_result_or_its_error() -> None:
    def working() -> Steps[list[object]]:
        found: list[object] = [(yield lambda: 7)]
        try:
            yield lambda: 1 // 0
        except ZeroDivisionError as error:
            found.append(str(error))
        return found

    answer = Slices().answer(working())
    assert inspect.isawaitable(answer)
    assert await answer == [7, "integer division or modulo by zero"]


async def test_one_work_is_done_at_a_time() -> None:
    """So what works hold in memory is bounded, however many long answers there are."""
    under_way, most = [], []

    def work() -> None:
        under_way.append(1)
        most.append(len(under_way))
        time.sleep(0)
        under_way.pop()

    def working() -> Steps[None]:
        for _ in range(20):
            yield work

    slices = Slices()
    await asyncio.gather(*(cast("Awaitable[None]", slices.answer(working())) for _ in range(10)))
    assert max(most) == 1


async def test_who_is_called_off_holds_what_it_has_until_its_thread_has_ended() -> None:
    """Else a client that sends much and leaves, again and again, has as much at work as there are threads."""
    slices, may_end, under_way = Slices(1000), threading.Event(), list[int]()

    def work() -> None:
        under_way.append(1)
        assert may_end.wait(30)

    async def large() -> None:
        async with slices.memory.lent(900):
            await slices.work(work)

    first = asyncio.ensure_future(large())
    while not under_way:
        await asyncio.sleep(0)
    first.cancel()
    second = asyncio.ensure_future(large())
    for _ in range(100):
        await asyncio.sleep(0)
    seen = first.done(), list(under_way)
    may_end.set()
    assert seen == (False, [1])
    await second
    assert first.cancelled()
    assert under_way == [1, 1]


async def test_who_is_called_off_before_its_turn_comes_again_leaves_no_more_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.node.serving.slices.UNDER_WAY_AT_ONCE", 1)
    slices, arrived = Slices(), asyncio.Event()

    def waiting() -> Steps[None]:
        yield arrived.wait()

    leaves = asyncio.ensure_future(cast("Awaitable[None]", slices.answer(waiting())))
    await asyncio.sleep(0)
    await slices._under_way.enter(None)
    arrived.set()
    for _ in range(10):
        await asyncio.sleep(0)
    leaves.cancel()
    slices._under_way.leave(None)
    with pytest.raises(asyncio.CancelledError):
        await leaves
    seen: list[str] = []
    await asyncio.gather(*(cast("Awaitable[str]", slices.answer(counting(30, seen, name))) for name in "ab"))
    assert "".join(seen[2 * STEPS_AT_ONCE :]) == "a" * (30 - STEPS_AT_ONCE) + "b" * (30 - STEPS_AT_ONCE)


@pytest.mark.parametrize("clients", ["abcd", "aaaa"], ids=["of others", "of its client"])
async def test_who_waits_for_a_thread_holds_no_answer_up_that_needs_none(clients: str) -> None:
    """Four that had one look after the other into batches that a client had made for that held up all others."""
    slices, may_end = Slices(24 << 20), threading.Event()

    def working() -> Steps[None]:
        for _ in range(10):
            yield partial(may_end.wait, 30)

    busy = [started(client, cast("Awaitable[None]", slices.answer(working()))) for client in clients]
    try:
        async with asyncio.timeout(10):
            short = started("a", cast("Awaitable[str]", slices.answer(counting(10 * STEPS_AT_ONCE, []))))
            assert await short == "done"
        assert not any(one.done() for one in busy)
    finally:
        may_end.set()
    await asyncio.gather(*busy)


async def with_room(slices: Slices, steps: Steps[None]) -> None:
    """As `Dispatcher` has a long answer made."""
    room = Room(slices.memory, SLICED_BYTES, waits=True)
    ROOM.set((room, asyncio.current_task()))
    await cast("Awaitable[None]", slices.answer(steps))
    room.give()


async def test_answers_of_one_client_have_half_of_the_room() -> None:
    slices, may_end, begun = Slices(8 * SLICED_BYTES), threading.Event(), list[str]()

    def working(client: str) -> Steps[None]:
        yield from counting(STEPS_AT_ONCE, [])
        begun.append(client)
        yield partial(may_end.wait, 30)

    answers = [started(client, with_room(slices, working(client))) for client in "aaaaaaab"]
    try:
        async with asyncio.timeout(10):
            while "b" not in begun:
                await asyncio.sleep(0)
        for _ in range(30):
            await asyncio.sleep(0)
        assert (begun.count("a"), slices.memory._bytes) == (3, 4 * SLICED_BYTES), "of 12 MB for requests"
    finally:
        may_end.set()
    await asyncio.gather(*answers)
    assert (begun.count("a"), slices.memory._bytes) == (7, 0)


async def test_who_begins_with_work_for_a_thread_holds_nothing_meanwhile() -> None:
    """A short answer of the same client goes past any number of them."""
    slices, may_end = Slices(8 * SLICED_BYTES), threading.Event()

    def working() -> Steps[None]:
        yield partial(may_end.wait, 30)

    busy = [started("a", with_room(slices, working())) for _ in range(30)]
    try:
        async with asyncio.timeout(10):
            short = started("a", cast("Awaitable[str]", slices.answer(counting(10 * STEPS_AT_ONCE, []))))
            assert await short == "done"
        assert slices.memory._bytes == 0
    finally:
        may_end.set()
    await asyncio.gather(*busy)
    assert slices.memory._bytes == 0


async def test_one_client_has_half_of_the_places() -> None:
    slices, turns = Slices(), list[str]()

    def stepping(client: str, slices_of_it: int) -> Steps[None]:
        yield from counting(slices_of_it * STEPS_AT_ONCE, turns, client)

    answers = [started("a", cast("Awaitable[None]", slices.answer(stepping("a", 50)))) for _ in range(6)]
    for _ in range(20):
        await asyncio.sleep(0)
    answers.append(started("b", cast("Awaitable[None]", slices.answer(stepping("b", 10)))))
    await asyncio.gather(*answers)
    until_b_ends = turns[: len(turns) - turns[::-1].index("b")]
    assert until_b_ends.count("a") < 50 * STEPS_AT_ONCE, "though none of them has ended"


async def test_what_an_answer_starts_takes_none_of_its_room() -> None:
    """Nobody would give that back."""
    slices = Slices(8 * SLICED_BYTES)

    def starting() -> Steps[None]:
        yield from counting(STEPS_AT_ONCE, [])
        slices.run(counting(10 * STEPS_AT_ONCE, []))

    await asyncio.create_task(with_room(slices, starting()))
    while slices._unawaited:
        await asyncio.sleep(0)
    assert slices.memory._bytes == 0


async def test_answers_that_come_back_do_not_wait_for_those_that_wait_for_their_room() -> None:
    slices, arrived = Slices(3 * SLICED_BYTES), asyncio.Event()

    def waiting() -> Steps[None]:
        yield from counting(STEPS_AT_ONCE, [])
        yield arrived.wait()

    answers = [started("a", with_room(slices, waiting())) for _ in range(7)]
    for _ in range(50):
        await asyncio.sleep(0)
    arrived.set()
    async with asyncio.timeout(10):
        await asyncio.gather(*answers)
    assert slices.memory._bytes == 0


async def test_clients_take_turns_with_work_for_threads() -> None:
    slices, done, waits = Slices(), list[str](), threading.Event()

    def working(client: str, works: int) -> Steps[None]:
        for _ in range(works):
            yield partial(done.append, client)

    first = started("c", slices.work(partial(waits.wait, 30)))
    answers = [started("a", slices.work(partial(done.append, "a"))) for _ in range(50)]
    answers += [started("a", cast("Awaitable[None]", slices.answer(working("a", 10)))) for _ in range(5)]
    answers.append(started("b", cast("Awaitable[None]", slices.answer(working("b", 3)))))
    for _ in range(20):
        await asyncio.sleep(0)
    waits.set()
    await asyncio.gather(first, *answers)
    assert "".join(done).rindex("b") <= 8


async def test_an_answer_may_wait_and_holds_nobody_up_meanwhile() -> None:
    slices, arrived = Slices(), asyncio.Event()

    def waiting() -> Steps[str]:
        assert (yield arrived.wait()) is True
        return "arrived"

    answer = asyncio.ensure_future(cast("Awaitable[str]", slices.answer(waiting())))
    await asyncio.sleep(0)
    assert await cast("Awaitable[str]", slices.answer(counting(2 * STEPS_AT_ONCE, []))) == "done"
    arrived.set()
    assert await answer == "arrived"


async def test_an_error_keeps_nothing_alive() -> None:
    """The frames on its way hold what was being worked on, and only the collector would free a circle of them."""

    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)

    def failing(held: Held) -> None:
        raise OSError("the disk")

    def working(held: Held) -> Steps[None]:
        yield partial(failing, held)

    answer = cast("Awaitable[None]", Slices().answer(working(held)))
    gc.disable()
    try:
        with pytest.raises(OSError, match="the disk") as raised:
            await answer
        del raised, answer, held
        assert gone() is None
    finally:
        gc.enable()


async def test_what_goes_wrong_is_told_to_who_waits() -> None:
    def failing() -> Steps[None]:
        for _ in range(STEPS_AT_ONCE):
            yield None
        raise KeyError("gone")

    answer = Slices().answer(failing())
    assert inspect.isawaitable(answer)
    with pytest.raises(KeyError, match="gone"):
        await answer


@pytest.mark.parametrize(
    ("count", "at_once", "parts"), [(0, 3, []), (2, 3, [2]), (3, 3, [3]), (7, 3, [3, 3, 1]), (4, 1, [1, 1, 1, 1])]
)
async def test_very_many_items_are_done_some_in_a_turn(count: int, at_once: int, parts: list[int]) -> None:
    done: list[list[int]] = []
    await Slices().each(list(range(count)), at_once, lambda items: done.append(list(items)))
    assert [len(items) for items in done] == parts
    assert [item for items in done for item in items] == list(range(count))


async def test_requests_are_taken_apart_one_at_a_time_beside_other_work() -> None:
    """That may take seconds: what a stranger has a thread look at."""
    slices, ends, at_once, most = Slices(), threading.Event(), list[int](), list[int]()

    def parse() -> str:
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0)
        at_once.pop()
        return "parsed"

    working = asyncio.ensure_future(slices.work(ends.wait))
    parsing = [asyncio.ensure_future(slices.taken_apart(parse)) for _ in range(5)]
    try:
        async with asyncio.timeout(10):
            assert await asyncio.gather(*parsing) == ["parsed"] * 5
        assert not working.done()
        assert max(most) == 1
    finally:
        ends.set()
    await working


async def test_what_is_taken_up_when_an_answer_begins_is_not_held_before() -> None:
    slices, goes_on, held = Slices(8 * SLICED_BYTES), asyncio.Event(), list[int]()

    def holding(number: int) -> Steps[None]:
        yield BEGINS
        held.append(number)
        yield goes_on.wait()

    answers = [started("a", with_room(slices, holding(number))) for number in range(9)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert held == [0, 1, 2, 3, 4, 5], "as many as have room: what is awaited lets others begin"
    goes_on.set()
    await asyncio.gather(*answers)
    assert held == list(range(9))


async def test_who_begins_gives_up_no_place_for_that() -> None:
    slices, begun = Slices(8 * SLICED_BYTES), list[str]()

    def busy(name: str) -> Steps[None]:
        yield BEGINS
        begun.append(name)
        yield from [None] * 30
        begun.append(f"{name} ends")

    await asyncio.gather(*(started("a", with_room(slices, busy(name))) for name in "bcde"))
    assert begun[:2] == ["b", "c"]
    assert begun.index("d") > begun.index("b ends"), "two at a time are one client's"


def test_in_one_go_it_has_begun_all_along() -> None:
    def steps() -> Steps[str]:
        yield BEGINS
        return "done"

    assert at_once(steps()) == "done"
