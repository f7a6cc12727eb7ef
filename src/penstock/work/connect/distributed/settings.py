"""The keys of Kafka's `connect-distributed.properties`."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix
from penstock.work.connect.runtime import settings as of_all
from penstock.work.connect.runtime.needs import OF_A_WORKER
from penstock.work.connect.runtime.session_keys import BITS
from penstock.work.plan import Planner, even, sticky, weighted

_PLANNERS: Final[Mapping[str, Planner]] = {"even": even, "sticky": sticky, "weighted": weighted}
DISABLED: Final = "disabled"
AUTOMATIC: Final = "internal.topics.automatic.creation.enable"
STORES: Final = ("config", "offset", "status")
_COMPACTED: Final = {"cleanup.policy": "compact"}
KEYS: Final = (
    *of_all.KEYS,
    ConfigKey("group.id", required=True, documentation="what the workers that share connectors have in common"),
    ConfigKey("config.storage.topic", required=True, documentation="the topic that has connectors and their tasks"),
    ConfigKey("offset.storage.topic", required=True, documentation="the topic that has how far sources were read"),
    ConfigKey("status.storage.topic", required=True, documentation="the topic that has how connectors and tasks are"),
    ConfigKey(
        "offset.storage.partitions", "int", 25, "Its partitions, if it has to be made; -1: the broker's.", least=-1
    ),
    ConfigKey(
        "status.storage.partitions", "int", 5, "Its partitions, if it has to be made; -1: the broker's.", least=-1
    ),
    *(
        ConfigKey(f"{store}.storage.replication.factor", "int", 3, "Its replicas; -1: the broker's number.", least=-1)
        for store in STORES
    ),
    ConfigKey(AUTOMATIC, "boolean", True, "Whether a worker makes those of the three topics that are missing."),
    ConfigKey("session.timeout.ms", "int", 20_000, "How long a worker may be silent.", least=1),
    ConfigKey("heartbeat.interval.ms", "int", 3_000, "How often it shows that it lives.", least=1),
    ConfigKey("rebalance.timeout.ms", "int", 60_000, "How long all may take to join a generation.", least=1),
    ConfigKey("scheduled.rebalance.max.delay.ms", "int", 0, "How long tasks wait for a worker that has left.", least=0),
    ConfigKey(
        "tasks.planner",
        "string",
        "sticky",
        "How the leader shares tasks out: even, sticky, weighted, or a function of yours, module:function.",
    ),
    *OF_A_WORKER,
    ConfigKey(
        "inter.worker.key.generation.algorithm",
        default="HmacSHA256",
        documentation="Of the keys with which workers sign what they hand on, where they have users.",
        choices=tuple(BITS),
    ),
    ConfigKey("inter.worker.key.size", "int", None, "Their bits; the algorithm's own, if nothing is said.", least=128),
    ConfigKey("inter.worker.key.ttl.ms", "int", 3_600_000, "How long one holds.", least=1_000),
    ConfigKey("inter.worker.signature.algorithm", default="HmacSHA256", documentation="How.", choices=tuple(BITS)),
    ConfigKey(
        "inter.worker.verification.algorithms",
        "list",
        ("HmacSHA256",),
        "How others may have signed; inter.worker.signature.algorithm is one of them.",
    ),
    ConfigKey(
        of_all.TRANSACTIONS,
        default=DISABLED,
        documentation="Whether sources write transactions: in a group that has none, all workers are prepared first.",
        choices=(DISABLED, "preparing", of_all.ENABLED),
        any_case=True,
        importance="high",
    ),
)


class Storage(Value):
    """One of the three topics, as it is created if missing. `is_automatic`: a worker does that by itself."""

    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    is_automatic: bool


def storage_of(store: str, settings: Mapping[str, Any], config: Mapping[str, str]) -> Storage:
    """Further keys such as `offset.storage.min.insync.replicas` become configurations of the topic."""
    own = with_prefix(config, f"{store}.storage.")
    more = {key: value for key, value in own.items() if key not in ("topic", "partitions", "replication.factor")}
    if more.get("cleanup.policy", "compact") != "compact":
        key = f"{store}.storage.cleanup.policy"
        raise ConfigError({key: [f"{key} is compact, whatever else is wanted"]})
    partitions = 1 if store == "config" else settings[f"{store}.storage.partitions"]
    factor = settings[f"{store}.storage.replication.factor"]
    topic = settings[f"{store}.storage.topic"]
    return Storage(topic, partitions, factor, {**more, **_COMPACTED}, settings[AUTOMATIC])


def planner_of(name: str) -> Planner:
    """ConfigError."""
    if name in _PLANNERS:
        return _PLANNERS[name]
    module, _, attribute = name.partition(":")
    try:
        found: Planner = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        reason = f"tasks.planner={name} is none of {', '.join(_PLANNERS)}, and cannot be loaded: {error!r}"
        raise ConfigError({"tasks.planner": [reason]}) from error
    return found


def _check_signatures(settings: Mapping[str, Any]) -> None:
    key, own = "inter.worker.verification.algorithms", settings["inter.worker.signature.algorithm"]
    unknown = [name for name in settings[key] if name not in BITS]
    if unknown:
        raise ConfigError({key: [f"{key} has {', '.join(unknown)}: known are {', '.join(BITS)}"]})
    if own not in settings[key]:
        reason = f"{key} lacks {own}, with which this worker signs (inter.worker.signature.algorithm): add it"
        raise ConfigError({key: [reason]})


def parse_settings(config: Mapping[str, str]) -> dict[str, Any]:
    """ConfigError names everything that is wrong."""
    settings = parse(KEYS, config)
    planner_of(settings["tasks.planner"])
    for store in STORES:
        storage_of(store, settings, config)
    _check_signatures(settings)
    if settings["heartbeat.interval.ms"] >= settings["session.timeout.ms"]:
        key = "heartbeat.interval.ms"
        raise ConfigError({key: [f"{key} must be less than session.timeout.ms, and better a third of it"]})
    return settings
