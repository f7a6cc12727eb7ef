"""The configuration of one node: every broker key with the value that holds, as typed attributes.

Attributes are Kafka's keys in snake_case with Kafka's defaults (`num.partitions` is `num_partitions`). The addresses
are parsed: `listeners`, `advertised_listeners`, `voters`, `bootstrap_servers`. Keys without an attribute are read with
`value`.

The object stays the same while a node runs: `apply_dynamic` changes those keys that may change, in place, and what was
written in the file is remembered. So read an attribute when it is needed; do not copy it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.metadata.configs.broker import BROKER_CONFIGS, key_warning
from penstock.metadata.configs.broker_rules import (
    Addresses,
    check_cordoned,
    check_rules,
    single_node_warnings,
    with_both_ids,
)
from penstock.metadata.configs.definitions import ConfigValue, parse_value
from penstock.metadata.configs.effective import ConfigSource, Layers, broker_text, listener_texts
from penstock.metadata.configs.listener_keys import parse_listener_key, parse_listener_value
from penstock.metadata.configs.listeners import (
    WITH_SASL,
    WITH_TLS,
    parse_metrics_listener,
    parse_otlp_endpoint,
    parse_otlp_headers,
)
from penstock.metadata.configs.pairs import ADDRESS_LIMITS_KEY, parse_address_limits
from penstock.metadata.configs.protection import (
    AUTHORIZED,
    MODE_KEY,
    NODE_LISTENERS_KEY,
    STANDARD_AUTHORIZER,
    SUPER_USERS_KEY,
    WATCH,
    asks,
    check_early_listeners,
    check_listeners,
    parse_super_users,
    unproven_nodes,
)
from penstock.metadata.configs.settings import BrokerSettings

EMBEDDED_DEFAULTS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dir": "./penstock-data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""They replace a file: one node, on this machine only."""

NO_REFERENCES: Final[Mapping[str, str]] = {}
CLIENTS_KEY: Final = "ssl.client.auth"
JAAS_KEY: Final = "sasl.jaas.config"
REFUSE: Final = "refuse"
"""A value of `leader.lease.on.quorum.loss`."""


def embedded_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """`overrides` go before the embedded defaults; `broker.id` counts as `node.id` there."""
    settings = EMBEDDED_DEFAULTS | dict(overrides)
    if "broker.id" in overrides and "node.id" not in overrides:
        settings["node.id"] = overrides["broker.id"]
    return settings


