"""What a process of the simulator leaves when it is killed."""

import inspect
from random import Random

import pytest

from penstock.testing.simulator.loop import Process, VirtualLoop


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
