"""Waiting for what threads, timers or sockets bring, without a look at the clock."""

import asyncio
from collections.abc import Callable

import pytest

MOST_TURNS = 1_000_000
"""Of the event loop: some seconds."""


async def until(is_so: Callable[[], object]) -> None:
    for _ in range(MOST_TURNS):
        if is_so():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")
