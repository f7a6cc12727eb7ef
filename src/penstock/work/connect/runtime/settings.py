"""The keys that all workers understand, whether they share connectors or not."""

from typing import Final

from penstock.work.connect import providers
from penstock.work.connect.config import ConfigKey

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
    ConfigKey("task.shutdown.graceful.timeout.ms", "long", 5_000, "How long tasks may take to end.", least=0),
    ConfigKey("listeners", "list", ("http://127.0.0.1:8083",), "Where the REST interface listens."),
    ConfigKey("rest.advertised.host.name", documentation="How other workers reach it."),
    ConfigKey("rest.advertised.port", "int", None, "How other workers reach it."),
    ConfigKey(
        "rest.allowed.hosts", "list", (), "Further names by which it may be asked, * for any and in parts of names."
    ),
    ConfigKey("access.control.allow.origin", "list", (), "Whose web pages may ask, * for any and in parts of names."),
    ConfigKey("access.control.allow.methods", "list", (), "What these may do; GET,POST,HEAD, if nothing is named."),
    ConfigKey("topic.tracking.enable", "boolean", True, "Whether it is kept which topics a connector uses."),
    ConfigKey("topic.tracking.allow.reset", "boolean", True, "Whether that may be forgotten on request."),
)
