"""What may be set for a resource while the cluster runs: its keys, their values, and what they must fulfil together.

A refusal is a `ConfigError`. Broker keys that only a restart changes cannot be set here, and those that belong to one
broker cannot be set for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.metadata.configs.broker import BROKER_CONFIGS, is_free_key
from penstock.metadata.configs.definitions import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    ConfigValue,
    Definitions,
    UpdateMode,
    is_true,
    nearest_key,
    parse_value,
)
from penstock.metadata.configs.effective import ALL_TOPIC_CONFIGS, Layers, broker_text, topic_values
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from penstock.metadata.configs.listener_keys import parse_listener_key
from penstock.metadata.configs.pairs import (
    ADDRESS_LIMITS_KEY,
    PINNED_LEADERS_KEY,
    parse_address_limits,
    parse_pinned_leaders,
)
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.replication_mode import CONSENSUS, REPLICATION_MODE, STORAGE_GROUP
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.internal_topics import is_internal

if TYPE_CHECKING:
    from penstock.protocol.expressions.matcher import Matcher

Settings = Mapping[str, str]
LONGEST_VALUE: Final = 32_767
"""Bytes that a string has room for in every version of a request."""
_THROTTLED = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


class UnknownKeyError(ConfigError):
    def __init__(self, key: str, kind: str, nearest: str | None) -> None:
        """`nearest` is the known key that looks most like it. The value may be a password, and is not told."""
        super().__init__(key, None, f"a key that a {kind} has")
        hint = f"; did you mean {nearest}?" if nearest else ""
        self.args = (f"{key}: no key of a {kind} is called so, and its value goes nowhere{hint}",)


def definition_of(resource: ConfigResource, key: str) -> ConfigDefinition | None:
    return _KINDS[resource.resource_type].keys.get(key)


def is_sensitive(kind: int, key: str) -> bool:
    """Whether a value never leaves the nodes; so, as in Kafka, if the key is not known: it may be a plugin's."""
    of_listener = parse_listener_key(key) if kind == ResourceType.BROKER else None
    known = _KINDS[ResourceType(kind)].keys if kind in _KINDS else {}
    definition = known.get(key) if of_listener is None else of_listener.definition
    return definition is None or definition.sensitive


def is_list(resource: ConfigResource, key: str) -> bool:
    """One can append to it."""
    definition = definition_of(resource, key)
    return definition is not None and definition.type is ConfigType.LIST


def check_settings(resource: ConfigResource, settings: Settings, layers: Layers) -> None:
    """`layers` are the broker keys behind the resource. Raises ConfigError for an unknown key, one that cannot be set
    here, or a value that is not allowed.
    """
    for key, text in settings.items():
        definition = definition_of(resource, key)
        if definition is not None:
            parse_value(definition, text)
        elif not (resource.resource_type is ResourceType.BROKER and is_free_key(key)):
            raise _unknown(resource, key)
    _KINDS[resource.resource_type].check(resource, settings, layers)


def _unknown(resource: ConfigResource, key: str) -> ConfigError:
    kind = _KINDS[resource.resource_type]
    return UnknownKeyError(key, kind.name, nearest_key(key, kind.keys))


def check_change(resource: ConfigResource, key: str, text: str) -> None:
    """Raises ConfigError for a new value that is too long, or wrong for a listener. Older values may be such."""
    size = len(text.encode())
    if size > LONGEST_VALUE:  # by APPEND alone: a request has no longer string
        raise ConfigError(key, f"[{size:,} bytes]", f"a value of at most {LONGEST_VALUE:,} bytes")
    if resource.resource_type is not ResourceType.BROKER:
        return
    of_listener = parse_listener_key(key)
    if of_listener is None:
        return
    if of_listener.definition is not None:
        parse_value(of_listener.definition.replace(name=key), text)
    elif of_listener.nearest is not None:
        raise UnknownKeyError(key, "listener", of_listener.nearest)


def _check_topic(resource: ConfigResource, settings: Settings, layers: Layers) -> None:
    values = topic_values(settings, layers)
    _at_most(settings, values, "min.compaction.lag.ms", "max.compaction.lag.ms")
    if values["remote.storage.enable"] and not is_true(broker_text(layers, "remote.log.storage.system.enable")):
        raise ConfigError("remote.storage.enable", "true", "false, because the brokers have no tiered storage")
    for key in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        items = values[key]
        assert isinstance(items, tuple)
        if items not in ((), ("*",)) and not all(_THROTTLED.fullmatch(item) for item in items):
            raise ConfigError(key, settings.get(key), "partition:broker pairs with commas between, or * for all")
    if values[DELAY_ENABLE]:
        _check_delay(resource, settings, values)
    if values[REPLICATION_MODE] == CONSENSUS:
        _check_consensus(settings, values)
    elif STORAGE_GROUP in settings:
        allowed = f"none but for a topic with {REPLICATION_MODE}={CONSENSUS}"
        raise ConfigError(STORAGE_GROUP, settings[STORAGE_GROUP], allowed)


def _check_delay(resource: ConfigResource, settings: Settings, values: Mapping[str, ConfigValue]) -> None:
    if is_internal(resource.name):
        raise ConfigError(DELAY_ENABLE, "true", f"false for {resource.name}, which the cluster itself reads")
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    if "compact" in policy:
        allowed = f"delete where {DELAY_ENABLE} is on: a record that waited would go before newer ones of its key"
        raise ConfigError("cleanup.policy", ",".join(policy), allowed)
    _at_most(settings, values, "penstock.delay.ms", "penstock.delay.max.ms")


