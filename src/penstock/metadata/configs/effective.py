"""Which value holds for a key, where it comes from, and which other values stand behind it.

For a broker key: what was set for this broker while it runs, then what was set for all brokers, then the file, then the
default. For a topic key: what was set for the topic, then the broker keys that stand behind it. The order, the sources
and their numbers are Kafka's (KIP-226, KIP-430).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.definitions import ConfigDefinition, ConfigValue, Definitions, parse_value
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, GROUP_SYNONYMS
from penstock.metadata.configs.listener_keys import PREFIX
from penstock.metadata.configs.topic import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS, TOPIC_SYNONYMS
from penstock.protocol.value import Value


class ConfigSource(IntEnum):
    """Numbered as in the DescribeConfigs response."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(Value):
    """A value that holds, or would hold if those before it were not set. A secret's value is None."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(Value):
    """The value is text. The synonyms are in order of rank; the first gives the source."""

    definition: ConfigDefinition
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[Synonym, ...]


Layers = Sequence[tuple[ConfigSource, Mapping[str, str]]]
"""Highest rank first: for this broker, for all brokers, in the file."""

_BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""Synonyms of other keys. They have none themselves, as in Kafka: they can only be set in the file."""


ALL_TOPIC_CONFIGS: Final[Definitions] = TOPIC_CONFIGS | INTERNAL_TOPIC_CONFIGS
"""With keys that are not shown."""


def listener_texts(layers: Layers, listener: str, begin: str) -> dict[str, str]:
    """The keys with this beginning that are set; those of the listener alone go before those of all."""
    own, every, one = f"{PREFIX}{listener.lower()}.", dict[str, str](), dict[str, str]()
    for _, values in reversed(layers):
        every |= {name: text for name, text in values.items() if name.startswith(begin)}
        one |= {name.removeprefix(own): text for name, text in values.items() if name.startswith(own + begin)}
    return every | one


def broker_text(layers: Layers, name: str) -> str | None:
    """None if the key has neither value nor default."""
    for _, values in layers:
        if name in values:
            return values[name]
    definition = BROKER_CONFIGS.get(name)
    return None if definition is None else definition.default


def topic_text(overrides: Mapping[str, str], layers: Layers, name: str) -> str | None:
    """`overrides` are the topic's own values."""
    if name in overrides:
        return overrides[name]
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        text = broker_text(layers, synonym.name)
        if text is None:
            continue
        if synonym.factor == 1 or "${" in text:  # layers that are shown have references, of which nothing can be made
            return text
        number = int(text)
        return str(number * synonym.factor if number >= 0 else -1)
    definition = ALL_TOPIC_CONFIGS.get(name)
    return None if definition is None else definition.default


def topic_values(overrides: Mapping[str, str], layers: Layers) -> dict[str, ConfigValue]:
    return {
        name: parse_value(definition, topic_text(overrides, layers, name))
        for name, definition in ALL_TOPIC_CONFIGS.items()
    }


def topic_entries(overrides: Mapping[str, str], layers: Layers) -> Iterator[ConfigEntry]:
    shown = TOPIC_CONFIGS | {name: INTERNAL_TOPIC_CONFIGS[name] for name in overrides if name in INTERNAL_TOPIC_CONFIGS}
    for name, definition in shown.items():
        synonyms = _broker_synonyms(tuple(s.name for s in TOPIC_SYNONYMS.get(name, ())), layers)
        yield _entry(definition, overrides, ConfigSource.DYNAMIC_TOPIC, topic_text(overrides, layers, name), synonyms)


def broker_entries(layers: Layers) -> Iterator[ConfigEntry]:
    for name, definition in BROKER_CONFIGS.items():
        synonyms = _broker_synonyms(_BROKER_SYNONYMS.get(name, (name,)), layers)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        value = None if definition.sensitive else broker_text(layers, name)
        yield ConfigEntry(definition, value, source, definition.read_only, synonyms)


def default_broker_entries(values: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """They were set for all brokers while these run."""
    for name, text in sorted(values.items()):
        definition = BROKER_CONFIGS.get(name)
        if definition is not None:
            value = None if definition.sensitive else text
            synonym = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            yield ConfigEntry(definition, value, synonym.source, definition.read_only, (synonym,))


def group_entries(overrides: Mapping[str, str], layers: Layers) -> Iterator[ConfigEntry]:
    for name, definition in GROUP_CONFIGS.items():
        broker_key = GROUP_SYNONYMS.get(name)
        synonyms = _broker_synonyms((broker_key,) if broker_key else (), layers)
        inherited = broker_text(layers, broker_key) if broker_key else definition.default
        text = overrides.get(name, inherited)
        yield _entry(definition, overrides, ConfigSource.GROUP, text, synonyms)


def client_metrics_entries(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Each key, and what it has where nothing is set."""
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        text = overrides.get(name, definition.default)
        yield _entry(definition, overrides, ConfigSource.CLIENT_METRICS, text, ())


def _entry(
    definition: ConfigDefinition,
    overrides: Mapping[str, str],
    source: ConfigSource,
    text: str | None,
    synonyms: tuple[Synonym, ...],
) -> ConfigEntry:
    name = definition.name
    if name in overrides:
        synonyms = (Synonym(name, overrides[name], source), *synonyms)
    found = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(definition, text, found, definition.read_only, synonyms)


def _broker_synonyms(names: tuple[str, ...], layers: Layers) -> tuple[Synonym, ...]:
    found = [
        Synonym(name, _shown(name, values[name]), source)
        for source, values in layers
        for name in names
        if name in values
    ]
    for name in names:
        default = BROKER_CONFIGS[name].default
        if default is not None:
            found.append(Synonym(name, _shown(name, default), ConfigSource.DEFAULT))
    return tuple(found)


def _shown(name: str, text: str) -> str | None:
    return None if BROKER_CONFIGS[name].sensitive else text
