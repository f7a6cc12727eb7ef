"""The options of `format("penstock")`: named as the JVM connector names them, each with and without `kafka.` before it.

An option that is not known is an error that lists the known ones. Names are compared without regard to case, as Spark
hands them over in lower case.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from penstock.client.blocking import ClusterSettings
from penstock.client.blocking_connection import parse_addresses
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.option_values import boolean, number

PREFIX = "kafka."

SOURCE_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "commitOffsets",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)
SINK_OPTIONS = ("topic",)
CLIENT_OPTIONS = (
    "bootstrap.servers",
    "client.id",
    "group.id",
    "isolation.level",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "max.partition.fetch.bytes",
    "acks",
    "enable.idempotence",
    "compression.type",
    "batch.size",
    "delivery.timeout.ms",
    "security.protocol",
)
WITHOUT_EFFECT = (
    "auto.commit.interval.ms",
    "buffer.memory",
    "enable.auto.commit",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "groupIdPrefix",
    "heartbeat.interval.ms",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.ms",
    "session.timeout.ms",
)
"""What has nothing to act on here (a reader of ours has no group of its own); taken so that moving is easy."""
SPARK_OPTIONS = (
    "asyncProgressTrackingCheckpointIntervalMs",
    "asyncProgressTrackingEnabled",
    "checkpointLocation",
    "outputMode",
    "path",
    "queryName",
)
"""What Spark itself puts among the options of a query."""
SECURITY_PREFIXES = ("sasl.", "ssl.", "security.")
KNOWN = {
    name.lower(): name for name in (*SOURCE_OPTIONS, *SINK_OPTIONS, *CLIENT_OPTIONS, *WITHOUT_EFFECT, *SPARK_OPTIONS)
}
PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their proper names, without the prefix."""

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """What was set, None if nothing was."""
        return self.values.get(name)

    def number(self, name: str, default: int, at_least: int = 0) -> int:
        """A whole number; an error names the option if it is none."""
        text = self.values.get(name)
        return default if text is None else number(name, text, at_least)

    def boolean(self, name: str, default: bool) -> bool:
        """`true` or `false`."""
        text = self.values.get(name)
        return default if text is None else boolean(name, text)


def read_options(given: Mapping[str, str]) -> Options:
    """Check the names of all options; PipelineError for one that nobody knows or that is set twice."""
    values: dict[str, str] = {}
    for given_name, value in given.items():
        lower = given_name.lower()
        name = KNOWN.get(lower) or KNOWN.get(lower.removeprefix(PREFIX))
        if name is None:
            _refuse(given_name)
        if values.setdefault(name, value) != value:
            raise PipelineError(f"Option {name} is set twice, to {values[name]!r} and to {value!r}.")
    protocol = values.get("security.protocol", PLAINTEXT)
    if protocol.upper() != PLAINTEXT:
        raise PipelineError(f"security.protocol={protocol} is not supported yet; only {PLAINTEXT} is.")
    return Options(values)


def _refuse(name: str) -> NoReturn:
    lower = name.lower().removeprefix(PREFIX)
    if lower.startswith(SECURITY_PREFIXES):
        raise PipelineError(f"Option {name} is not supported yet: connections are {PLAINTEXT} only.")
    nearest = difflib.get_close_matches(lower, KNOWN, 1)
    hint = f" Did you mean {shown(KNOWN[nearest[0]])}?" if nearest else ""
    known = ", ".join(shown(item) for item in (*SOURCE_OPTIONS, *SINK_OPTIONS, *CLIENT_OPTIONS))
    raise PipelineError(f'format("penstock") has no option {name!r}.{hint} Its options are: {known}.')


def shown(name: str) -> str:
    """An option as people write it: settings of the client with the prefix."""
    return PREFIX + name if name in CLIENT_OPTIONS else name


def cluster_settings(options: Options) -> ClusterSettings:
    """Whom to connect to."""
    servers = options.text("bootstrap.servers")
    if servers is None:
        raise PipelineError("Option kafka.bootstrap.servers is missing; give at least one host:port.")
    try:
        addresses = parse_addresses(servers)
    except ValueError as error:
        raise PipelineError(f"Option kafka.{error}.") from None
    standard = ClusterSettings(addresses)
    return ClusterSettings(
        addresses,
        client_id=options.text("client.id") or standard.client_id,
        connect_timeout_ms=options.number("socket.connection.setup.timeout.ms", standard.connect_timeout_ms, 1),
        request_timeout_ms=options.number("request.timeout.ms", standard.request_timeout_ms, 1),
        retry_timeout_ms=options.number("default.api.timeout.ms", _retry_timeout_ms(options, standard), 1),
    )


def _retry_timeout_ms(options: Options, standard: ClusterSettings) -> int:
    """The JVM connector counts attempts instead of time."""
    if options.text("fetchOffset.numRetries") is None and options.text("fetchOffset.retryIntervalMs") is None:
        return standard.retry_timeout_ms
    return options.number("fetchOffset.numRetries", 3) * options.number("fetchOffset.retryIntervalMs", 1_000)
