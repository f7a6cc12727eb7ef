"""What a process of the simulator leaves when it is killed."""

import asyncio
import inspect
from random import Random

import pytest

from penstock.testing.simulator.loop import KilledError, Process, VirtualLoop


@pytest.mark.parametrize("is_killed_before", [False, True])
def test_work_that_has_had_no_turn_ends_with_its_process(is_killed_before: bool) -> None:
    """Python would warn of it some time later, in whatever test that is."""

    async def work() -> None:
        raise AssertionError("nothing of it runs")

    loop, process, begun = VirtualLoop(Random(1)), Process("host"), work()
    if is_killed_before:
        process.kill()
    process.spawn(loop, begun)
    process.kill()
    assert inspect.getcoroutinestate(begun) == inspect.CORO_CLOSED
    loop.close()


def test_who_was_killed_is_told_so() -> None:
    process = Process("host")
    process.check_alive()
    process.kill()
    with pytest.raises(KilledError, match="host"):
        process.check_alive()


def test_time_passes_to_the_next_timer_when_nobody_has_anything_to_do() -> None:
    loop, seen = VirtualLoop(Random(1)), list[tuple[str, float]]()
    asyncio.set_event_loop(None)

    def note(what: str) -> None:
        seen.append((what, loop.time()))

    begun = loop.time()
    loop.call_later(2.0, note, "second")
    loop.call_later(1.0, note, "first")
    loop.call_later(1.5, note, "never").cancel()
    loop.call_soon(note, "now")
    loop.call_later(3.0, loop.stop)
    loop.run_forever()
    assert [(what, round(at - begun, 6)) for what, at in seen] == [("now", 0.0), ("first", 1.0), ("second", 2.0)]
    loop.call_later(1.0, note, "never").cancel()
    with pytest.raises(RuntimeError, match="everybody waits and no timer is set"):
        loop.run_forever()
    loop.close()


def test_work_of_a_process_that_lives_is_done() -> None:
    loop, process, done = VirtualLoop(Random(1)), Process("host"), list[str]()

    async def work() -> None:
        done.append("done")
        loop.stop()

    task = process.spawn(loop, work())
    process.keep(task)
    loop.run_forever()
    assert done == ["done"]
    loop.close()
