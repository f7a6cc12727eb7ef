"""What the config topic says, as a machine: records go in, in the order of the topic, and the state comes out.

Configurations of tasks wait for their commit, so that no worker runs half of what a leader has written. Compaction may
take some of them away before it takes the commit: such a connector is `inconsistent`, and the leader writes them anew.

It may take the connector's record away from before its tasks, for a later one of the same connector lies behind them:
so tasks that were committed wait for their connector. Who makes a connector takes away the commit that an earlier one
of its name may have left (KAFKA-16838), and who deletes one takes away all but the count of its tasks that may write
transactions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.protocol.value import Value
from penstock.work.connect.runtime.records import (
    COMMIT,
    CONNECTOR,
    FENCING,
    LOGGER,
    RESTART,
    TARGET_STATE,
    TASK,
    Target,
    TaskId,
    decode,
    parse_task,
    put,
    read_target,
)
from penstock.work.connect.runtime.session_keys import KEPT, SESSION_KEY, SessionKey, read_key

Config = Mapping[str, str]


class RestartRequest(Value):
    """A connector is to start again (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


class LoggerLevel(Value):
    """All workers are to have another log level (KIP-976)."""

    logger: str
    level: str


class Deleted(Value):
    """A connector is gone that had this configuration."""

    connector: str
    config: Config


News = RestartRequest | LoggerLevel | Deleted
"""An order, not a state: it counts for workers that are there when it comes."""


@dataclass(slots=True)
class Known:
    """`applied` is the configuration that the connector had when its tasks were committed; None where that is gone."""

    config: Config
    target: Target = Target.STARTED
    tasks: tuple[Config, ...] = ()
    applied: Config | None = None
    is_inconsistent: bool = False


class ConfigState:
    def __init__(self) -> None:
        self.connectors: dict[str, Known] = {}
        self.task_rows: dict[str, dict[int, bool]] = {}
        """By connectors: the numbers of tasks that the topic has a configuration of, in force or not."""
        self._uncommitted: dict[str, dict[int, Config]] = {}
        self._waiting: dict[str, Known] = {}
        """Tasks of connectors that were not read yet."""
        self._targets: dict[str, Target] = {}
        self.generations: dict[str, int] = {}
        """How often tasks of each connector were committed, as far as this worker has read."""
        self.task_counts: dict[str, int] = {}
        """By connectors: how many tasks may have written transactions when older ones were fenced last."""
        self.unfenced: dict[str, None] = {}
        """Connectors whose tasks were committed after that, or never fenced: they must not begin with transactions."""
        self.session_keys: tuple[SessionKey, ...] = ()
        """The newest first."""

    def apply(self, key: str, value: bytes | None) -> News | None:
        """Returns an order or what else counts only now, if the record is such."""
        for prefix, take in _KINDS.items():
            if key.startswith(prefix):
                return take(self, key.removeprefix(prefix), decode(value), value is None)
        return None

    def task_names(self) -> list[str]:
        """Tasks that are to run, by the keys of their configurations, sorted."""
        return sorted(f"{TASK}{task}" for name in self.connectors for task in self.task_ids(name))

    def task_config(self, name: str) -> Config | None:
        """The connector's configuration when the task was committed, with the task's own on top."""
        task = parse_task(name.removeprefix(TASK))
        known = self.connectors.get(task.connector) if task else None
        if known is None or task is None or task.number >= len(known.tasks):
            return None
        return {**(known.applied if known.applied is not None else known.config), **known.tasks[task.number]}

    def task_ids(self, connector: str) -> list[TaskId]:
        known = self.connectors.get(connector)
        return [TaskId(connector, number) for number in range(len(known.tasks))] if known else []

    # Records

    def _connector(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> Deleted | None:
        if is_gone:
            gone = self.connectors.pop(name, None)
            self._uncommitted.pop(name, None)
            self._waiting.pop(name, None)
            return None if gone is None else Deleted(name, gone.config)
        config = _properties(document)
        if config is None:
            return None
        if name not in self.connectors:
            self.connectors[name] = self._waiting.pop(name, Known(config))
            self.connectors[name].target = self._targets.get(name, Target.STARTED)
        self.connectors[name].config = config
        return None

    def _task(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> None:
        task, config = parse_task(name), _properties(document)
        if task is not None and (config is not None or is_gone):
            put(self._uncommitted, task.connector, task.number, config)
            put(self.task_rows, task.connector, task.number, None if is_gone else True)

    def _commit(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> None:
        if is_gone:
            self._waiting.pop(name, None)
        count = (document or {}).get("tasks")
        if not isinstance(count, int) or count < 0:
            return
        self.generations[name] = self.generations.get(name, 0) + 1
        self.unfenced[name] = None
        configs = self._uncommitted.pop(name, {})
        known = self.connectors.get(name)
        if known is None:
            known = self._waiting.setdefault(name, Known({}))
        known.is_inconsistent = not configs.keys() >= set(range(count))
        if not known.is_inconsistent:
            known.tasks = tuple(configs[number] for number in range(count))
            known.applied = known.config if name in self.connectors else None

    def _fencing(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> None:
        count = (document or {}).get("task-count")
        if isinstance(count, int) and count >= 0:
            self.task_counts[name] = count
            self.unfenced.pop(name, None)

    def _target(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> None:
        if is_gone:
            self._targets.pop(name, None)
        elif document is not None:
            self._targets[name] = read_target(document)
        if name in self.connectors:
            self.connectors[name].target = self._targets.get(name, Target.STARTED)

    def _restart(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> RestartRequest | None:
        if document is None:
            return None
        return RestartRequest(name, bool(document.get("include-tasks")), bool(document.get("only-failed")))

    def _session_key(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> None:
        key = read_key(document or {})
        if key is not None and not name and key not in self.session_keys:  # a record may come twice
            self.session_keys = (key, *self.session_keys)[:KEPT]

    def _logger(self, name: str, document: Mapping[str, Any] | None, is_gone: bool) -> LoggerLevel | None:
        level = (document or {}).get("level")
        return LoggerLevel(name, level) if isinstance(level, str) else None


_KINDS: Final[Mapping[str, Callable[[ConfigState, str, Mapping[str, Any] | None, bool], News | None]]] = {
    CONNECTOR: ConfigState._connector,
    TASK: ConfigState._task,
    COMMIT: ConfigState._commit,
    TARGET_STATE: ConfigState._target,
    FENCING: ConfigState._fencing,
    RESTART: ConfigState._restart,
    LOGGER: ConfigState._logger,
    SESSION_KEY: ConfigState._session_key,
}


def _properties(document: Mapping[str, Any] | None) -> Config | None:
    found = (document or {}).get("properties")
    if not isinstance(found, dict):
        return None
    return {str(key): str(value) for key, value in found.items() if value is not None}
