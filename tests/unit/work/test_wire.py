"""A worker's group over the wire: what is asked of the coordinator, and what is asked no longer."""

import asyncio
import gc

import pytest

from penstock.work.effects import Leave
from penstock.work.wire import Group
from penstock.work.worker import WorkerSettings


class NoTasks:
    """Runs nothing."""

    def start(self, task: str) -> None:
        raise AssertionError(task)

    stop = abandon = start

    def complain(self, reason: str) -> None:
        raise AssertionError(reason)


async def test_a_question_that_another_replaces_before_it_is_asked_leaves_nothing(
    recwarn: pytest.WarningsRecorder,
) -> None:
    group = Group("127.0.0.1:1", "workers", WorkerSettings(name="a"), NoTasks())
    group._carry_out([Leave("first"), Leave("second")])  # as when the tasks change as soon as a join was answered
    assert group._asking is not None
    group._asking.cancel()
    await asyncio.wait([group._asking])
    gc.collect()
    said = [str(warning.message) for warning in recwarn]  # the collector finds what other tests left as well
    assert [one for one in said if "never awaited" in one] == []


class Complaining(NoTasks):
    def __init__(self) -> None:
        self.complaints: list[str] = []

    def complain(self, reason: str) -> None:
        self.complaints.append(reason)


async def test_whatever_a_question_fails_with_ends_the_membership_and_is_told() -> None:
    """As a planner raises, which is the cluster's own."""
    runner = Complaining()
    group = Group("127.0.0.1:1", "workers", WorkerSettings(name="a"), runner)

    async def fail() -> None:
        raise ZeroDivisionError("no tasks, no plan")

    await group._asked(fail)
    assert isinstance(group.failure, ZeroDivisionError)
    assert runner.complaints == ["no tasks, no plan"]
