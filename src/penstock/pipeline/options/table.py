"""The options of `format("penstock")`: named as the JVM connector names them, each with and without `kafka.` before it.

An option that is not known is an error that names the nearest known one. Names are compared without regard to case, as
Spark hands them over in lower case.
"""

import difflib
from collections.abc import Mapping
from typing import NoReturn

from penstock.client.blocking import ClusterSettings
from penstock.client.security import KNOWN as SECURITY_OPTIONS
from penstock.client.security import PLAINTEXT, PROTOCOLS, WITH_SASL, Security
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.values import boolean, number
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.value import Value

PREFIX = "kafka."


class OptionText(Value):
    """An option in `docs/spark.md`: its default in words, and what it does."""

    default: str
    meaning: str


SOURCE_OPTIONS = {
    "subscribe": OptionText("", "Topics, with commas between them. One of the three ways to say what to read."),
    "subscribePattern": OptionText(
        "", "A regular expression in Java's syntax that is found somewhere in the name of a topic, as in Spark."
    ),
    "assign": OptionText("", 'Partitions as JSON: `{"clicks": [0, 1]}`.'),
    "startingOffsets": OptionText(
        "batch: `earliest`, stream: `latest`",
        "`earliest`, `latest`, `committed` (of `kafka.group.id`), or JSON with an offset for each partition: "
        '`{"clicks": {"0": 23, "1": -2}}`; -2 is earliest, -1 latest. A stream with a checkpoint goes on from that.',
    ),
    "startingTimestamp": OptionText("", "Milliseconds since 1970 where all partitions start."),
    "startingOffsetsByTimestamp": OptionText("", "The same for each partition, as JSON."),
    "startingOffsetsByTimestampStrategy": OptionText(
        "`error`", "Where no record is as new as the timestamp: fail, or start at the end (`latest`)."
    ),
    "endingOffsets": OptionText("`latest`", "Where a batch query ends: `latest` or JSON."),
    "endingTimestamp": OptionText("", "Milliseconds since 1970 where all partitions of a batch query end."),
    "endingOffsetsByTimestamp": OptionText("", "The same for each partition, as JSON."),
    "failOnDataLoss": OptionText("`true`", "Whether a query fails when records it should read are gone."),
    "maxOffsetsPerTrigger": OptionText("no limit", "The most records of one micro-batch."),
    "minOffsetsPerTrigger": OptionText("no limit", "Fewer records than this wait for more, up to `maxTriggerDelay`."),
    "maxTriggerDelay": OptionText("`15m`", "How long `minOffsetsPerTrigger` may hold records back."),
    "maxBytesPerTrigger": OptionText(
        "`512m`; none with `maxOffsetsPerTrigger`", "About how many bytes one micro-batch reads at most."
    ),
    "minPartitions": OptionText("one for 256 records up to 32", "At least so many tasks; large ranges are cut."),
    "maxRecordsPerPartition": OptionText("no limit", "The most records of one task; larger ranges are cut."),
    "maxPartitionsPerTask": OptionText(
        "no limit",
        "How many partitions may share a task. Those of few records do, and with more than 32 tasks those of less than "
        "10,000; 1 gives each partition a task, as Spark does.",
    ),
    "includeHeaders": OptionText("`false`", "Whether there is a column `headers`."),
    "commitOffsets": OptionText(
        "`true`", "Whether a stream with `kafka.group.id` commits its offsets to that group, for lag monitors to see."
    ),
    "fetchOffset.numRetries": OptionText(
        "`3`, if only the next is set",
        "Times the next option: how long a call is tried again, unless `kafka.default.api.timeout.ms` is set.",
    ),
    "fetchOffset.retryIntervalMs": OptionText("`1000`, if only the other is set", "See there."),
    "sharedFetches": OptionText(
        "none",
        "A directory, of this machine, where streams that read the same topics share what they fetch, up to 1 GiB. "
        "`penstock pipeline` has one for a pipeline of several sinks.",
    ),
    "kafkaConsumer.pollTimeoutMs": OptionText("`120000`", "How long a task waits for records that must be there."),
}
SINK_OPTIONS = {
    "topic": OptionText("", "Where all rows go. Without it, the column `topic` says it row by row."),
    "penstock.sink.delivery": OptionText(
        "`at-least-once`", "`exactly-once`: a batch that runs again is not written again ([how](#exactly-once))."
    ),
    "penstock.sink.id": OptionText(
        "none", "With `exactly-once`, the name of a batch write: one of this name is written once, whatever runs again."
    ),
    "penstock.sink.decisions.topic": OptionText(
        "`penstock-sink-decisions`", "With `exactly-once`, where it is written down what is decided about batches."
    ),
}
CLIENT_OPTIONS = {
    "bootstrap.servers": OptionText("required", "`host:port`, with commas between several."),
    "client.id": OptionText("`penstock`", "What the cluster's logs call the client."),
    "group.id": OptionText("", "Whose offsets are read by `startingOffsets=committed`, and committed to by a stream."),
    "isolation.level": OptionText("`read_uncommitted`", "Whether records of open and aborted transactions are read."),
    "request.timeout.ms": OptionText("`30000`", "How long one request may take."),
    "default.api.timeout.ms": OptionText("`60000`", "How long a call is tried again."),
    "socket.connection.setup.timeout.ms": OptionText("`10000`", "How long a connection may take to open."),
    "max.partition.fetch.bytes": OptionText("`4194304`", "Bytes of one fetch."),
    "acks": OptionText("`all`", "`all` or `1`: what a write waits for."),
    "enable.idempotence": OptionText("`true` with acks `all`", "Whether a write tried again is stored only once."),
    "compression.type": OptionText("`none`", "Codec of what is written: none, gzip, snappy, lz4, zstd."),
    "batch.size": OptionText("`1000000`", "Bytes of one batch, before compression."),
    "delivery.timeout.ms": OptionText("`120000`", "How long a write is tried again."),
    "transaction.timeout.ms": OptionText(
        "`900000`",
        "With `exactly-once`, how long a cluster without two-phase commit keeps what tasks have written uncommitted; "
        "two minutes of it, or half, are for the decision.",
    ),
    "security.protocol": OptionText(
        "`PLAINTEXT`",
        "`SSL` for a listener with TLS, with the keys `kafka.ssl.…` of Kafka's clients; `SASL_PLAINTEXT` or `SASL_SSL`"
        " to log in, with `kafka.sasl.mechanism` and `kafka.sasl.jaas.config`, or `kafka.sasl.username` and"
        " `kafka.sasl.password` ([security](security.md)).",
    ),
}
WITHOUT_EFFECT = (
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "buffer.memory", "check.crcs",
    "client.dns.lookup", "client.rack", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "connections.max.idle.ms", "enable.metrics.push", "exclude.internal.topics", "fetch.max.bytes",
    "fetch.max.wait.ms", "fetch.min.bytes", "group.instance.id", "group.protocol", "group.remote.assignor",
    "groupIdPrefix", "heartbeat.interval.ms", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.poll.interval.ms", "max.poll.records", "max.request.size", "metadata.cluster.check.enable",
    "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
)  # fmt: skip
"""Options without effect here (a reader of ours has no group of its own); taken so that moving is easy."""
_BYTES = "keys and values are bytes; change them with functions of the DataFrame"
_PARTITIONS = "a row goes where its column partition says, else where murmur2 of its key says, as in Java"
REFUSED = {
    "auto.offset.reset": "where a query starts, startingOffsets says",
    "enable.auto.commit": "a query commits what it has done; commitOffsets=false switches that off",
    "interceptor.classes": "there are no classes of Java here",
    "key.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "partitioner.class": _PARTITIONS,
    "partitioner.ignore.keys": _PARTITIONS,
    "transactional.id": "tasks have one each with penstock.sink.delivery=exactly-once, and else write no transactions",
    "value.deserializer": _BYTES,
    "value.serializer": _BYTES,
}
"""Options that change results in the Java clients but cannot here, and why."""
SPARK_OPTIONS = (
    "asyncProgressTrackingCheckpointIntervalMs", "asyncProgressTrackingEnabled", "checkpointLocation", "comment",
    "external", "is_managed_location", "location", "outputMode", "owner", "path", "provider", "queryName",
)  # fmt: skip
"""Options that Spark itself adds to a query or a table."""
TABLE_OPTION = "option."
"""Before an option that Spark repeats among the properties of a table."""
SECURITY_PREFIXES = ("security.",)
KNOWN = {
    name.lower(): name
    for name in (*SOURCE_OPTIONS, *SINK_OPTIONS, *CLIENT_OPTIONS, *SECURITY_OPTIONS, *WITHOUT_EFFECT, *SPARK_OPTIONS)
}


