"""The keys that all workers understand, whether they share connectors or not."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.work.connect import providers
from penstock.work.connect.config import ConfigKey

USERS: Final = "rest.extension.classes"
"""Where it names something, requests have users."""
KEYS: Final = (
    providers.KEY,
    ConfigKey("bootstrap.servers", default="localhost:9092", documentation="Where to reach the cluster."),
    ConfigKey("key.converter", "class", "org.apache.kafka.connect.json.JsonConverter", "What keys are in topics."),
    ConfigKey("value.converter", "class", "org.apache.kafka.connect.json.JsonConverter", "What values are in topics."),
    ConfigKey(
        "header.converter",
        "class",
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "What headers are in topics.",
    ),
    ConfigKey(
        "offset.flush.interval.ms", "long", 60_000, "How often it is written down how far sources were read.", least=1
    ),
    ConfigKey(
        "offset.flush.timeout.ms",
        "long",
        5_000,
        "How long that may take; then it is tried again with the next time.",
        least=1,
    ),
    ConfigKey("task.shutdown.graceful.timeout.ms", "long", 5_000, "How long tasks may take to end.", least=0),
    ConfigKey("listeners", "list", ("http://127.0.0.1:8083",), "Where the REST interface listens."),
    ConfigKey("rest.advertised.host.name", documentation="How other workers reach it."),
    ConfigKey("rest.advertised.port", "int", None, "How other workers reach it."),
    ConfigKey(
        "rest.allowed.hosts", "list", (), "Further names by which it may be asked, * for any and in parts of names."
    ),
    ConfigKey("access.control.allow.origin", "list", (), "Whose web pages may ask, * for any and in parts of names."),
    ConfigKey("access.control.allow.methods", "list", (), "What these may do; GET,POST,HEAD, if nothing is named."),
    ConfigKey(USERS, "list", (), "Kafka's class of basic authentication, and no other."),
    ConfigKey("penstock.rest.basic.auth.file", documentation="Its users: a file with lines of user=password."),
    ConfigKey("penstock.rest.basic.auth.writers", "list", (), "Those who may change something; all, if none is named."),
    ConfigKey(
        "connector.client.config.override.policy",
        "string",
        "All",
        "Which settings of its clients a connector may change.",
        choices=("All", "None", "Principal", "Allowlist"),
    ),
    ConfigKey("connector.client.config.override.allowlist", "list", (), "Those, where the policy is Allowlist."),
    ConfigKey("topic.creation.enable", "boolean", True, "Whether topic.creation.* of sources make topics."),
    ConfigKey("topic.tracking.enable", "boolean", True, "Whether it is kept which topics a connector uses."),
    ConfigKey("topic.tracking.allow.reset", "boolean", True, "Whether that may be forgotten on request."),
)
ENABLED: Final = "enabled"
TRANSACTIONS: Final = "exactly.once.source.support"
OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
_PRINCIPAL: Final = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")


def has_transactions(settings: Mapping[str, Any]) -> bool:
    """Whether sources write transactions on a worker with these settings; one that stands alone has none."""
    return settings.get(TRANSACTIONS) == ENABLED


def refused_offsets(config: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """A worker that keeps how far sources are in a file has it for none of them in a topic."""
    if not config.get("offsets.storage.topic", "").strip() or "offset.storage.topic" in settings:
        return {}
    reason = "this worker keeps how far sources are in its file; leave it out, or let workers share connectors"
    return {"offsets.storage.topic": [f"offsets.storage.topic={config['offsets.storage.topic']}: {reason}"]}


def refused_overrides(config: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What a connector's configuration changes of its clients though the worker forbids it (KIP-458, KIP-1188)."""
    policy = settings["connector.client.config.override.policy"]
    allowed = settings["connector.client.config.override.allowlist"] if policy == "Allowlist" else ()
    allowed = _PRINCIPAL if policy == "Principal" else allowed
    found = {key: key.removeprefix(prefix) for key in config for prefix in OVERRIDES if key.startswith(prefix)}
    reason = f"the worker's connector.client.config.override.policy={policy} does not allow it"
    return {key: [f"{key}: {reason}"] for key, name in found.items() if policy != "All" and name not in allowed}
