"""What the worker that leads does: it runs the connectors, and writes down which tasks each of them wants.

Nobody else writes to the config topic. A worker that cannot know any more that it leads writes nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from penstock.work.connect.config import parse
from penstock.work.connect.jobs import Kept, RunningConnector, State
from penstock.work.connect.making import KEYS, is_source, kind_of
from penstock.work.connect.runtime.config_state import Config, ConfigState
from penstock.work.connect.runtime.keepers import Keeper, Wanted, told
from penstock.work.connect.runtime.logs import Log
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

RETRY_S: Final = 1.0


class NotLeadingError(Exception):
    """This worker does not lead, or cannot know that it still does."""


class Leading:
    """See the module. `may_write` says whether it leads at this moment."""

    def __init__(
        self,
        state: ConfigState,
        log: Log,
        statuses: Statuses,
        patience_s: float,
        may_write: Callable[[], bool],
    ) -> None:
        self._state = state
        self._log = log
        self._statuses = statuses
        self._patience_s = patience_s
        self._may_write = may_write
        self._writing = asyncio.Lock()
        self._connectors: dict[str, Keeper] = {}
        self._lives: dict[str, int] = {}
        self.leads = False

    async def lead(self) -> None:
        """Begin to lead: what the last leader wrote is known first; NotLeadingError, TimeoutError."""
        await self._log.read_to_end()
        if not self._may_write():
            raise NotLeadingError("another worker leads")
        self.leads = True
        for name in self._statuses.connectors():
            if name not in self._state.connectors:
                self._statuses.forget(name)
        self.look()

    async def retire(self) -> None:
        """Lead no more: another worker runs the connectors, or will."""
        self.leads = False
        connectors, self._connectors = self._connectors, {}
        await asyncio.gather(*(keeper.give_up(None) for keeper in connectors.values()))

    def look(self) -> None:
        """The config topic says something new."""
        if not self.leads:
            return
        for name in [name for name in self._connectors if name not in self._state.connectors]:
            self._drop(name)
        for name, known in self._state.connectors.items():
            if name not in self._connectors:
                self._connectors[name] = self._keeper(name)
            self._connectors[name].want(Wanted(known.config, known.target, self._lives.get(name, 0)))
            self._statuses.forget_tasks(name, len(known.tasks))

    def restart(self, name: str) -> None:
        """Start a connector again, whatever it does."""
        if name in self._connectors:
            self._lives[name] = self._lives.get(name, 0) + 1
            self._statuses.tell_connector(name, State.RESTARTING)
            self.look()

    def _keeper(self, name: str) -> Keeper:
        return Keeper(
            f"connector {name}",
            lambda keeper, wanted: self._begin(name, keeper, wanted),
            lambda state: self._statuses.tell_connector(name, state),
        )

    def _drop(self, name: str) -> None:
        keeper = self._connectors.pop(name)

        async def drop() -> None:
            await keeper.give_up(None)
            if self._may_write() and name not in self._state.connectors:
                self._statuses.forget(name)

        self._dropping = asyncio.create_task(drop())

    def _begin(self, name: str, keeper: Keeper, wanted: Wanted) -> Kept:
        async def publish(configs: list[dict[str, str]]) -> None:
            while True:
                try:
                    return await self.publish(name, wanted.config, configs)
                except NotLeadingError:  # for ever, and then the connector is stopped, or only for a moment
                    await asyncio.sleep(RETRY_S)

        def tell(state: State, trace: str) -> None:
            if self._may_write():
                self._statuses.tell_connector(name, state, trace)

        self._statuses.tell_connector(name, State.UNASSIGNED)
        return Kept(
            f"connector {name}",
            lambda: RunningConnector(wanted.config, publish),
            _restarts(wanted.config),
            self._patience_s,
            told(tell, lambda: keeper.kept),
        )

    # What is written

    async def publish(self, name: str, config: Config, configs: list[dict[str, str]]) -> None:
        """A connector with this configuration wants these tasks, which are written if they are new; NotLeadingError."""
        complete = [_with_class(one, config) for one in configs]
        async with self._writing:
            known = self._state.connectors.get(name)
            if known is None or known.config != config or known.target is not Target.STARTED:
                return
            if known.is_inconsistent or known.applied != config or list(known.tasks) != complete:
                await self._write_tasks(name, complete)

    async def put_connector(self, name: str, config: Config, target: Target | None) -> None:
        """There is such a connector from now on, or it has another configuration."""
        async with self._writing:
            wanted = {} if target is None else {f"{TARGET_STATE}{name}": target_state(target)}
            await self._write({**wanted, f"{CONNECTOR}{name}": properties(config)})
            await self._log.read_to_end()

    async def delete_connector(self, name: str) -> None:
        """There is no such connector any more."""
        async with self._writing:
            await self._write({f"{CONNECTOR}{name}": None, f"{TARGET_STATE}{name}": None})
            await self._log.read_to_end()

    async def set_target(self, name: str, target: Target) -> None:
        """Let a connector run, or pause."""
        async with self._writing:
            await self._write({f"{TARGET_STATE}{name}": target_state(target)})
            await self._log.read_to_end()

    async def stop_connector(self, name: str) -> None:
        """Neither the connector nor any task of it runs until it is resumed."""
        async with self._writing:
            await self._write({f"{TARGET_STATE}{name}": target_state(Target.STOPPED)})
            await self._write_tasks(name, [])

    async def _write_tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        tasks = {f"{TASK}{name}-{number}": properties(config) for number, config in enumerate(configs)}
        await self._write({**tasks, f"{COMMIT}{name}": encode({"tasks": len(configs)})})
        await self._log.read_to_end()

    async def _write(self, rows: Mapping[str, bytes | None]) -> None:
        """All of them or none: who is told that another worker leads asks that one for the whole again."""
        if not self._may_write():
            raise NotLeadingError("another worker leads")
        for key, value in rows.items():
            await self._log.put(key.encode(), value)


def _restarts(config: Mapping[str, str]) -> int:
    try:
        return int(parse(KEYS, config)["task.restarts.max"])
    except ValueError:
        return 0


def _with_class(task: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """As Connect keeps a task's configuration: with its class, and a sink's with its topics."""
    kind = kind_of(connector)
    made = {**task, "task.class": f"{kind.task_class.__module__}:{kind.task_class.__qualname__}"}
    if not is_source(kind):
        made |= {key: connector[key] for key in ("topics", "topics.regex") if key in connector}
    return made
