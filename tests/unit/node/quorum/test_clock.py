"""The core's time, which may go on while the event loop's stands still."""

import asyncio

from penstock.node.quorum.clock import QuorumClock

WALL_MS = 1_700_000_000_000


async def test_it_begins_with_the_wall_clock_and_goes_on_by_what_it_is_given() -> None:
    elapsed_s = 50.0
    clock = QuorumClock(lambda: WALL_MS, lambda: elapsed_s)
    clock.start()
    assert clock.now_ms() == WALL_MS
    elapsed_s += 3600
    assert clock.now_ms() == WALL_MS + 3_600_000


async def test_a_timer_is_set_by_the_loops_own_time() -> None:
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    clock = QuorumClock(lambda: WALL_MS, lambda: 70.0)
    clock.start()
    assert before_s + 5 <= clock.timer_s(WALL_MS + 5000) <= loop.time() + 5
