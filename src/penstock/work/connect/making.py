"""From a connector's configuration to what runs: its class, its tasks' configurations, and each task."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.protocol.value import Value
from penstock.work.connect import errors
from penstock.work.connect.api import Connector, SinkConnector, SinkTask, SourceConnector, SourceTask
from penstock.work.connect.built_in import CONNECTORS
from penstock.work.connect.chain import chain_of
from penstock.work.connect.chain import is_built_in as chain_built_in
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.conversion import Steps
from penstock.work.connect.converters import CONVERTERS, converter_of
from penstock.work.connect.headers import header_converter_of
from penstock.work.connect.headers import is_built_in as headers_built_in
from penstock.work.connect.plugins import PluginError, find_class
from penstock.work.connect.tasks import OffsetStore, RunningSink, RunningSource, RunningTask, Setting

KEYS: Final = (
    ConfigKey("name", required=True, documentation="the name of the connector", importance="high"),
    ConfigKey("connector.class", "class", required=True, documentation="what it is", importance="high"),
    ConfigKey("tasks.max", "int", 1, "The most tasks that it may have.", least=1, importance="high"),
    ConfigKey("key.converter", "class", None, "What keys are in topics; the worker's, if none is named."),
    ConfigKey("value.converter", "class", None, "What values are in topics; the worker's, if none is named."),
    ConfigKey("header.converter", "class", None, "What headers are in topics; the worker's, if none is named."),
    ConfigKey("transforms", "list", (), "The transforms that records go through, by names of one's own."),
    ConfigKey("predicates", "list", (), "What says to which records a transform applies, by names of one's own."),
    ConfigKey("task.restarts.max", "int", 5, "How often a task that fails is started again.", least=0),
    *errors.KEYS,
)
SINK_KEYS: Final = (
    ConfigKey("topics", "list", (), "The topics to read."),
    ConfigKey("topics.regex", documentation="A pattern that matches the topics to read, instead of their names."),
)
Kind = type[SourceConnector] | type[SinkConnector]


class Around(Value, kw_only=True):
    """What all tasks of a worker share."""

    bootstrap_servers: str
    config: Mapping[str, str]
    flush_interval_ms: int
    shutdown_timeout_s: float


def kind_of(config: Mapping[str, str]) -> Kind:
    """The connector's class; ConfigError, PluginError."""
    name = parse(KEYS, config)["connector.class"]
    kind = find_class(name, CONNECTORS, "connector")
    if not issubclass(kind, SourceConnector | SinkConnector):
        raise PluginError(f"{name} is neither a SourceConnector nor a SinkConnector")
    return kind


def checked(config: Mapping[str, str]) -> Kind:
    """The connector's class, if all of the configuration is good; ConfigError, PluginError."""
    kind = kind_of(config)
    parse(kind.config_keys, config)
    if issubclass(kind, SinkConnector) and (wrong := topic_errors(config)):
        raise ConfigError(wrong)
    chain_of(config)
    return kind


def topic_errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the topics of a sink: it reads those of one key, and not what it has left out itself."""
    sink = parse(SINK_KEYS, config)
    topics, pattern, left_out = sink["topics"], sink["topics.regex"], config.get(errors.LEFT_OUT, "").strip()
    if bool(topics) == (pattern is not None):
        return {key.name: ["a sink needs either topics or topics.regex"] for key in SINK_KEYS}
    if left_out in topics:
        return {"topics": [f"{errors.LEFT_OUT}={left_out} is one of topics: what is left out would come again"]}
    try:
        comes_again = bool(left_out) and pattern is not None and re.fullmatch(pattern, left_out) is not None
    except re.error as error:
        return {"topics.regex": [f"topics.regex={pattern} is no pattern: {error}"]}
    if comes_again:
        return {"topics.regex": [f"{errors.LEFT_OUT}={left_out} matches topics.regex: it would come again"]}
    return {}


def checked_task_configs(made: Any, config: Mapping[str, str]) -> list[dict[str, str]]:
    """What a connector's `task_configs` has returned, if it is what it should be; ConfigError."""
    name, most = config["name"], parse(KEYS, config)["tasks.max"]
    if not isinstance(made, list | tuple) or not all(isinstance(one, Mapping) for one in made):
        raise ConfigError(
            {"name": [f"{name} gave {made!r} as the configurations of its tasks: a list of dicts is needed"]}
        )
    if len(made) > most:
        raise ConfigError({"tasks.max": [f"{name} wants {len(made)} tasks, and tasks.max allows fewer"]})
    return [{str(key): str(value) for key, value in one.items()} for one in made]


def new_task(
    config: Mapping[str, str],
    number: int,
    around: Around,
    store: OffsetStore,
    on_topic: Callable[[str], None] = lambda _: None,
    owned_until_s: Callable[[], float] = lambda: math.inf,
) -> RunningTask:
    """One task by the configuration of its connector with its own on top; ConfigError, PluginError, or its own."""
    kind = kind_of(config)
    setting = Setting(
        connector=config["name"],
        number=number,
        config=config,
        bootstrap_servers=around.bootstrap_servers,
        steps=_steps(config, around.config),
        errors=parse(KEYS, config),
        flush_interval_ms=around.flush_interval_ms,
        client_settings=around.config,
        on_topic=on_topic,
        owned_until_s=owned_until_s,
    )
    task = kind.task_class()
    if isinstance(task, SourceTask):
        return RunningSource(setting, task, store)
    if isinstance(task, SinkTask):
        return RunningSink(setting, task)
    raise PluginError(f"{kind.__name__}.task_class is neither a SourceTask nor a SinkTask")


def _steps(config: Mapping[str, str], defaults: Mapping[str, str]) -> Steps:
    key, value = (converter_of(config, defaults, kind) for kind in ("key.converter", "value.converter"))
    headers = header_converter_of(config, defaults)
    are_ours = (
        type(key) in CONVERTERS.values(),
        type(value) in CONVERTERS.values(),
        headers_built_in(headers),
        chain_built_in(config),
    )
    return Steps(key=key, value=value, headers=headers, transforms=chain_of(config), may_block=not all(are_ours))


def is_source(kind: type[Connector]) -> bool:
    """Whether it brings records into Kafka."""
    return issubclass(kind, SourceConnector)
