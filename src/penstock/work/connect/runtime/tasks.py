"""The tasks that a worker has been given: those run whose configuration is known, as it is now."""

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from penstock.client.providers import Resolved
from penstock.work.connect.api import Changes, Position, SinkTask, SourceTask
from penstock.work.connect.config import parse
from penstock.work.connect.conversion import steps_of
from penstock.work.connect.metrics import Metric
from penstock.work.connect.plugins import PluginError, version_of
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.generations import FencedError
from penstock.work.connect.runtime.kinds import KEYS, SHUTDOWN, kind_of
from penstock.work.connect.runtime.records import TASK, TaskId, parse_task
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.running_tasks import Environment, RunningSource, RunningTask, TaskSetting
from penstock.work.connect.runtime.source_offsets import OffsetStore, OffsetStores, Rows
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import Attempt, RunState, Supervisor
from penstock.work.connect.runtime.transactional_source import TransactionalSource
from penstock.work.scope import Scope


class GroupMembership(Protocol):
    @abstractmethod
    def owned_until_s(self) -> float:
        """Until when the tasks are this worker's, as far as it can know."""

    @abstractmethod
    def task_ended(self, task: str) -> None: ...

    @abstractmethod
    def complain(self, reason: str) -> None: ...


class TaskSupervisor(Supervisor[RunningTask]):
    """Runs one task, and is its TaskHost."""

    def __init__(
        self,
        task: TaskId,
        statuses: Statuses,
        stores: OffsetStores,
        environment: Environment,
        owned_until_s: Callable[[], float],
    ) -> None:
        super().__init__(f"task {task}", environment.shutdown_timeout_s)
        self._task = task
        self._statuses = statuses
        self._stores = stores
        self._store: OffsetStore = stores.of_worker
        self._environment = environment
        self._owned_until_s = owned_until_s

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """ConfigError."""
        return self._environment.providers.look_up(config)

    def make(self, config: Mapping[str, str], attempt: Attempt) -> RunningTask:
        """ConfigError, PluginError, or what the task raises."""
        setting = TaskSetting(
            number=self._task.number,
            config=config,
            environment=self._environment,
            steps=steps_of(config, self._environment.config),
            errors=parse(KEYS, config),
        )
        kind = kind_of(config)
        self.version = version_of(kind)
        patience_ms = setting.errors[SHUTDOWN.name]
        self.patience_s = self._environment.shutdown_timeout_s if patience_ms is None else patience_ms / 1000
        task = kind.task_class()
        if isinstance(task, SourceTask):
            running = RunningSource if self._environment.generations is None else TransactionalSource
            return running(setting, task, self, attempt)
        if isinstance(task, SinkTask):
            return RunningSink(setting, task, self, attempt)
        raise PluginError(f"{kind.__name__}.task_class is neither a SourceTask nor a SinkTask")

    def tell(self, state: RunState, trace: str = "") -> None:
        if not self.is_fenced:
            self._statuses.tell_task(self._task, state, trace, self.version)

    # What the task asks

    @property
    def generation(self) -> int:
        return self._statuses.generation

    def owned_until_s(self) -> float:
        return -math.inf if self.is_fenced else self._owned_until_s()

    def uses(self, topic: str) -> None:
        if self._environment.tracks_topics:
            self._statuses.tell_topic(self._task, topic, self._environment.clients.now_ms())

    @asynccontextmanager
    async def offsets_known(self, config: Mapping[str, str]) -> AsyncIterator[None]:
        async with self._stores.of(config) as self._store:
            await self._store.read_to_end()
            yield

    def offset(self, partition: Position) -> Position | None:
        return self._store.get(self._task.connector, partition)

    def offsets(self) -> Sequence[tuple[Position, Position]]:
        return self._store.all_of(self._task.connector)

    def rows(self, offsets: Sequence[tuple[Position, Position]]) -> Rows:
        return self._store.rows(self._task.connector, offsets)

    async def store(self, offsets: Changes) -> None:
        """FencedError."""
        if asyncio.get_running_loop().time() >= self.owned_until_s():
            raise FencedError(f"{self._task} runs elsewhere by now, so its offsets are not stored")
        await self._store.write(self._task.connector, offsets)

    def copy(self, offsets: Sequence[tuple[Position, Position]]) -> None:
        if asyncio.get_running_loop().time() < self.owned_until_s():
            self._store.copy(self._task.connector, offsets)

    async def settle(self) -> None:
        await self._store.settle()


class Tasks:
    def __init__(
        self,
        state: ConfigState,
        statuses: Statuses,
        stores: OffsetStores,
        environment: Environment,
        membership: GroupMembership,
    ) -> None:
        self._state = state
        self._statuses = statuses
        self._stores = stores
        self._environment = environment
        self._membership = membership
        self._supervisors: dict[str, TaskSupervisor] = {}
        self._ending = Scope()

    # Runner

    def complain(self, reason: str) -> None:
        self._membership.complain(reason)

    def start(self, task: str) -> None:
        supervisor = TaskSupervisor(
            _id_of(task), self._statuses, self._stores, self._environment, self._membership.owned_until_s
        )
        supervisor.tell(RunState.UNASSIGNED)
        self._supervisors[task] = supervisor
        self._look(task, supervisor)

    def stop(self, task: str) -> None:
        is_known = self._state.task_config(task) is not None
        supervisor = self._supervisors[task]
        self._finish(task, supervisor, supervisor.give_up(RunState.UNASSIGNED if is_known else None))

    def abandon(self, task: str) -> None:
        supervisor = self._supervisors.get(task)
        if supervisor is not None:
            supervisor.fence()
            self._finish(task, supervisor, supervisor.fenced())

    def _finish(self, task: str, supervisor: TaskSupervisor, ending: Coroutine[Any, Any, None]) -> None:
        async def finish() -> None:
            await ending
            if self._supervisors.get(task) is supervisor:
                del self._supervisors[task]
                self._membership.task_ended(task)

        self._ending.start(finish(), f"end of {task}")

    # What the worker knows

    def look(self) -> None:
        for task, supervisor in self._supervisors.items():
            self._look(task, supervisor)

    def _look(self, task: str, supervisor: TaskSupervisor) -> None:
        config = self._state.task_config(task)
        if config is None:
            supervisor.want(None)
        else:
            connector, generations = _id_of(task).connector, self._environment.generations
            generation = 0 if generations is None else generations.of(connector)
            supervisor.want(config, self._state.connectors[connector].target, generation)

    def runs(self, task: TaskId) -> bool:
        return f"{TASK}{task}" in self._supervisors

    def report(self, task: TaskId) -> Mapping[str, Any]:
        running = self._supervisors[f"{TASK}{task}"].current
        return running.report() if running is not None else {}

    def metrics(self) -> list[Metric]:
        """Of all tasks that run here, with the task among the labels."""
        figures: list[Metric] = []
        for task, supervisor in self._supervisors.items():
            of = {"connector": _id_of(task).connector, "task": str(_id_of(task).number)}
            of_task = supervisor.current.metrics() if supervisor.current is not None else ()
            figures += [figure.replace(labels={**of, **figure.labels}) for figure in of_task]
        return figures

    def restart(self, task: TaskId) -> None:
        supervisor = self._supervisors.get(f"{TASK}{task}")
        if supervisor is not None:
            supervisor.restart()


def _id_of(task: str) -> TaskId:
    found = parse_task(task.removeprefix(TASK))
    assert found is not None
    return found
