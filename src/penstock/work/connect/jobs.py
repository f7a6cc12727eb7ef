"""What is kept running on a worker: a task or a connector that is started again when it fails.

UNASSIGNED --start--> RUNNING --(it raises)--> FAILED --(back-off, while restarts are left)--> RUNNING
                         |                        |
                         +--------- stop ---------+--> STOPPED
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from penstock.client.errors import ConnectionFailedError
from penstock.work.connect.calls import LONG_S, Calls
from penstock.work.connect.config import parse
from penstock.work.connect.making import KEYS, checked, checked_task_configs
from penstock.work.connect.metrics import Metric

FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0
WELL_AGAIN_S: Final = 600.0
"""A task that ran for so long has all its restarts again. A cluster that cannot be reached costs none."""
logger = logging.getLogger(__name__)


class State(Enum):
    """See the drawing of the module. PAUSED is what is to run later, DESTROYED what is no more."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


OnChange = Callable[[str, State, str], None]
"""Told of each change of a task's or a connector's state: its name, the state, and why."""


class Runnable(Protocol):
    """What can be kept running: `run` lasts until `stop` was called, or raises."""

    has_started: asyncio.Event
    on_long: Callable[[str], None]
    records: int

    async def run(self) -> None:
        """See the class."""

    def stop(self) -> None:
        """See the class."""

    def report(self) -> Mapping[str, Any]:
        """What it tells of itself."""

    def metrics(self) -> Sequence[Metric]:
        """Its figures."""


class Kept:
    """Something that is started again when it fails; `make` makes it, each time anew, in a thread of its own."""

    def __init__(
        self, name: str, make: Callable[[], Runnable], restarts: int, patience_s: float, on_change: OnChange
    ) -> None:
        self.name = name
        self.state = State.UNASSIGNED
        self.trace = ""
        self.records = 0
        self.restarts = 0
        self._make = make
        self._restarts_max = restarts
        self._patience_s = patience_s
        self._on_change = on_change
        self._current: Runnable | None = None
        self._stopping = asyncio.Event()
        self._runs = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """End it in good order, or without it when that takes longer than task.shutdown.graceful.timeout.ms."""
        self._stopping.set()
        if self._current is not None:
            self._current.stop()
        done, _ = await asyncio.wait([self._runs], timeout=self._patience_s)
        if not done:
            logger.warning("%s did not end in time, and is left behind", self.name)
            self._runs.cancel()
        self._set(State.STOPPED, "")

    async def abandon(self) -> None:
        """End it at once; nothing that it still says is told."""
        self._on_change = lambda *_: None
        self._stopping.set()
        self._runs.cancel()
        await asyncio.wait([self._runs], timeout=self._patience_s)

    def report(self) -> Mapping[str, Any]:
        """What it tells of itself, also when it has failed."""
        return self._current.report() if self._current is not None else {}

    def metrics(self) -> Sequence[Metric]:
        """Its figures, also when it has failed."""
        current = self._current
        if current is None:
            return ()
        return [Metric("connect_task_records_total", current.records), *current.metrics()]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures, pause_s = 0, FIRST_RESTART_S
        while not self._stopping.is_set():
            began = loop.time()
            try:
                await self._run_once()
                return
            except Exception as error:
                self.trace = "".join(traceback.format_exception(error))
                if loop.time() - began >= WELL_AGAIN_S:
                    failures, pause_s = 0, FIRST_RESTART_S
                failures += not isinstance(error, ConnectionFailedError)
                is_over = failures > self._restarts_max
                how = "it is not started again" if is_over else f"it is started again in {pause_s:g} s"
                self._set(State.FAILED, f"{type(error).__name__}: {error}; {how}")
                if is_over:
                    return
            try:
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            except TimeoutError:
                self.restarts += 1
            pause_s = min(2 * pause_s, LONGEST_RESTART_S)

    async def _run_once(self) -> None:
        making = Calls(f"{self.name} is made", self._say_what_lasts)
        try:
            self._current = current = await making.call(self._make)
        finally:
            making.close()
        current.on_long = self._say_what_lasts
        if self._stopping.is_set():
            return
        watching = asyncio.create_task(self._say_when_it_runs(current))
        try:
            await current.run()
        finally:
            watching.cancel()
            self.records += current.records

    async def _say_when_it_runs(self, current: Runnable) -> None:
        await current.has_started.wait()
        self.trace = ""
        self._set(State.RUNNING, "")

    def _say_what_lasts(self, method: str) -> None:
        if self._runs.done():
            return
        self.trace = f"{method} has not returned for {LONG_S:g} s" if method else ""
        self._on_change(self.name, self.state, self.trace)

    def _set(self, state: State, reason: str) -> None:
        if state is not self.state or reason:
            self.state = state
            self._on_change(self.name, state, reason)


class RunningConnector:
    """A connector while it runs; `publish` is told what its tasks are to be."""

    def __init__(
        self,
        config: Mapping[str, str],
        publish: Callable[[list[dict[str, str]]], Awaitable[None]],
    ) -> None:
        self.records = 0
        self.has_started = asyncio.Event()
        self.on_long: Callable[[str], None] = lambda _: None
        self._config = dict(config)
        self._publish = publish
        self._stopping = asyncio.Event()
        self._calls = Calls(f"connector {config.get('name', '')}", lambda method: self.on_long(method))
        self._connector = checked(config)()

    async def _start(self) -> list[dict[str, str]]:
        await self._calls.call(self._connector.start, self._config)
        most = parse(KEYS, self._config)["tasks.max"]
        return checked_task_configs(await self._calls.call(self._connector.task_configs, most), self._config)

    async def run(self) -> None:
        """See Runnable."""
        try:
            await self._publish(await self._start())
            self.has_started.set()
            await self._stopping.wait()
        finally:
            await self._end()

    def stop(self) -> None:
        """See Runnable."""
        self._stopping.set()

    def report(self) -> Mapping[str, Any]:
        """See Runnable."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """See Runnable."""
        return ()

    async def _end(self) -> None:
        try:
            await self._calls.call(self._connector.stop)
        finally:
            self._calls.close()
