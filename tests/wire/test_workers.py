"""Groups of workers over a real node: tasks are spread, stay where they are, and go elsewhere when a worker is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.plan import Task
from penstock.work.wire import Group
from penstock.work.worker import State, WorkerSettings

TASKS = [Task(f"task-{number}") for number in range(60)]
LIMIT_S = 60


class Runner:
    """Notes what it is told; its tasks end at the next turn of the loop."""

    group: Group

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.stopped: list[str] = []
        self.complaints: list[str] = []
        self.changed = asyncio.Event()

    def start(self, task: str) -> None:
        assert task not in self.running
        self.running.add(task)
        self.changed.set()

    def stop(self, task: str) -> None:
        self.running.discard(task)
        self.stopped.append(task)
        asyncio.get_running_loop().call_soon(self.group.ended, task)
        self.changed.set()

    def abandon(self, task: str) -> None:
        self.stop(task)

    def complain(self, reason: str) -> None:
        self.complaints.append(reason)
        self.changed.set()


def worker(
    bootstrap: str,
    group: str,
    name: str,
    *,
    cooperative: bool = True,
    delay_ms: int = 300_000,
    session_timeout_ms: int = 30_000,
) -> Runner:
    settings = WorkerSettings(
        name=name,
        cooperative=cooperative,
        heartbeat_interval_ms=100,
        session_timeout_ms=session_timeout_ms,
        scheduled_rebalance_max_delay_ms=delay_ms,
    )
    runner = Runner()
    runner.group = Group(bootstrap, group, settings, runner, ClientSettings(retry_backoff_ms=10))
    runner.group.on_generation = runner.changed.set
    runner.group.set_tasks(TASKS)
    return runner


async def until(condition: Callable[[], bool], *runners: Runner) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            for runner in runners:
                runner.changed.clear()
            waits: list[asyncio.Future[object]] = [asyncio.ensure_future(runner.changed.wait()) for runner in runners]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()


def spread(*runners: Runner) -> Callable[[], bool]:
    """Whether each of them runs an equal share of all tasks."""
    return lambda: (
        sorted(task for runner in runners for task in runner.running) == sorted(task.name for task in TASKS)
        and len({len(runner.running) for runner in runners}) == 1
        and all(runner.group.machine.state is State.MEMBER for runner in runners)
    )


async def started(*runners: Runner) -> None:
    for position, runner in enumerate(runners, start=1):
        await runner.group.start(position)
    await until(spread(*runners), *runners)


async def stopped(*runners: Runner) -> None:
    stopping: list[Awaitable[None]] = [runner.group.stop() for runner in runners]
    await asyncio.gather(*stopping)
    assert [runner.running for runner in runners] == [set()] * len(runners)


@pytest.mark.parametrize("cooperative", [True, False])
async def test_all_tasks_are_run_and_the_farthest_leads(bootstrap: str, topic: str, cooperative: bool) -> None:
    runners = [worker(bootstrap, topic, f"worker-{number}", cooperative=cooperative) for number in range(3)]
    await started(*runners)
    assert [runner.group.machine.leads for runner in runners] == [False, False, True]
    await stopped(*runners)


async def test_a_worker_that_goes_and_comes_back_disturbs_nobody(bootstrap: str, topic: str) -> None:
    runners = [worker(bootstrap, topic, f"worker-{number}") for number in range(3)]
    await started(*runners)
    first, others = set(runners[0].running), runners[1:]
    for runner in runners:
        runner.stopped.clear()
    await runners[0].group.stop()
    await until(lambda: all(one.group.machine.assignment.step.waiting for one in others), *others)  # type: ignore[union-attr]
    back = worker(bootstrap, topic, "worker-0")
    await back.group.start(9)
    await until(spread(back, *others), back, *others)
    assert back.running == first
    assert [runner.stopped for runner in others] == [[], []]
    await stopped(back, *others)


async def test_a_worker_that_is_lost_is_replaced(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, other = (worker(bootstrap, topic, name, delay_ms=0, session_timeout_ms=6_000) for name in ("lost", "other"))
    await started(lost, other)
    assert lost.group._ticking is not None
    lost.group._ticking.cancel()
    monkeypatch.setattr(lost.group, "_set_timer", lambda: None)  # from now on it shows no sign of life
    await until(lambda: len(other.running) == len(TASKS), other)
    monkeypatch.undo()
    lost.group._tick()
    assert lost.running == set()
    await stopped(lost, other)


async def test_a_task_more_begins_a_generation(bootstrap: str, topic: str) -> None:
    runners = [worker(bootstrap, topic, f"worker-{number}") for number in range(2)]
    await started(*runners)
    for runner in runners:
        runner.group.set_tasks([*TASKS, Task("one more")])
    await until(lambda: any("one more" in runner.running for runner in runners), *runners)
    assert [runner.stopped for runner in runners if runner.group.machine.leads] == [[]]
    await stopped(*runners)


async def test_members_that_do_not_agree_say_so(bootstrap: str, topic: str) -> None:
    cooperative, eager = worker(bootstrap, topic, "one"), worker(bootstrap, topic, "two", cooperative=False)
    await started(cooperative)
    await eager.group.start()
    await until(lambda: bool(eager.complaints), eager)
    assert isinstance(eager.group.failure, KafkaError)
    assert eager.group.failure.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "not all of them are cooperative" in eager.complaints[0]
    await stopped(cooperative, eager)
