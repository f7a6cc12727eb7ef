"""All that a writer must know, from options to values; it goes to the executors."""

from penstock.client.blocking import ClusterSettings
from penstock.client.blocking.produce import ALL_REPLICAS
from penstock.client.blocking.transactions import WITHOUT_TIMEOUT_MS
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.table import Options, cluster_settings
from penstock.pipeline.options.values import choice
from penstock.protocol.compression import Compression
from penstock.protocol.value import Value

BATCH_BYTES = 1_000_000
"""A little below the default of the largest batch that brokers take."""
DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that brokers allow by default."""
LONGEST_TRANSACTION_MS = WITHOUT_TIMEOUT_MS - 1
"""By the next number a cluster tells of a transaction that it keeps until it is decided about."""
DELIVERY = "penstock.sink.delivery"
DELIVERIES = AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
DECISIONS_TOPIC = "penstock-sink-decisions"


class SinkOptions(Value):
    """With `topic` None each row names its topic. `name` is that of a batch write, or of one of a function's writes."""

    settings: ClusterSettings
    topic: str | None
    compression: Compression
    batch_bytes: int
    acks: int
    is_idempotent: bool
    delivery_timeout_ms: int
    is_exactly_once: bool
    name: str
    decisions_topic: str
    transaction_timeout_ms: int


def sink_options(options: Options) -> SinkOptions:
    """PipelineError names the first value that is wrong."""
    codec = choice(
        "kafka.compression.type",
        options.text("compression.type") or "none",
        tuple(item.name.lower() for item in Compression),
    )
    acks = choice("kafka.acks", options.text("acks") or "all", ("all", "-1", "1"))
    waits_for_all = acks != "1"
    is_idempotent = options.boolean("enable.idempotence", waits_for_all)
    if is_idempotent and not waits_for_all:
        raise PipelineError("kafka.enable.idempotence=true needs kafka.acks=all.", option="enable.idempotence")
    delivery = choice(DELIVERY, options.text(DELIVERY) or AT_LEAST_ONCE, DELIVERIES)
    if delivery == EXACTLY_ONCE and not is_idempotent:
        raise PipelineError(
            "penstock.sink.delivery=exactly-once needs kafka.acks=all and kafka.enable.idempotence=true.",
            option=DELIVERY,
        )
    return SinkOptions(
        settings=cluster_settings(options),
        topic=options.text("topic"),
        compression=Compression[codec.upper()],
        batch_bytes=options.number("batch.size", BATCH_BYTES, 1),
        acks=ALL_REPLICAS if waits_for_all else 1,
        is_idempotent=is_idempotent,
        delivery_timeout_ms=options.number("delivery.timeout.ms", DELIVERY_TIMEOUT_MS, 1),
        is_exactly_once=delivery == EXACTLY_ONCE,
        name=options.text("penstock.sink.id") or "",
        decisions_topic=options.text("penstock.sink.decisions.topic") or DECISIONS_TOPIC,
        transaction_timeout_ms=min(
            options.number("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, 1), LONGEST_TRANSACTION_MS
        ),
    )