class BrokerConfig(BrokerSettings, Addresses):
    """Raises ConfigError for a value that its key does not allow, or that contradicts another one."""

    max_connections_per_ip_overrides: dict[str, int]

    def __init__(self, static: Mapping[str, str], references: Mapping[str, str] = NO_REFERENCES) -> None:
        """`static` is the text of the keys, as a file has them; `references` what stands there for those looked up."""
        self.static = with_both_ids(static)
        self._references = references
        self.dynamic: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        for name, text in self.static.items():
            if name in BROKER_CONFIGS:
                parse_value(BROKER_CONFIGS[name], text)
        self._load()
        self.read_addresses(self.static, self.value)
        for name, text in self.static.items():
            parse_listener_value(name, text, self.listener_names)
        check_rules(self.value)
        check_cordoned(self.cordoned_log_dirs, self.log_dirs)
        check_listeners(NODE_LISTENERS_KEY, self.node_listeners, self.listener_names)
        check_early_listeners(self.early_listeners, self.listener_names, self.controller_listener_names)
        self.metrics_address = parse_metrics_listener(self.penstock_metrics_listener)
        self.otlp_endpoint = parse_otlp_endpoint(self.penstock_otlp_endpoint)
        parse_otlp_headers(self.otlp_endpoint, self.penstock_otlp_headers)
        parse_super_users(self.super_users)

    @classmethod
    def embedded(cls, overrides: Mapping[str, str] | None = None) -> "BrokerConfig":
        """A single node needs no file; `overrides` go before the embedded defaults."""
        return cls(embedded_settings(overrides or {}))

    @property
    def layers(self) -> Layers:
        """Highest rank first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    @property
    def shown(self) -> Layers:
        """The layers as they are told: with references in place of what they stand for."""
        *dynamic, (source, static) = self.layers
        return (*dynamic, (source, {**static, **self._references}))

    def text(self, name: str) -> str | None:
        """None if the key has neither value nor default."""
        return broker_text(self.layers, name)

    def value(self, name: str) -> ConfigValue:
        return parse_value(BROKER_CONFIGS[name], self.text(name))

    def apply_dynamic(self, *, broker: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Only keys that may change count. ConfigError for a value that is not allowed; nothing has changed then."""
        changed = _changeable(broker), _changeable(default)
        self.dynamic, self.dynamic_default = changed
        self._load()

    def of_listener(self, listener: str, begin: str) -> dict[str, str]:
        """The keys with this beginning that are set, as text; those of the listener alone go before those of all."""
        return listener_texts(self.layers, listener, begin)

    @property
    def listeners_with_tls(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.listeners if one.security_protocol in WITH_TLS)

    @property
    def ways_with_tls(self) -> tuple[str, ...]:
        """Listeners of other nodes to which this one comes over TLS."""
        return tuple(name for name in self._ways if self.protocol_of(name) in WITH_TLS)

    @property
    def listeners_with_sasl(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.listeners if one.security_protocol in WITH_SASL)

    @property
    def ways_with_sasl(self) -> tuple[str, ...]:
        """Listeners of other nodes on which this one logs in."""
        return tuple(name for name in self._ways if self.protocol_of(name) in WITH_SASL)

    @property
    def _ways(self) -> tuple[str, ...]:
        ways: tuple[str, ...] = ()
        if not self.is_alone or self.penstock_authorizer_audit_topic:  # it is written as clients write
            ways += (self.inter_broker_listener_name,)
        if not self.is_alone:
            ways += self.controller_listener_names[:1]
        return tuple(dict.fromkeys(ways))

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def refuses_without_lease(self) -> bool:
        """Nothing is led here without a lease, and only a controller that surely leads renews brokers' leases."""
        return self.leader_lease_on_quorum_loss == REFUSE

    @property
    def has_authorizer(self) -> bool:
        """Whether access rules are obeyed."""
        return self.authorizer_class_name == STANDARD_AUTHORIZER

    @property
    def node_listeners(self) -> tuple[str, ...]:
        """They are reached by nodes alone."""
        return tuple(name.strip().upper() for name in self.penstock_authorizer_node_listeners)

    @property
    def early_listeners(self) -> tuple[str, ...]:
        """Those of a controller that open before the access rules have been read."""
        text = self.text("early.start.listeners")
        if text is None:
            return self.controller_listener_names
        return tuple(name.strip().upper() for name in text.split(",") if name.strip())

    @property
    def asking(self) -> Mapping[str, str]:
        """What the file sets, without what the authorizer sees to."""
        return {name: text for name, text in self.static.items() if not (self.has_authorizer and name in AUTHORIZED)}

    @property
    def is_alone(self) -> bool:
        """No other node can join this one."""
        return self.is_broker and self.is_controller and not self.controller_listeners

    @property
    def metadata_dir(self) -> str:
        return (self.text("metadata.log.dir") or "").strip() or self.log_dirs[0]

    @property
    def all_dirs(self) -> tuple[str, ...]:
        """The metadata log may have a directory of its own."""
        return tuple(dict.fromkeys([*self.log_dirs, self.metadata_dir]))

    def warnings(self) -> Iterator[str]:
        for name, text in self.static.items():
            warning = key_warning(name, text, self.listener_names)
            if warning is not None and (self.penstock_security_ignored or not asks(name, text)):
                yield warning
        if JAAS_KEY in self.static:
            whole = f"listener.name.clients.plain.{JAAS_KEY}"
            yield f"{JAAS_KEY} has no effect without listener and mechanism, as {whole} has them"
        if self.has_authorizer and self.penstock_authorizer_mode == WATCH:
            yield f"{MODE_KEY}={WATCH}: nothing is refused, access rules only say what would be"
        if self.has_authorizer and not self.is_alone:
            ways = (*([self.inter_broker_listener_name] if self.is_broker else ()), *self.controller_listener_names)
            between = [name for name in ways if not self._asks_who_comes(name)]
            yield from unproven_nodes(between, parse_super_users(self.super_users), self.node_listeners)
        elif self.penstock_security_ignored and self.super_users and not self.has_authorizer:
            yield f"{SUPER_USERS_KEY} has no effect without an authorizer"
        if self.is_alone:
            yield from single_node_warnings(self.static, self.value)

    def _asks_who_comes(self, listener: str) -> bool:
        protocol, wants = self.protocol_of(listener), self.of_listener(listener, CLIENTS_KEY).get(CLIENTS_KEY, "")
        return protocol in WITH_SASL or (protocol == "SSL" and wants.strip() == "required")

    def _load(self) -> None:
        for attribute, name in BrokerSettings.attributes():
            setattr(self, attribute, self.value(name))
        self.max_connections_per_ip_overrides = parse_address_limits(self.text(ADDRESS_LIMITS_KEY) or "")


def _changeable(values: Mapping[str, str]) -> dict[str, str]:
    """The values are checked."""
    kept = dict[str, str]()
    for name, text in values.items():
        of_listener = parse_listener_key(name)
        definition = BROKER_CONFIGS.get(name) if of_listener is None else of_listener.definition
        if definition is not None and not definition.read_only:
            parse_value(definition.replace(name=name), text)
            kept[name] = text
    parse_address_limits(kept.get(ADDRESS_LIMITS_KEY, ""))
    return kept
