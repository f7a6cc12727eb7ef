"""The rules of `penstock.policy.file`: what topics may be called, and what bounds hold for them; `docs/policies.md`.

Each rule is about the topics whose names match `topics`, and a topic has to keep all rules that are about it. Topics of
the cluster itself are not judged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from math import inf
from pathlib import Path
from typing import Any, Final

from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolationError
from penstock.metadata.configs.definitions import ConfigDefinition, ConfigError, ConfigType, nearest_key, parse_value
from penstock.metadata.configs.effective import ALL_TOPIC_CONFIGS, ConfigSource, topic_text
from penstock.metadata.resources import ResourceType
from penstock.metadata.rule_tables import check_keys, rule_tables
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import INTERNAL_TOPICS
from penstock.protocol.value import Value, fresh

MAX_BYTES: Final = 1 << 20
KEYS: Final = ("description", "topics", "names", "partitions", "replicas", "configs")
_NUMBERS: Final = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE)
_NO_LIMIT: Final = ("retention.ms", "retention.bytes")
"""Where -1 means more than any number."""


class Bounds(Value):
    """`allowed` are texts, and there is none for numbers; an item of a list is judged by itself."""

    least: float = -inf
    most: float = inf
    allowed: tuple[str, ...] | None = None

    def hold(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        if self.allowed is not None:
            return f"one of {', '.join(self.allowed)}"
        least = [f"at least {self.least}"] if self.least > -inf else []
        return " and ".join([*least, f"at most {self.most}"] if self.most < inf else least)


class Rule(Value, kw_only=True):
    """`where` names it to people; patterns are as of file names, and each of a list will do."""

    where: str
    topics: tuple[re.Pattern[str], ...]
    names: tuple[str, ...] | None = None
    name_patterns: tuple[re.Pattern[str], ...] = ()
    partitions: Bounds = Bounds()
    replicas: Bounds = Bounds()
    configs: Mapping[str, Bounds] = fresh(dict)

    def is_about(self, topic: str) -> bool:
        return topic not in INTERNAL_TOPICS and any(pattern.match(topic) for pattern in self.topics)


class CreateTopicRules(CreateTopicPolicy):
    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._static: Mapping[str, str] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        self._static = configs

    def validate(self, request: CreateTopicPolicy.RequestMetadata) -> None:
        assigned = request.replicas_assignments or {}
        partitions = len(assigned) if request.num_partitions is None else request.num_partitions
        factors = {len(replicas) for replicas in assigned.values()} or {request.replication_factor or 0}
        for rule in self._rules:
            if rule.is_about(request.topic):
                _check_name(rule, request.topic)
                _check_number(rule, request.topic, "partitions", partitions, rule.partitions)
                for factor in factors:
                    _check_number(rule, request.topic, "replicas", factor, rule.replicas)
                _check_configs(rule, request.topic, request.configs, rule.configs, self._static)


class AlterConfigRules(AlterConfigPolicy):
    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._static: Mapping[str, str] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        self._static = configs

    def validate(self, request: AlterConfigPolicy.RequestMetadata) -> None:
        """Only keys that change: a topic that is older than a rule can be changed in other ways."""
        kind, topic = request.resource
        if kind is not ResourceType.TOPIC:
            return
        kept = {key: text for key, text in request.configs.items() if text is not None}
        for rule in self._rules:
            if rule.is_about(topic):
                changing = {key: bounds for key, bounds in rule.configs.items() if key in request.configs}
                _check_configs(rule, topic, kept, changing, self._static)


def _check_name(rule: Rule, topic: str) -> None:
    if rule.names is not None and not any(pattern.match(topic) for pattern in rule.name_patterns):
        raise PolicyViolationError(f"{rule.where}: the name '{topic}' is like none of {', '.join(rule.names)}")


def _check_number(rule: Rule, topic: str, what: str, value: int, bounds: Bounds) -> None:
    if not bounds.hold(value):
        raise PolicyViolationError(f"{rule.where}: '{topic}' is to have {what} of {bounds}, not {value}")


def _check_configs(
    rule: Rule, topic: str, own: Mapping[str, str], bounds: Mapping[str, Bounds], static: Mapping[str, str]
) -> None:
    """What a topic does not set itself is what the controller's file, or else the default, says."""
    layers = ((ConfigSource.STATIC_BROKER, static),)
    for key, bound in bounds.items():
        text = topic_text(own, layers, key)
        if text is not None and not _holds(ALL_TOPIC_CONFIGS[key], bound, text):
            default = "" if key in own else ", its default"
            raise PolicyViolationError(f"{rule.where}: {key} of '{topic}' is to be {bound}, not {text}{default}")


