"""Long answers in slices: short ones come at once, work in threads brings results and errors, one slice at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import cast

import pytest

from penstock.node.serving.slices import STEPS_AT_ONCE, Steps, in_slices


def counting(steps: int, seen: list[str], name: str = "") -> Steps[str]:
    for _ in range(steps):
        seen.append(name)
        yield None
    return "done"


def test_what_is_short_comes_at_once() -> None:
    assert in_slices(counting(STEPS_AT_ONCE - 1, []), asyncio.Lock()) == "done"


async def test_only_one_slice_is_worked_on_in_a_turn() -> None:
    seen: list[str] = []
    lock = asyncio.Lock()
    answers = [in_slices(counting(10 * STEPS_AT_ONCE, seen, name), lock) for name in "abc"]
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

    answer = in_slices(working(), asyncio.Lock())
    assert inspect.isawaitable(answer)
    assert await answer == [7, "integer division or modulo by zero"]


async def test_what_goes_wrong_is_told_to_who_waits() -> None:
    def failing() -> Steps[None]:
        for _ in range(STEPS_AT_ONCE):
            yield None
        raise KeyError("gone")

    answer = in_slices(failing(), asyncio.Lock())
    assert inspect.isawaitable(answer)
    with pytest.raises(KeyError, match="gone"):
        await answer
