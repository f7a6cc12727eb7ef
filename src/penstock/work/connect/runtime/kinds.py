"""From a connector's configuration to its class, and whether it and those of its tasks are good."""

import logging
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from penstock.work.connect import errors
from penstock.work.connect.api import Connector, SinkConnector, SourceConnector
from penstock.work.connect.built_in import CONNECTORS
from penstock.work.connect.chain import PREDICATES, TRANSFORMS, chain_of
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.converters import CONVERTERS
from penstock.work.connect.headers import HEADER_CONVERTERS
from penstock.work.connect.plugins import VERSION, PluginError, find_class
from penstock.work.connect.runtime import promises
from penstock.work.connect.runtime.needs import CORES, MEMORY
from penstock.work.connect.runtime.new_topics import GROUPS, topic_groups

logger = logging.getLogger(__name__)
BUILT_IN: Final[Mapping[str, Mapping[str, type[Any]]]] = {
    "connector": CONNECTORS,
    "transform": TRANSFORMS,
    "predicate": PREDICATES,
    "converter": CONVERTERS,
    "header_converter": HEADER_CONVERTERS,
}
"""The plugins of each kind that come along."""


def _check_name(text: str) -> None:
    if not text.strip() or any(unicodedata.category(one) == "Cc" for one in text):
        raise ValueError(f"name={text!r}: a name is not empty, and has no control characters")


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"topics.regex={text} is no pattern: {error}") from None


RESTARTS: Final = ConfigKey("task.restarts.max", "int", 5, "How often a task that fails is started again.", least=0)
SHUTDOWN: Final = ConfigKey(
    "task.shutdown.graceful.timeout.ms",
    "long",
    None,
    "How long a task may take to end, not as the worker says.",
    least=0,
)
RELOAD: Final = ConfigKey(
    "config.action.reload",
    default="restart",
    documentation="What becomes of what runs with a looked-up value whose time is over.",
    choices=("none", "restart"),
    importance="low",
)
KEYS: Final = (
    ConfigKey("name", required=True, documentation="the name of the connector", importance="high", check=_check_name),
    ConfigKey("connector.class", "class", required=True, documentation="what it is", importance="high"),
    ConfigKey(f"connector.{VERSION}", documentation="The version that it must have: 1.2, or a range like [1.0,2.0)."),
    ConfigKey("tasks.max", "int", 1, "The most tasks that it may have.", least=1, importance="high"),
    ConfigKey("tasks.max.enforce", "boolean", True, "Whether a connector that wants more tasks fails."),
    ConfigKey("key.converter", "class", None, "What keys are in topics; the worker's, if none is named."),
    ConfigKey("value.converter", "class", None, "What values are in topics; the worker's, if none is named."),
    ConfigKey("header.converter", "class", None, "What headers are in topics; the worker's, if none is named."),
    *(
        ConfigKey(f"{part}.converter.{VERSION}", documentation=f"The version of {part}.converter, in the same way.")
        for part in ("key", "value", "header")
    ),
    ConfigKey("transforms", "list", (), "The transforms that records go through, by names of one's own."),
    ConfigKey("predicates", "list", (), "What says to which records a transform applies, by names of one's own."),
    RESTARTS,
    SHUTDOWN,
    CORES,
    MEMORY,
    RELOAD,
    *errors.KEYS,
)
SINK_KEYS: Final = (
    ConfigKey("topics", "list", (), "The topics to read."),
    ConfigKey(
        "topics.regex",
        documentation="A pattern that matches the topics to read, instead of their names.",
        check=_check_pattern,
    ),
)
SOURCE_KEYS: Final = (*promises.KEYS, GROUPS)
Kind = type[SourceConnector] | type[SinkConnector]


def kind_of(config: Mapping[str, str]) -> Kind:
    """ConfigError, PluginError."""
    settings = parse(KEYS, config)
    name = settings["connector.class"]
    kind = find_class(name, CONNECTORS, "connector", settings[f"connector.{VERSION}"])
    if not issubclass(kind, SourceConnector | SinkConnector):
        raise PluginError(f"{name} is neither a SourceConnector nor a SinkConnector")
    return kind


def checked(config: Mapping[str, str], *, has_transactions: bool = False) -> Kind:
    """The class, if all of the configuration is good on a worker that has transactions of sources, or not; ConfigError,
    PluginError.
    """
    kind = kind_of(config)
    parse(kind.config_keys, config)
    parse(keys_beside_own(kind), config)
    if wrong := contradictions(kind, config, has_transactions=has_transactions):
        raise ConfigError(wrong)
    chain_of(config)
    return kind


def keys_beside_own(kind: Kind) -> tuple[ConfigKey, ...]:
    """What all connectors of this kind understand."""
    return (*KEYS, *(SINK_KEYS if issubclass(kind, SinkConnector) else SOURCE_KEYS))


def contradictions(kind: Kind, config: Mapping[str, str], *, has_transactions: bool) -> dict[str, list[str]]:
    """What cannot be, though each key for itself is good."""
    if issubclass(kind, SinkConnector):
        return _topic_errors(config)
    wrong = promises.broken(kind, config, has_transactions=has_transactions)
    try:
        topic_groups(config)
    except ConfigError as error:
        wrong |= {key: list(reasons) for key, reasons in error.errors.items()}
    return wrong


def _topic_errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the topics of a sink: one key names them, without the topic of records that it leaves out."""
    sink = parse(SINK_KEYS, config)
    topics, pattern, left_out = sink["topics"], sink["topics.regex"], config.get(errors.LEFT_OUT, "").strip()
    if bool(topics) == (pattern is not None):
        return {key.name: ["a sink needs either topics or topics.regex"] for key in SINK_KEYS}
    if left_out in topics:
        return {"topics": [f"{errors.LEFT_OUT}={left_out} is one of topics: what is left out would come again"]}
    if left_out and pattern is not None and re.fullmatch(pattern, left_out) is not None:
        return {"topics.regex": [f"{errors.LEFT_OUT}={left_out} matches topics.regex: it would come again"]}
    return {}


def checked_task_configs(made: Any, config: Mapping[str, str]) -> list[dict[str, str]]:
    """What a connector's `task_configs` has returned; ConfigError if it is not what it should be."""
    settings = parse(KEYS, config)
    name, most = settings["name"], settings["tasks.max"]
    if not isinstance(made, list | tuple) or not all(isinstance(one, Mapping) for one in made):
        raise ConfigError(
            {"name": [f"{name} gave {made!r} as the configurations of its tasks: a list of dicts is needed"]}
        )
    if len(made) > most:
        reason = f"{name} wants {len(made)} tasks, and tasks.max allows {most}"
        if settings["tasks.max.enforce"]:
            raise ConfigError({"tasks.max": [reason]})
        logger.warning("%s: all of them run, for tasks.max.enforce=false", reason)
    return [{str(key): str(value) for key, value in one.items()} for one in made]


def is_source(kind: type[Connector]) -> bool:
    return issubclass(kind, SourceConnector)
