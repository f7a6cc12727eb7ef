"""The transforms of a connector in their order, and predicates that say to which records one applies.

A user's predicate is named as `module:Class`, is made without arguments, and has `configure(config)` and
`test(record)`.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from penstock.work.connect.api import Record
from penstock.work.connect.config import ConfigError, ConfigKey, with_prefix
from penstock.work.connect.plugins import VERSION, PluginError, find_class
from penstock.work.connect.transforms import (
    Cast,
    Configured,
    DropHeaders,
    ExtractField,
    Filter,
    Flatten,
    HeaderFrom,
    HoistField,
    InsertField,
    InsertHeader,
    MaskField,
    OfKeyOrValue,
    RegexRouter,
    ReplaceField,
    SetSchemaMetadata,
    TimestampConverter,
    TimestampRouter,
    Transform,
    ValueToKey,
)

PACKAGE: Final = "org.apache.kafka.connect.transforms"


class Predicate(Protocol):
    def configure(self, config: Mapping[str, str]) -> None: ...

    def test(self, record: Record) -> bool: ...


class TopicNameMatches(Configured):
    """Whether the whole name of the topic matches."""

    keys = (ConfigKey("pattern", required=True, documentation="what the whole name matches"),)

    def test(self, record: Record) -> bool:
        return re.fullmatch(self.settings["pattern"], record.topic) is not None


class HasHeaderKey(Configured):
    keys = (ConfigKey("name", required=True, documentation="its name"),)

    def test(self, record: Record) -> bool:
        return any(name == self.settings["name"] for name, _ in record.headers)


class RecordIsTombstone(Configured):
    def test(self, record: Record) -> bool:
        return record.value is None


def _both(kind: type[OfKeyOrValue]) -> dict[str, type[Any]]:
    return {
        f"{PACKAGE}.{kind.__name__}${part.capitalize()}": type(kind.__name__, (kind,), {"part": part})
        for part in ("key", "value")
    }


TRANSFORMS: Final[Mapping[str, type[Any]]] = {
    **{
        f"{PACKAGE}.{kind.__name__}": kind
        for kind in (ValueToKey, RegexRouter, TimestampRouter, Filter, InsertHeader, DropHeaders)
    },
    **{
        name: made
        for kind in (
            InsertField,
            ReplaceField,
            MaskField,
            HoistField,
            ExtractField,
            Flatten,
            Cast,
            TimestampConverter,
            HeaderFrom,
            SetSchemaMetadata,
        )
        for name, made in _both(kind).items()
    },
}
PREDICATES: Final[Mapping[str, type[Any]]] = {
    f"{PACKAGE}.predicates.{kind.__name__}": kind for kind in (TopicNameMatches, HasHeaderKey, RecordIsTombstone)
}
NEGATE: Final = ConfigKey("negate", "boolean", False, "Whether it applies to the other records.")
_OF_EACH: Final = (
    ConfigKey("type", "class", required=True, documentation="which one it is", importance="high"),
    ConfigKey(VERSION, documentation="The version that it must have."),
)
NAMED: Final[Mapping[str, tuple[Mapping[str, type[Any]], str, tuple[ConfigKey, ...]]]] = {
    "transforms": (
        TRANSFORMS,
        "transform",
        (ConfigKey("predicate", default="", documentation="Which records it applies to: a predicate's name."), NEGATE),
    ),
    "predicates": (PREDICATES, "predicate", ()),
}

Step = Callable[[Record], Record | None]


def chain_of(config: Mapping[str, str]) -> list[tuple[str, Step]]:
    """In order, with their names; ConfigError, PluginError."""
    names = _names(config, "transforms")
    predicates = {name: _predicate(config, name) for name in _names(config, "predicates")}
    return [(name, _step(with_prefix(config, f"transforms.{name}."), name, predicates)) for name in names]


def is_built_in(config: Mapping[str, str]) -> bool:
    """PluginError."""
    return all(
        find_class(config.get(f"{key}.{name}.type", ""), built_in, kind) in built_in.values()
        for key, (built_in, kind, _) in NAMED.items()
        for name in _names(config, key)
    )


def _names(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    names: tuple[str, ...] = ConfigKey(key, "list", ()).parse(config.get(key))
    if len(set(names)) < len(names):
        raise ConfigError({key: [f"{key}={config[key]} names something twice"]})
    return names


def _step(config: Mapping[str, str], name: str, predicates: Mapping[str, Predicate]) -> Step:
    transform: Transform = _made(config, f"transforms.{name}.", TRANSFORMS, "transform")
    wanted = config.get("predicate")
    if wanted is None and "negate" in config:
        key = f"transforms.{name}.negate"
        raise ConfigError({key: [f"{key} needs transforms.{name}.predicate"]})
    if wanted is None:
        return transform.apply
    if wanted not in predicates:
        key = f"transforms.{name}.predicate"
        raise ConfigError({key: [f"{key}={wanted}: the key predicates does not name it"]})
    negate = NEGATE.parse(config.get("negate"))
    return partial(_where, predicates[wanted], negate, transform.apply)


def _where(predicate: Predicate, negate: bool, apply: Step, record: Record) -> Record | None:
    return apply(record) if predicate.test(record) != negate else record


def _predicate(config: Mapping[str, str], name: str) -> Predicate:
    prefix = f"predicates.{name}."
    made: Predicate = _made(with_prefix(config, prefix), prefix, PREDICATES, "predicate")
    return made


def _made(config: Mapping[str, str], prefix: str, built_in: Mapping[str, type[Any]], kind: str) -> Any:
    """ConfigError, PluginError."""
    if "type" not in config:
        raise ConfigError({f"{prefix}type": [f"{prefix}type is missing"]})
    made = find_class(config["type"], built_in, kind, config.get(VERSION))()
    try:
        made.configure(config)
    except ConfigError as error:
        raise ConfigError({f"{prefix}{key}": reasons for key, reasons in error.errors.items()}) from error
    return made


def named_keys(config: Mapping[str, str]) -> list[tuple[str, ConfigKey]]:
    """The keys of each transform and predicate that the configuration names, each with the group it belongs to."""
    found: list[tuple[str, ConfigKey]] = []
    for part, (built_in, kind, of_all) in NAMED.items():
        for name in _names(config, part):
            prefix = f"{part}.{name}."
            keys = (*_OF_EACH, *of_all, *_own_keys(config.get(f"{prefix}type", ""), built_in, kind))
            found += [(f"{part.title()}: {name}", key.replace(name=f"{prefix}{key.name}")) for key in keys]
    return found


def _own_keys(name: str, built_in: Mapping[str, type[Any]], kind: str) -> tuple[ConfigKey, ...]:
    try:
        return tuple(getattr(find_class(name, built_in, kind), "keys", ()))
    except PluginError:
        return ()
