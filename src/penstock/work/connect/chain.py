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
from penstock.work.connect.plugins import find_class
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

Step = Callable[[Record], Record | None]


def chain_of(config: Mapping[str, str]) -> list[tuple[str, Step]]:
    """In order, with their names; ConfigError, PluginError."""
    names = _names(config, "transforms")
    predicates = {name: _predicate(config, name) for name in _names(config, "predicates")}
    return [(name, _step(with_prefix(config, f"transforms.{name}."), name, predicates)) for name in names]


def is_built_in(config: Mapping[str, str]) -> bool:
    """PluginError."""
    kinds = {"transforms": (TRANSFORMS, "transform"), "predicates": (PREDICATES, "predicate")}
    return all(
        find_class(config.get(f"{key}.{name}.type", ""), built_in, kind) in built_in.values()
        for key, (built_in, kind) in kinds.items()
        for name in _names(config, key)
    )


def _names(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    names: tuple[str, ...] = ConfigKey(key, "list", ()).parse(config.get(key))
    if len(set(names)) < len(names):
        raise ConfigError({key: [f"{key}={config[key]} names something twice"]})
    return names


def _step(config: Mapping[str, str], name: str, predicates: Mapping[str, Predicate]) -> Step:
    if "type" not in config:
        raise ConfigError({f"transforms.{name}.type": [f"transforms.{name}.type is missing"]})
    transform: Transform = find_class(config["type"], TRANSFORMS, "transform")()
    transform.configure(config)
    wanted = config.get("predicate")
    if wanted is None and "negate" in config:
        key = f"transforms.{name}.negate"
        raise ConfigError({key: [f"{key} needs transforms.{name}.predicate"]})
    if wanted is None:
        return transform.apply
    if wanted not in predicates:
        key = f"transforms.{name}.predicate"
        raise ConfigError({key: [f"{key}={wanted}: the key predicates does not name it"]})
    negate = ConfigKey("negate", "boolean", False).parse(config.get("negate"))
    return partial(_where, predicates[wanted], negate, transform.apply)


def _where(predicate: Predicate, negate: bool, apply: Step, record: Record) -> Record | None:
    return apply(record) if predicate.test(record) != negate else record


def _predicate(config: Mapping[str, str], name: str) -> Predicate:
    mine = with_prefix(config, f"predicates.{name}.")
    if "type" not in mine:
        raise ConfigError({f"predicates.{name}.type": [f"predicates.{name}.type is missing"]})
    predicate: Predicate = find_class(mine["type"], PREDICATES, "predicate")()
    predicate.configure(mine)
    return predicate
