"""A sink that hangs leaves its group when its worker leaves it behind; one that ends does so when it has stopped."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.work.connect.runtime.test_running_tasks import ONE, Host, Kafka, Setting

from penstock.client.providers import Resolved
from penstock.client.values import ConsumedRecord
from penstock.work.connect.api import SinkTask
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.supervisor import Attempt, Supervisor

LIMIT_S = 10


class Steps:
    """What happens, in order."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def take(self, step: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._take, step)

    def _take(self, step: str) -> None:
        self.taken.append(step)
        self._news.set()

    async def until(self, step: str) -> list[str]:
        while step not in self.taken:
            self._news.clear()
            await self._news.wait()
        return self.taken


class Hanging(SinkTask):
    """Does not return from a call, in its thread, until it is let go."""

    def __init__(self, steps: Steps, where: str) -> None:
        self.let_go = threading.Event()
        self._steps, self._where = steps, where

    def start(self, config: Any, context: Any) -> None: ...

    def put(self, records: Any) -> None:
        self._come("put")

    def stop(self) -> None:
        self._come("stop")
        self._steps.take("stopped")

    def _come(self, call: str) -> None:
        if call == self._where:
            self._steps.take("hangs")
            self.let_go.wait(LIMIT_S)


class Member:
    """The consumer of a sink, and the clients that make it."""

    assignment = (ONE,)

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def consumer(self, *_: object, **__: object) -> "Member":
        return self

    def producer(self, *_: object, **__: object) -> Any:
        return self._producing()

    @asynccontextmanager
    async def _producing(self) -> AsyncIterator[None]:
        yield

    async def __aenter__(self) -> "Member":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._steps.take("left")

    async def subscribe(self, *_: object, **__: object) -> None: ...

    def resume(self, partitions: object) -> None: ...

    async def commit(self, offsets: object) -> None: ...

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        if "polled" not in self._steps.taken:
            self._steps.take("polled")
        await asyncio.sleep(0)
        return [ConsumedRecord(ONE.topic, ONE.partition, 5, 9, None, None)]


class Supervised(Supervisor[RunningSink]):
    def __init__(self, task: SinkTask, steps: Steps, patience_s: float) -> None:
        super().__init__("c-0", patience_s)
        self.attempts: list[Attempt] = []
        self._task, self._steps = task, steps

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        return Resolved(config)

    def make(self, config: Mapping[str, str], attempt: Attempt) -> RunningSink:
        self.attempts.append(attempt)
        setting = Setting("").task
        environment: Any = setting.environment.replace(clients=Member(self._steps))
        setting = setting.replace(config={**config, "topics": ONE.topic}, environment=environment)
        return RunningSink(setting, self._task, Host(Kafka()), attempt)

    def tell(self, state: object, trace: str = "") -> None:
        assert not trace

    async def over(self, *, fenced: bool) -> None:
        if fenced:
            self.fence()
            await self.fenced()
        else:
            await self.give_up()


@asynccontextmanager
async def hanging(where: str, patience_s: float) -> AsyncIterator[tuple[Supervised, Steps, Hanging]]:
    steps = Steps()
    task = Hanging(steps, where)
    supervisor = Supervised(task, steps, patience_s)
    supervisor.want({"name": "c", "connector.class": "penstock.FileSink"})
    try:
        async with asyncio.timeout(LIMIT_S):
            yield supervisor, steps, task
            task.let_go.set()
            await steps.until("stopped")
    finally:
        task.let_go.set()


@pytest.mark.parametrize("fenced", [False, True])
async def test_a_call_that_hangs_does_not_keep_a_place_in_the_group(fenced: bool) -> None:
    async with hanging("put", 0) as (supervisor, steps, task):
        await steps.until("hangs")
        await supervisor.over(fenced=fenced)
        assert await steps.until("left") == ["polled", "hangs", "left"]
        task.let_go.set()
        assert await steps.until("stopped") == ["polled", "hangs", "left", "stopped"], "and once"


async def test_nor_does_a_stop_that_hangs() -> None:
    async with hanging("stop", LIMIT_S) as (supervisor, steps, _):
        await steps.until("polled")
        ending = asyncio.create_task(supervisor.over(fenced=False))
        await steps.until("hangs")
        supervisor.attempts[0].left.set()
        assert await steps.until("left") == ["polled", "hangs", "left"]
        ending.cancel()


async def test_what_ends_in_time_leaves_when_it_has_stopped() -> None:
    """Else another one would write the same partitions beside it."""
    async with hanging("put", LIMIT_S) as (supervisor, steps, task):
        await steps.until("hangs")
        supervisor.fence()
        ending = asyncio.create_task(supervisor.fenced())
        for _ in range(50):
            await asyncio.sleep(0)
        assert steps.taken == ["polled", "hangs"]
        task.let_go.set()
        await ending
        assert await steps.until("left") == ["polled", "hangs", "stopped", "left"]
