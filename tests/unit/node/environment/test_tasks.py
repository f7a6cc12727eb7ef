"""Background tasks are kept while they run, and nothing that ends one is lost."""

import asyncio
import gc

import pytest

from penstock.node.environment import tasks as tasks_module
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


async def test_work_that_is_kept_begins_anew_until_it_is_cancelled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "AGAIN_S", 0)
    begun, lives = list[int](), asyncio.Event()

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise OSError(f"the {len(begun)}th")
        lives.set()
        await asyncio.Event().wait()

    tasks = Tasks()
    tasks.keep(work, "a loop")
    await lives.wait()
    assert [record.message for record in caplog.records] == [
        "a loop: failed by our own fault, and begins anew in 0 s"
    ] * 2
    assert "the 2th" in caplog.text
    await tasks.stop()
    assert (len(tasks), len(begun)) == (0, 3)
