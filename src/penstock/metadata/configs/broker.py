"""Every broker key that Kafka 4 knows; what became of those that it knew before; and what has no effect here yet."""

from penstock.metadata.configs.broker_groups import GROUP_COORDINATOR_CONFIGS
from penstock.metadata.configs.broker_log import LOG_CONFIGS
from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigDefinition, nearest_key

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

_NOT_YET_PREFIXES = {
    "ssl.": "TLS is not there yet: only PLAINTEXT listeners are served",
    "sasl.": "SASL is not there yet: only PLAINTEXT listeners are served",
    "delegation.token.": "delegation tokens are not there yet",
    "remote.log.storage.system.enable": "tiered storage is not there yet",
    "authorizer.class.name": "access rules are not there yet: every client may do everything",
    "super.users": "access rules are not there yet: every client may do everything",
    "principal.builder.class": "every client is User:ANONYMOUS for now",
    "client.quota.callback.class": "quotas are not there yet",
    "create.topic.policy.class.name": "policy classes are not there: they would be Java",
    "alter.config.policy.class.name": "policy classes are not there: they would be Java",
    "metric.reporters": "reporters are not there: they would be Java",
    "replica.selector.class": "a replica selector is not there: it would be Java",
    "log.cleaner.": "compaction is not there yet, so compacted topics keep everything",
    "max.connection.creation.rate": "the rate of new connections is not limited yet",
    "controller.quorum.auto.join.enable": "an administrator makes a controller a voter",
    "controller.quorum.append.linger.ms": "what is decided in one turn is written together, without a pause",
    "metadata.max.idle.interval.ms": "an idle quorum writes nothing, and learns what is committed all the same",
    "config.providers": "configuration providers are not there yet: values are taken as they stand",
}

_FREE_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.", "confluent.")
"""Keys that belong to a listener or to a class of the user's: accepted as they are."""


def is_free_key(name: str) -> bool:
    """Tell whether a key is accepted although no definition has it."""
    return name.startswith(_FREE_PREFIXES)


def key_warning(name: str, value: str) -> str | None:
    """Say what a user who sets `name` to `value` should know, in one line; None if there is nothing to say."""
    definition = BROKER_CONFIGS.get(name)
    if definition is not None and value == definition.default:
        return None
    if name in _REMOVED or name.startswith(_REMOVED_PREFIXES):
        return f"{name} is no longer known to Kafka 4 and has no effect"
    for prefix, reason in _NOT_YET_PREFIXES.items():
        if name.startswith(prefix):
            return f"{name} has no effect: {reason}"
    if name in BROKER_CONFIGS or is_free_key(name):
        return None
    nearest = nearest_key(name, BROKER_CONFIGS)
    return f"unknown key {name}" + (f"; did you mean {nearest}?" if nearest else "; it has no effect")