def _holds(definition: ConfigDefinition, bound: Bounds, text: str) -> bool:
    value = parse_value(definition, text)
    if bound.allowed is not None:
        items = value if isinstance(value, tuple) else (text.strip(),)
        return all(item in bound.allowed for item in items)
    number = float(value) if isinstance(value, int | float) else 0.0
    return bound.hold(inf if number == -1 and definition.name in _NO_LIMIT else number)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_rules(key: str, path: str) -> list[Rule]:
    """Raises KafkaError INVALID_CONFIG that names `key`, the file, the rule, and what is allowed."""
    try:
        with Path(path).open("rb") as file:
            return list(_rules(file.read(MAX_BYTES + 1)))
    except OSError as error:
        problem = f"it cannot be read ({error.strerror}): the user that the node runs as needs to read it"
    except ValueError as error:
        problem = f"{error}; the format is in docs/policies.md"
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key}={path}: {problem}")


def _rules(data: bytes) -> Iterator[Rule]:
    for where, table in rule_tables(data, KEYS, most_bytes=MAX_BYTES):
        names, description = _texts(where, table, "names"), table.get("description")
        configs = table.get("configs", {})
        if not isinstance(configs, dict):
            raise ValueError(f'{where}: configs is a table: configs."retention.ms" = {{ max = 604800000 }}')
        yield Rule(
            where=f"{where} ({description})" if description else where,
            topics=_patterns(_texts(where, table, "topics") or ("*",)),
            names=names,
            name_patterns=_patterns(names or ()),
            partitions=_numbers(f"{where}: partitions", table.get("partitions", {}), floor=1),
            replicas=_numbers(f"{where}: replicas", table.get("replicas", {}), floor=1),
            configs={name: _bounds(where, name, value) for name, value in configs.items()},
        )


def _texts(where: str, table: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    found = table.get(key)
    texts = [found] if isinstance(found, str) else found
    if texts is None:
        return None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f'{where}: {key} is a pattern such as "orders.*", or a list of some')
    return tuple(texts)


def _patterns(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(translate(text)) for text in texts)


def _bounds(where: str, name: str, table: Any) -> Bounds:
    definition = ALL_TOPIC_CONFIGS.get(name)
    if definition is None:
        near = nearest_key(name, ALL_TOPIC_CONFIGS)
        hint = f"did you mean {near}?" if near else 'keys with dots stand in quotes: configs."retention.ms"'
        raise ValueError(f"{where}: topics have no config {name}; {hint}")
    if definition.type in _NUMBERS:
        return _numbers(f"{where}: {name}", table, floor=0 if name in _NO_LIMIT else -inf)
    if isinstance(table, dict):
        check_keys(f"{where}: {name}", table, ("allowed",))
        allowed = _texts(f"{where}: {name}", table, "allowed")
        if allowed is not None:
            return Bounds(allowed=_checked(where, definition, allowed))
    raise ValueError(f'{where}: {name} holds no number: write {{ allowed = ["…"] }}')


def _checked(where: str, definition: ConfigDefinition, allowed: tuple[str, ...]) -> tuple[str, ...]:
    for text in allowed:
        try:
            parse_value(definition, text)
        except ConfigError as error:
            raise ValueError(f"{where}: {error}") from None
    return allowed


def _numbers(where: str, table: Any, *, floor: float) -> Bounds:
    if not isinstance(table, dict):
        raise ValueError(f"{where} is {{ min = …, max = … }}, or one of them")
    check_keys(where, table, ("min", "max"))
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where}: {key} is a number, not {value!r}")
        if value < floor:
            raise ValueError(f"{where}: {key} is at least {floor}, not {value}; where there is no limit, leave it out")
    bounds = Bounds(table.get("min", -inf), table.get("max", inf))
    if bounds.least > bounds.most:
        raise ValueError(f"{where}: min {bounds.least} is more than max {bounds.most}")
    return bounds
