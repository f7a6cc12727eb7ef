"""A Python function between topics: it gets a record, and what it returns is written.

    connector.class=penstock.FunctionConnector
    topics=clicks
    function=my_module:my_function
    output.topic=clean

The function returns a record, a list of records, or None for nothing; what is no record becomes the value of one with
the same key. Each record comes at least once. One for which the function fails is left out where that is tolerated.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.work.connect.api import Record, SinkConnector, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.config import ConfigError, ConfigKey, parse

KEYS = (
    ConfigKey("function", required=True, documentation="the function, as module:function", importance="high"),
    ConfigKey("output.topic", required=True, documentation="the topic to write to", importance="high"),
)


class FunctionTask(SinkTask):
    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self._settings = parse(KEYS, config)
        self._function = function_named(self._settings["function"])
        self._context = context

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            try:
                made = self._function(record)
            except Exception as error:
                self._context.report(record, error)
                continue
            for one in made if isinstance(made, list) else [made]:
                if one is not None:
                    self._context.send(self._outgoing(one, record))

    def stop(self) -> None:
        """Nothing is open."""

    def _outgoing(self, made: Any, record: SinkRecord) -> Record:
        topic = self._settings["output.topic"]
        if isinstance(made, SinkRecord):  # what came in, perhaps with another value: it goes to the other topic
            made = Record(topic, None, made.key, made.value, made.key_schema, None, made.timestamp_ms, made.headers)
        if isinstance(made, Record):
            return made
        return Record(topic, None, record.key, made, record.key_schema, None, record.timestamp_ms, record.headers)


def function_named(name: str) -> Callable[[SinkRecord], Any]:
    """ConfigError. The name is `module:function`."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise ConfigError({"function": [f"function={name} cannot be loaded: {error!r}"]}) from error
    if not callable(found):
        raise ConfigError({"function": [f"function={name} is not a function"]})
    return found  # type: ignore[no-any-return]


class FunctionConnector(SinkConnector):
    """As many tasks as are allowed: the partitions are spread over them."""

    config_keys = KEYS
    task_class: ClassVar[type[SinkTask]] = FunctionTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        function_named(self.config["function"])
        return [dict(self.config) for _ in range(max_tasks)]
