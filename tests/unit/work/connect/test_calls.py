import asyncio
import threading

import pytest

from penstock.work.connect.calls import Calls


async def test_functions_run_in_one_thread_and_coroutines_on_the_loop() -> None:
    calls = Calls("calls")

    async def here() -> int:
        return threading.get_ident()

    assert await calls.call(here) == threading.get_ident()
    first, second = await calls.call(threading.get_ident), await calls.call(threading.get_ident)
    assert first == second != threading.get_ident()
    calls.close()


async def test_what_is_raised_comes_back_and_nothing_ends_the_worker() -> None:
    calls = Calls("calls")
    with pytest.raises(ValueError, match="invalid literal"):
        await calls.call(int, "x")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        await calls.call(leave)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await calls.call(next, iter(()))
    assert await calls.call(int, "3") == 3
    calls.close()


async def test_a_call_that_never_ends_can_be_given_up() -> None:
    calls, never = Calls("calls"), threading.Event()
    waiting = asyncio.create_task(calls.call(never.wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    never.set()
    calls.close()
