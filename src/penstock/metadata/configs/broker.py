"""Every broker key that Kafka 4 knows, and what became of those that it knew before."""

from collections.abc import Collection

from penstock.metadata.configs.broker_groups import GROUP_COORDINATOR_CONFIGS
from penstock.metadata.configs.broker_log import LOG_CONFIGS
from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigDefinition, nearest_key
from penstock.metadata.configs.listener_keys import OBEYED, PREFIX, listener_key_warning, parse_listener_key
from penstock.metadata.configs.without_effect import why_no_effect

BROKER_CONFIGS: dict[str, ConfigDefinition] = {
    **NETWORK_CONFIGS,
    **LOG_CONFIGS,
    **GROUP_COORDINATOR_CONFIGS,
    **SECURITY_CONFIGS,
}

_REMOVED = (
    "auto.include.jmx.reporter",
    "broker.id.generation.enable",
    "control.plane.listener.name",
    "delegation.token.master.key",
    "eligible.leader.replicas.enable",
    "group.coordinator.new.enable",
    "group.share.enable",
    "group.share.max.groups",
    "inter.broker.protocol.version",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "offsets.commit.required.acks",
    "reserved.broker.max.id",
)
_REMOVED_PREFIXES = ("zookeeper.", "password.encoder.")

OF_PROVIDERS = "config.providers."
_FREE_PREFIXES = (PREFIX, "rsm.config.", "rlmm.config.", "confluent.")
"""Keys of listeners or of classes of the user's: there is no end of their names."""
_FREE_KEY = "keys of classes of the user's are not read yet"
_OF_ONE_LISTENER = "for a single listener this key is not obeyed yet"


def is_free_key(name: str) -> bool:
    """No definition has these keys."""
    return name.startswith((*_FREE_PREFIXES, OF_PROVIDERS))


def key_warning(name: str, value: str, listeners: Collection[str] = ()) -> str | None:
    """One line for users who set `name` to `value` on a node with these listeners; None for no warning."""
    warning = listener_key_warning(name, listeners)
    if warning is not None:
        return warning
    of_listener = parse_listener_key(name, listeners)
    if of_listener is not None:
        is_obeyed = of_listener.key.startswith(OBEYED)
        reason = why_no_effect(of_listener.key) if is_obeyed else _OF_ONE_LISTENER
        return None if reason is None else f"{name} has no effect: {reason}"
    definition = BROKER_CONFIGS.get(name)
    if definition is not None and value == definition.default:
        return None
    if name in _REMOVED or name.startswith(_REMOVED_PREFIXES):
        return f"{name} is no longer known to Kafka 4 and has no effect"
    if definition is not None:
        reason = why_no_effect(name)
        return None if reason is None else f"{name} has no effect: {reason}"
    if name.startswith(OF_PROVIDERS):
        return None
    if is_free_key(name):
        return f"{name} has no effect: {_FREE_KEY}"
    nearest = nearest_key(name, BROKER_CONFIGS)
    return f"unknown key {name}" + (f"; did you mean {nearest}?" if nearest else "; it has no effect")