class Options(Value):
    values: Mapping[str, str]

    def __repr__(self) -> str:
        """Without values: some are passwords."""
        return f"Options({', '.join(sorted(self.values))})"

    def text(self, name: str) -> str | None:
        return self.values.get(name)

    def number(self, name: str, default: int, at_least: int = 0) -> int:
        """A whole number; an error names the option if it is none."""
        text = self.values.get(name)
        return default if text is None else number(name, text, at_least)

    def boolean(self, name: str, default: bool) -> bool:
        text = self.values.get(name)
        return default if text is None else boolean(name, text)


def known_name(given: str) -> str | None:
    """The option's own name, of one that is written with or without a prefix, in any case."""
    lower = given.lower().removeprefix(TABLE_OPTION)
    return KNOWN.get(lower) or KNOWN.get(lower.removeprefix(PREFIX))


def read_options(given: Mapping[str, str]) -> Options:
    """PipelineError for an option that is unknown or set twice."""
    values: dict[str, str] = {}
    for given_name, value in given.items():
        name = known_name(given_name)
        if name is None:
            _refuse(given_name)
        if values.setdefault(name, value) != value:
            to = "" if name in SECURITY_OPTIONS else f", to {values[name]!r} and to {value!r}"
            raise PipelineError(f"Option {name} is set twice{to}.", option=name)
    protocol = values.get("security.protocol", PLAINTEXT)
    if protocol.upper() not in PROTOCOLS:
        allowed = " and ".join(PROTOCOLS)
        raise PipelineError(
            f"security.protocol={protocol} is not supported yet; only {allowed} are.", option="security.protocol"
        )
    return Options(values)