def _check_consensus(settings: Settings, values: Mapping[str, ConfigValue]) -> None:
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    if "compact" in policy:
        raise ConfigError("cleanup.policy", ",".join(policy), f"delete where {REPLICATION_MODE}={CONSENSUS}")
    if values["unclean.leader.election.enable"] and "unclean.leader.election.enable" in settings:
        allowed = f"false where {REPLICATION_MODE}={CONSENSUS}: who leads has all that was acknowledged"
        raise ConfigError("unclean.leader.election.enable", "true", allowed)
    if "min.insync.replicas" in settings:
        allowed = f"no value where {REPLICATION_MODE}={CONSENSUS}: a majority of the replicas has each record"
        raise ConfigError("min.insync.replicas", settings["min.insync.replicas"], allowed)


def _check_broker(resource: ConfigResource, settings: Settings, layers: Layers) -> None:
    for key, text in settings.items():
        definition = BROKER_CONFIGS.get(key)
        if definition is None:
            continue
        if definition.read_only:
            raise ConfigError(key, definition.shown(text), "a value in the node's file, as only a restart changes it")
        if definition.mode is UpdateMode.PER_BROKER and not resource.name:
            raise ConfigError(key, definition.shown(text), "a value for one broker, not for all")
    parse_address_limits(settings.get(ADDRESS_LIMITS_KEY, ""))
    pinned = settings.get(PINNED_LEADERS_KEY, "")
    parse_pinned_leaders(pinned)
    if pinned and resource.name:
        raise ConfigError(PINNED_LEADERS_KEY, pinned, "a value for all brokers, not for one")


_GROUP_BOUNDS = (
    ("consumer.assignment.interval.ms", "group.consumer.{}.assignment.interval.ms"),
    ("consumer.heartbeat.interval.ms", "group.consumer.{}.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", "group.consumer.{}.session.timeout.ms"),
    ("share.delivery.count.limit", "group.share.{}.delivery.count.limit"),
    ("share.heartbeat.interval.ms", "group.share.{}.heartbeat.interval.ms"),
    ("share.partition.max.record.locks", "group.share.{}.partition.max.record.locks"),
    ("share.record.lock.duration.ms", "group.share.{}.record.lock.duration.ms"),
    ("share.session.timeout.ms", "group.share.{}.session.timeout.ms"),
    ("streams.heartbeat.interval.ms", "group.streams.{}.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "group.streams.{}.session.timeout.ms"),
)


def _check_group(resource: ConfigResource, settings: Settings, layers: Layers) -> None:
    for key, bounds in _GROUP_BOUNDS:
        if key not in settings:
            continue
        lower, upper = (int(broker_text(layers, bounds.format(end)) or 0) for end in ("min", "max"))
        if not lower <= int(settings[key]) <= upper:
            allowed = f"{lower} to {upper}, by {bounds.format('min')} and {bounds.format('max')}"
            raise ConfigError(key, settings[key], allowed)
    letters = settings.get(DEAD_LETTERS_KEY, "")
    if letters.startswith("__"):
        raise ConfigError(DEAD_LETTERS_KEY, letters, "a name that does not begin with __, as those of the cluster do")
    reset = settings.get(SHARE_RESET_KEY, "latest")
    if not _SHARE_RESET.fullmatch(reset):
        raise ConfigError(SHARE_RESET_KEY, reset, "latest, earliest or by_duration:<ISO 8601 duration>, say P1D")


DEAD_LETTERS_KEY: Final = "errors.deadletterqueue.topic.name"
SHARE_RESET_KEY: Final = "share.auto.offset.reset"
_SHARE_RESET: Final = re.compile(
    r"latest|earliest|by_duration:P(?!$)(#D)?(T(?=[0-9])(#H)?(#M)?(#(\.[0-9]{1,9})?S)?)?".replace("#", "[0-9]{1,10}"),
    re.IGNORECASE,
)
"""How long ago, as Java writes it, with no more digits than `parse_duration_ms` takes."""


def _check_client_metrics(resource: ConfigResource, settings: Settings, layers: Layers) -> None:
    for pair in filter(None, settings.get("match", "").split(",")):
        selector, separator, pattern = (part.strip() for part in pair.partition("="))
        if not separator or selector not in _SELECTORS or not _is_pattern(pattern):
            raise ConfigError("match", pair, f"selector=pattern pairs, a selector being one of {', '.join(_SELECTORS)}")


MOST_STATES: Final = 300
"""Of a pattern: letters, more or less."""
_SELECTORS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def match_pattern(text: str) -> Matcher:
    """That of a selector, on which a loop waits. Raises ExpressionError, a ValueError."""
    from penstock.protocol.expressions.matcher import Matcher  # few ask for metrics of clients

    return Matcher(text, most_states=MOST_STATES, most_work=math.inf)


def _is_pattern(text: str) -> bool:
    try:
        match_pattern(text)
    except ValueError:
        return False
    return True


def _at_most(settings: Settings, values: Mapping[str, ConfigValue], smaller: str, larger: str) -> None:
    low, high = values[smaller], values[larger]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        key = smaller if smaller in settings else larger
        raise ConfigError(key, settings.get(key), f"{smaller} of at most {larger}; they are {low} and {high}")


class _Kind(NamedTuple):
    keys: Definitions
    name: str
    check: Callable[[ConfigResource, Settings, Layers], None]


_KINDS: Final = {
    ResourceType.TOPIC: _Kind(ALL_TOPIC_CONFIGS, "topic", _check_topic),
    ResourceType.BROKER: _Kind(BROKER_CONFIGS, "broker", _check_broker),
    ResourceType.GROUP: _Kind(GROUP_CONFIGS, "group", _check_group),
    ResourceType.CLIENT_METRICS: _Kind(CLIENT_METRICS_CONFIGS, "client metrics subscription", _check_client_metrics),
}
