"""Connectors while they run, on the worker that leads: they say which tasks they want."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from penstock.client.providers import Resolved, with_references
from penstock.work.connect.config import PASSWORD, parse
from penstock.work.connect.plugins import version_of
from penstock.work.connect.runtime.kinds import KEYS, checked, checked_task_configs
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.supervisor import Attempt, Goal, RunState, Supervisor

TaskConfigs = list[dict[str, str]]


class RunningConnector:
    """One run of a connector; `publish` gets the configurations of its tasks."""

    def __init__(
        self,
        config: Mapping[str, str],
        attempt: Attempt,
        publish: Callable[[TaskConfigs], Awaitable[None]],
        *,
        has_transactions: bool,
    ) -> None:
        self._config = dict(config)
        self._attempt = attempt
        self._publish = publish
        kind = checked(config, has_transactions=has_transactions)
        self.version = version_of(kind)
        self._connector = kind()

    async def run(self) -> None:
        call, connector = self._attempt.calls.call, self._connector
        try:
            await call(connector.start, self._config)
            configs = await call(connector.task_configs, parse(KEYS, self._config)["tasks.max"])
            told = {key.name for key in connector.config_keys if key.type != PASSWORD}
            made = checked_task_configs(configs, self._config)
            await self._publish([with_references(one, self._attempt.written, self._config, told) for one in made])
            self._attempt.begun()
            await self._attempt.stopping.wait()
        finally:
            await call(connector.stop)


class ConnectorHost(Protocol):
    has_transactions: bool
    """Of sources."""

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """ConfigError."""

    def tell(self, connector: str, state: RunState, trace: str, version: str | None) -> None: ...

    async def publish(self, connector: str, config: Mapping[str, str], configs: TaskConfigs) -> None: ...


class ConnectorSupervisor(Supervisor[RunningConnector]):
    def __init__(self, name: str, patience_s: float, host: ConnectorHost) -> None:
        super().__init__(f"connector {name}", patience_s)
        self._connector = name
        self._host = host

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        return self._host.look_up(config)

    def make(self, config: Mapping[str, str], attempt: Attempt) -> RunningConnector:
        publish = partial(self._host.publish, self._connector, attempt.written)
        made = RunningConnector(config, attempt, publish, has_transactions=self._host.has_transactions)
        self.version = made.version
        return made

    def tell(self, state: RunState, trace: str = "") -> None:
        self._host.tell(self._connector, state, trace, self.version)

    def _begin(self, wanted: Goal) -> None:
        if wanted.target is Target.STARTED:
            self.tell(RunState.UNASSIGNED)
        super()._begin(wanted)
