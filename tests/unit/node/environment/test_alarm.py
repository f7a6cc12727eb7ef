"""One timer for many deadlines: it rings once, for the earliest."""

import asyncio
from functools import partial

from penstock.node.environment.alarm import Alarm, Turns
from penstock.node.environment.event_loop import loop_ms


class Clock:
    """An alarm by the loop's time, and when it has rung."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.rung: asyncio.Queue[int] = asyncio.Queue()
        self.alarm = Alarm(lambda: self.rung.put_nowait(self.now_ms()), self.now_ms)

    def now_ms(self) -> int:
        return loop_ms(self.loop)


async def test_it_rings_once_for_the_earliest_of_its_times() -> None:
    clock = Clock()
    start_ms = clock.now_ms()
    for wait_ms in (3_600_000, 3, 20, 5):
        clock.alarm.set(start_ms + wait_ms)
    assert start_ms + 3 <= await clock.rung.get()
    assert not clock.alarm.is_set
    assert clock.rung.empty()


async def test_what_is_due_rings_in_the_next_turn_and_not_at_once() -> None:
    clock = Clock()
    clock.alarm.set(clock.now_ms() + 60_000)
    clock.alarm.set(clock.now_ms())
    assert clock.rung.empty()
    await asyncio.sleep(0)
    assert clock.rung.qsize() == 1


async def test_one_that_was_cancelled_does_not_ring_and_can_be_set_again() -> None:
    clock = Clock()
    clock.alarm.set(clock.now_ms())
    clock.alarm.cancel()
    await asyncio.sleep(0)
    assert clock.rung.empty()
    clock.alarm.set(clock.now_ms())
    await asyncio.sleep(0)
    assert clock.rung.qsize() == 1


async def test_it_is_set_by_its_own_clock() -> None:
    rung = asyncio.Event()
    alarm = Alarm(rung.set, lambda: 1_700_000_000_000)
    alarm.set(1_700_000_000_001)
    await asyncio.wait_for(rung.wait(), 10)


async def test_of_many_that_are_due_one_has_its_step_in_each_turn() -> None:
    clock, done = Clock(), list[str]()
    turns = Turns(clock.now_ms)

    def goes_on() -> None:
        done.append("goes on")
        turns.add(goes_on)

    def once() -> None:
        done.append("once")

    for step in (goes_on, once, once, never := partial(done.append, "never")):
        turns.add(step)
    turns.discard(never)
    for count in range(5):
        assert len(done) == count
        await asyncio.sleep(0)
    assert done == ["goes on", "once", *["goes on"] * 3]
    turns.discard(goes_on)
    turns.add(once)
    turns.add(goes_on)
    await asyncio.sleep(0)
    assert done[5:] == ["once"]
