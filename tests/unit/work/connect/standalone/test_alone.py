"""Who runs what on a worker that is alone."""

import asyncio

from penstock.work.connect.standalone.alone import Alone


class Runner:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self, task: str) -> None:
        self.calls.append(f"start {task}")

    def stop(self, task: str) -> None:
        self.calls.append(f"stop {task}")

    def abandon(self, task: str) -> None:
        raise AssertionError(task)

    def complain(self, reason: str) -> None:
        raise AssertionError(reason)


async def test_a_task_that_is_to_run_again_has_ended_before() -> None:
    runner = Runner()
    alone = Alone(runner)
    alone.set_tasks(["b", "a"])
    alone.set_tasks(["a"])
    alone.set_tasks(["a", "b"])
    assert runner.calls == ["start a", "start b", "stop b"]
    alone.ended("b")
    assert runner.calls[3:] == ["start b"]


async def test_it_stops_when_all_have_ended() -> None:
    runner = Runner()
    alone = Alone(runner)
    alone.set_tasks(["a", "b"])
    stopping = asyncio.create_task(alone.stop())
    for task in ("b", "a"):
        while f"stop {task}" not in runner.calls:
            await asyncio.sleep(0)
        assert not stopping.done()
        alone.ended(task)
    await stopping
    assert alone.in_hand == set()
