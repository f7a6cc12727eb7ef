"""Tasks that end with their scope."""

import asyncio

import pytest

from penstock.work.scope import Scope


async def test_a_stop_ends_all_tasks_and_one_that_fails_keeps_no_other() -> None:
    scope, ends = Scope(), list[str]()

    async def run(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append(name)
            if name == "a":
                raise ValueError(name)

    for name in ("a", "b", "c"):
        scope.start(run(name), name)
    assert [task.get_name() for task in scope] == ["a", "b", "c"]
    await asyncio.sleep(0)
    await scope.stop()
    assert ends == ["a", "b", "c"]
    await asyncio.sleep(0)
    assert list(scope) == []


async def test_a_task_that_is_over_is_forgotten() -> None:
    scope = Scope()
    scope.start(asyncio.sleep(0))
    (task,) = scope
    await task
    await asyncio.sleep(0)
    assert list(scope) == []


@pytest.mark.parametrize("count", [0, 1])
async def test_a_stop_may_come_again(count: int) -> None:
    scope = Scope()
    for _ in range(count):
        scope.start(asyncio.Event().wait())  # type: ignore[arg-type]
    await scope.stop()
    await scope.stop()


async def test_a_task_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a fault")

    scope = Scope()
    scope.start(fail(), "one")
    while list(scope):
        await asyncio.sleep(0)
    assert "one has failed" in caplog.text
    assert "ValueError: a fault" in caplog.text
