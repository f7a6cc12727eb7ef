"""What the worker that leads does: it runs the connectors, and writes down which tasks each of them wants.

Only the leader writes to the config topic. A worker that cannot be sure that it leads writes nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.providers import Resolved
from penstock.work.connect.runtime.config_state import Config, ConfigState
from penstock.work.connect.runtime.connectors import ConnectorSupervisor, TaskConfigs
from penstock.work.connect.runtime.kinds import is_source, kind_of
from penstock.work.connect.runtime.logs import ConfigLog, NotLeadingError
from penstock.work.connect.runtime.records import (
    COMMIT,
    CONNECTOR,
    TARGET_STATE,
    TASK,
    Target,
    encode,
    properties,
    target_state,
)
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.scope import Scope

RETRY_S: Final = 1.0
Rows = Mapping[str, bytes | None]


class Leading:
    """`may_write` says whether the worker leads at this moment."""

    def __init__(
        self,
        state: ConfigState,
        log: ConfigLog,
        statuses: Statuses,
        patience_s: float,
        may_write: Callable[[], bool],
        look_up: Callable[[Config], Resolved],
        has_transactions: bool = False,
    ) -> None:
        """`look_up` finds what stands elsewhere. `has_transactions`: of sources."""
        self._state = state
        self._log = log
        self._statuses = statuses
        self._patience_s = patience_s
        self._may_write = may_write
        self._look_up = look_up
        self.has_transactions = has_transactions
        self._writing = asyncio.Lock()
        self._connectors: dict[str, ConnectorSupervisor] = {}
        self._dropping = Scope()
        self.leads = False

    async def lead(self) -> None:
        """Read what the last leader wrote, then run connectors; NotLeadingError, TimeoutError, errors of a client."""
        await self._log.claim()
        await self._log.read_to_end()
        if not self._may_write():
            raise NotLeadingError("another worker leads")
        self.leads = True
        for name in self._statuses.connectors():
            if name not in self._state.connectors:
                self._statuses.forget(name)
        self.look()

    async def retire(self) -> None:
        """Another worker runs the connectors, or will."""
        self.leads = False
        connectors, self._connectors = self._connectors, {}
        await asyncio.gather(*(supervisor.give_up() for supervisor in connectors.values()))

    def look(self) -> None:
        if not self.leads:
            return
        for name in [name for name in self._connectors if name not in self._state.connectors]:
            self._dropping.start(self._drop(name, self._connectors.pop(name)))
        for name, known in self._state.connectors.items():
            if name not in self._connectors:
                self._connectors[name] = ConnectorSupervisor(name, self._patience_s, self)
            self._connectors[name].want(known.config, known.target)
            self._statuses.forget_tasks(name, len(known.tasks))

    def restart(self, name: str) -> None:
        if name in self._connectors:
            self._connectors[name].restart()

    async def _drop(self, name: str, supervisor: ConnectorSupervisor) -> None:
        await supervisor.give_up()
        if self._may_write() and name not in self._state.connectors:
            self._statuses.forget(name)

    # ConnectorHost

    def look_up(self, config: Config) -> Resolved:
        return self._look_up(config)

    def tell(self, connector: str, state: RunState, trace: str, version: str | None) -> None:
        if self._may_write():
            self._statuses.tell_connector(connector, state, trace, version)

    async def publish(self, connector: str, config: Config, configs: TaskConfigs) -> None:
        while True:
            try:
                return await self._publish(connector, config, configs)
            except NotLeadingError:  # for ever, and then the connector is stopped, or only for a moment
                await asyncio.sleep(RETRY_S)

    # What is written

    async def _publish(self, name: str, config: Config, configs: TaskConfigs) -> None:
        """Writes the tasks of a connector if they are new; NotLeadingError."""
        complete = [_with_class(one, config) for one in configs]
        async with self._writing:
            known = self._state.connectors.get(name)
            if known is None or known.config != config or known.target is not Target.STARTED:
                return
            if known.is_inconsistent or known.applied != config or list(known.tasks) != complete:
                await self._write(_task_rows(name, complete))

    async def put_connector(self, name: str, config: Config, target: Target | None) -> None:
        """Creates a connector, or replaces its configuration."""
        wanted = {} if target is None else {f"{TARGET_STATE}{name}": target_state(target)}
        async with self._writing:
            left = {} if name in self._state.connectors else {f"{COMMIT}{name}": None}
            await self._write({**left, **wanted, f"{CONNECTOR}{name}": properties(config)})

    async def delete_connector(self, name: str) -> None:
        """With its tasks: each would stay in the topic for good."""
        async with self._writing:
            tasks = (f"{TASK}{name}-{number}" for number in self._state.task_rows.get(name, ()))
            keys = (f"{CONNECTOR}{name}", f"{TARGET_STATE}{name}", f"{COMMIT}{name}", *tasks)
            await self._write(dict.fromkeys(keys))

    async def set_target(self, name: str, target: Target) -> None:
        """A connector that is STOPPED has no tasks until it is resumed."""
        tasks = _task_rows(name, []) if target is Target.STOPPED else {}
        await self._change({f"{TARGET_STATE}{name}": target_state(target), **tasks})

    async def write_if(self, is_still_so: Callable[[], bool], rows: Rows) -> None:
        """Unless what was written meanwhile stands against it; NotLeadingError."""
        async with self._writing:
            if is_still_so():
                await self._write(rows)

    async def _change(self, rows: Rows) -> None:
        async with self._writing:
            await self._write(rows)

    async def _write(self, rows: Rows) -> None:
        """All of them or none: a caller that is sent to another leader repeats the whole there."""
        if not self._may_write():
            raise NotLeadingError("another worker leads")
        await self._log.put_all({key.encode(): value for key, value in rows.items()})
        await self._log.read_to_end()


def _task_rows(name: str, configs: TaskConfigs) -> Rows:
    tasks = {f"{TASK}{name}-{number}": properties(config) for number, config in enumerate(configs)}
    return {**tasks, f"{COMMIT}{name}": encode({"tasks": len(configs)})}


def _with_class(task: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """As Connect keeps a task's configuration: with its class, and a sink's with its topics."""
    kind = kind_of(connector)
    made = {**task, "task.class": f"{kind.task_class.__module__}:{kind.task_class.__qualname__}"}
    if not is_source(kind):
        made |= {key: connector[key] for key in ("topics", "topics.regex") if key in connector}
    return made
