"""One connector and its tasks on a worker: made from a configuration, kept running, and what is to be said of them.

UNASSIGNED --start--> RUNNING --(it raises)--> FAILED --(back-off, while restarts are left)--> RUNNING
                         |                        |
                         +--------- stop ---------+--> STOPPED
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from penstock.client.errors import ConnectionFailedError
from penstock.protocol.value import Value
from penstock.work.connect import errors
from penstock.work.connect.api import Connector, SinkConnector, SinkTask, SourceConnector, SourceTask
from penstock.work.connect.built_in import CONNECTORS
from penstock.work.connect.calls import Calls
from penstock.work.connect.chain import chain_of
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.converters import converter_of
from penstock.work.connect.plugins import PluginError, find_class
from penstock.work.connect.tasks import OffsetStore, RunningSink, RunningSource, RunningTask, Setting, pause

FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 60.0
WELL_AGAIN_S: Final = 600.0
"""A task that ran for so long has all its restarts again. A cluster that cannot be reached costs none."""
KEYS: Final = (
    ConfigKey("name", required=True, documentation="the name of the connector", importance="high"),
    ConfigKey("connector.class", "class", required=True, documentation="what it is", importance="high"),
    ConfigKey("tasks.max", "int", 1, "The most tasks that it may have.", least=1, importance="high"),
    ConfigKey("task.restarts.max", "int", 5, "How often a task that fails is started again.", least=0),
    *errors.KEYS,
)
SINK_KEYS: Final = (
    ConfigKey("topics", "list", (), "The topics to read."),
    ConfigKey("topics.regex", documentation="A pattern that matches the topics to read, instead of their names."),
)
logger = logging.getLogger(__name__)


class State(Enum):
    """See the drawing of the module."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Surroundings(Value, kw_only=True):
    """What all jobs of a worker share."""

    bootstrap_servers: str
    config: Mapping[str, str]
    store: OffsetStore
    flush_interval_ms: int
    shutdown_timeout_s: float
    on_change: Callable[[str, State, str], None]
    """Told of each change of a task's or a connector's state: its name, the state, and why."""


class RunningJobTask:
    """A task that is started again when it fails."""

    def __init__(self, name: str, make: Callable[[], RunningTask], restarts: int, around: Surroundings) -> None:
        self.name = name
        self.state = State.UNASSIGNED
        self.trace = ""
        self.records = 0
        self.restarts = 0
        self._make = make
        self._restarts_max = restarts
        self._around = around
        self._current: RunningTask | None = None
        self._stopping = asyncio.Event()
        self._runs = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """End it in good order, or without it when that takes longer than task.shutdown.graceful.timeout.ms."""
        self._stopping.set()
        if self._current is not None:
            self._current.stop()
        done, _ = await asyncio.wait([self._runs], timeout=self._around.shutdown_timeout_s)
        if not done:
            logger.warning("task %s did not end in time, and is left behind", self.name)
            self._runs.cancel()
        self._set(State.STOPPED, "")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures, pause_s = 0, FIRST_RESTART_S
        while not self._stopping.is_set():
            began = loop.time()
            try:
                self._current = self._make()
                watching = asyncio.create_task(self._say_when_it_runs(self._current))
                try:
                    await self._current.run()
                finally:
                    watching.cancel()
                    self.records += self._current.records
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
            await pause(self._stopping, pause_s)
            self.restarts += 1
            pause_s = min(2 * pause_s, LONGEST_RESTART_S)

    async def _say_when_it_runs(self, task: RunningTask) -> None:
        await task.has_started.wait()
        self._set(State.RUNNING, "")

    def _set(self, state: State, reason: str) -> None:
        if state is not self.state or reason:
            self.state = state
            self._around.on_change(f"task {self.name}", state, reason)


class Job:
    """A connector and its tasks."""

    def __init__(self, config: Mapping[str, str], around: Surroundings) -> None:
        self.config = dict(config)
        self.name = config.get("name", "")
        self.tasks: list[RunningJobTask] = []
        self._around = around
        self._connector: Connector | None = None
        self._calls = Calls(f"connector {self.name}")

    async def start(self) -> None:
        """Check the configuration, start the connector and its tasks; ConfigError, PluginError, or what it raises."""
        settings = parse(KEYS, self.config)
        kind = find_class(settings["connector.class"], CONNECTORS, "connector")
        if not issubclass(kind, SourceConnector | SinkConnector):
            raise PluginError(f"{settings['connector.class']} is neither a SourceConnector nor a SinkConnector")
        parse(kind.config_keys, self.config)
        if issubclass(kind, SinkConnector):
            sink = parse(SINK_KEYS, self.config)
            if bool(sink["topics"]) == (sink["topics.regex"] is not None):
                raise ConfigError({"topics": ["a sink needs either topics or topics.regex"]})
        chain_of(self.config)
        self._connector = kind()
        await self._calls.call(self._connector.start, self.config)
        configs = await self._calls.call(self._connector.task_configs, settings["tasks.max"])
        if len(configs) > settings["tasks.max"]:
            raise ConfigError({"tasks.max": [f"{self.name} wants {len(configs)} tasks, and tasks.max allows fewer"]})
        for number, config in enumerate(configs):
            make = self._maker(kind, {**self.config, **config}, number, settings)
            self.tasks.append(
                RunningJobTask(f"{self.name}-{number}", make, settings["task.restarts.max"], self._around)
            )

    async def stop(self) -> None:
        """End all tasks, then the connector."""
        await asyncio.gather(*(task.stop() for task in self.tasks))
        if self._connector is not None:
            try:
                async with asyncio.timeout(self._around.shutdown_timeout_s):
                    await self._calls.call(self._connector.stop)
            except Exception as error:
                logger.warning("connector %s did not stop well: %r", self.name, error)
        self._calls.close()

    def _maker(
        self, kind: type[Connector], config: Mapping[str, str], number: int, settings: Mapping[str, Any]
    ) -> Callable[[], RunningTask]:
        """What makes the task, each time anew."""
        around = self._around

        def make() -> RunningTask:
            setting = Setting(
                connector=self.name,
                number=number,
                config=config,
                bootstrap_servers=around.bootstrap_servers,
                key_converter=converter_of(config, around.config, "key.converter"),
                value_converter=converter_of(config, around.config, "value.converter"),
                transforms=chain_of(config),
                errors=settings,
                flush_interval_ms=around.flush_interval_ms,
                client_settings=around.config,
            )
            task = kind.task_class()
            if isinstance(task, SourceTask):
                return RunningSource(setting, task, around.store)
            if isinstance(task, SinkTask):
                return RunningSink(setting, task)
            raise PluginError(f"{kind.__name__}.task_class is neither a SourceTask nor a SinkTask")

        return make
