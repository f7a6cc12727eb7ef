"""Background tasks are kept while they run, and nothing that ends one is lost."""

import asyncio
import gc

import pytest

from penstock.node.environment.tasks import Tasks


async def test_one_that_runs_is_kept_and_one_that_has_ended_is_not() -> None:
    tasks, may_end = Tasks(), asyncio.Event()
    task = tasks.start(may_end.wait(), "waits")
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    may_end.set()
    await tasks.settle()
    assert not tasks
    assert task.result()


async def test_one_that_fails_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("seven")

    tasks = Tasks()
    tasks.start(fail(), "the seventh of seven")
    await tasks.settle()
    assert not tasks
    assert "the seventh of seven: failed by our own fault" in caplog.text
    assert "ValueError: seven" in caplog.text


async def test_a_stop_waits_until_all_have_ended_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ended = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    tasks = Tasks()
    for number in range(3):
        tasks.start(work(number), "work")
    await asyncio.sleep(0)
    await tasks.stop()
    assert sorted(ended) == [0, 1, 2]
    assert not tasks
    assert not caplog.records


async def test_it_is_not_waited_for_longer_than_wanted() -> None:
    tasks = Tasks()
    tasks.start(asyncio.Event().wait(), "waits for ever")
    await tasks.settle(0)
    assert len(tasks) == 1
    await tasks.stop()