def _refuse(name: str) -> NoReturn:
    lower = name.lower().removeprefix(PREFIX)
    if lower in REFUSED:
        raise PipelineError(f"Option {name} is not supported: {REFUSED[lower]}.", option=name)
    if lower.startswith(SECURITY_PREFIXES):
        raise PipelineError(f"Option {name} is not supported yet: {' and '.join(PROTOCOLS)} are.", option=name)
    nearest = difflib.get_close_matches(lower, KNOWN, 1)
    hint = f"Did you mean {shown(KNOWN[nearest[0]])}?" if nearest else "docs/spark.md lists its options."
    raise PipelineError(f'format("penstock") has no option {name!r}. {hint}', option=name)


def shown(name: str) -> str:
    """An option as people write it: settings of the client with the prefix."""
    return (
        PREFIX + name
        if name in (*CLIENT_OPTIONS, *SECURITY_OPTIONS) or (name in WITHOUT_EFFECT and "." in name)
        else name
    )


def cluster_settings(options: Options) -> ClusterSettings:
    servers = options.text("bootstrap.servers")
    if not set(options.values).difference(SPARK_OPTIONS):
        raise PipelineError(
            "There are no options. Spark keeps none of a table that CREATE TABLE … USING penstock made: "
            "use CREATE TEMPORARY VIEW … USING penstock OPTIONS (…)."
        )
    if servers is None:
        raise PipelineError("Option kafka.bootstrap.servers is missing; give at least one host:port.")
    try:
        addresses = parse_bootstrap_servers(servers, default_port=None)
    except ValueError as error:
        raise PipelineError(f"Option kafka.bootstrap.servers: {error}.", option="bootstrap.servers") from None
    standard = ClusterSettings(addresses)
    protocol = (options.text("security.protocol") or PLAINTEXT).upper()
    return ClusterSettings(
        addresses,
        client_id=options.text("client.id") or standard.client_id,
        connect_timeout_ms=options.number("socket.connection.setup.timeout.ms", standard.connect_timeout_ms, 1),
        request_timeout_ms=options.number("request.timeout.ms", standard.request_timeout_ms, 1),
        retry_timeout_ms=options.number("default.api.timeout.ms", _retry_timeout_ms(options, standard), 1),
        security_protocol=protocol,
        security=_security(options, protocol),
    )


def _security(options: Options, protocol: str) -> Security:
    security = Security({name: text for name, text in options.values.items() if name in SECURITY_OPTIONS})
    if protocol in WITH_SASL:
        try:
            security.check_credentials()
        except ValueError as error:
            raise PipelineError(f"Log-in: {error}.", option="sasl.mechanism") from None
    return security


def _retry_timeout_ms(options: Options, standard: ClusterSettings) -> int:
    """The JVM connector counts attempts instead of time."""
    if options.text("fetchOffset.numRetries") is None and options.text("fetchOffset.retryIntervalMs") is None:
        return standard.retry_timeout_ms
    return options.number("fetchOffset.numRetries", 3) * options.number("fetchOffset.retryIntervalMs", 1_000)
