"""The event loop of a node, which is uvloop's where that is installed and asyncio's own elsewhere, and its clock."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

try:
    import uvloop
except ImportError:
    _make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _make = uvloop.new_event_loop

new_event_loop: Final = _make
LEAVES_NO_CIRCLES: Final = _make is not asyncio.new_event_loop
"""asyncio's own connections keep themselves when they have ended, until the collector finds them."""


def loop_ms(loop: asyncio.AbstractEventLoop) -> int:
    """Whole milliseconds of a loop's time.

    uvloop's time has no others; written in seconds and read back, 1.001 would be 1000 without the last addend.
    """
    return int(loop.time() * 1000 + 0.001)


def steady_clock(now_ms: Callable[[], int], elapsed_s: Callable[[], float] | None = None) -> Callable[[], int]:
    """The wall clock as it is now, going on by itself: it never jumps, nor goes back.

    It counts by the running event loop's time, or by `elapsed_s`: the loop's stands still while the machine sleeps, and
    leases run on meanwhile.
    """
    loop = asyncio.get_running_loop()
    elapsed_ms: Callable[[], int] = partial(loop_ms, loop) if elapsed_s is None else partial(_whole_ms, elapsed_s)
    began_ms = now_ms() - elapsed_ms()
    return lambda: began_ms + elapsed_ms()


def _whole_ms(elapsed_s: Callable[[], float]) -> int:
    return int(elapsed_s() * 1000)
