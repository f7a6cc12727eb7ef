"""All that a writer must know, from options and the schema of the frame to values; it goes to the executors."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.client.blocking import ClusterSettings
from penstock.client.blocking.produce import ALL_REPLICAS
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.table import Options, cluster_settings
from penstock.pipeline.options.values import choice
from penstock.protocol.compression import Compression
from penstock.protocol.value import Value

BATCH_BYTES = 1_000_000
"""A little below the default of the largest batch that brokers take."""
DELIVERY_TIMEOUT_MS = 120_000
TEXT_OR_BYTES = (StringType, BinaryType, NullType)


class SinkOptions(Value):
    """With `topic` None each row names its topic."""

    settings: ClusterSettings
    topic: str | None
    compression: Compression
    batch_bytes: int
    acks: int
    is_idempotent: bool
    delivery_timeout_ms: int


def sink_options(options: Options, schema: StructType) -> SinkOptions:
    """PipelineError names the first value or column that is wrong."""
    topic = options.text("topic")
    _check_columns(schema, topic)
    codec = choice(
        "kafka.compression.type",
        options.text("compression.type") or "none",
        tuple(item.name.lower() for item in Compression),
    )
    acks = choice("kafka.acks", options.text("acks") or "all", ("all", "-1", "1"))
    waits_for_all = acks != "1"
    is_idempotent = options.boolean("enable.idempotence", waits_for_all)
    if is_idempotent and not waits_for_all:
        raise PipelineError("kafka.enable.idempotence=true needs kafka.acks=all.")
    return SinkOptions(
        settings=cluster_settings(options),
        topic=topic,
        compression=Compression[codec.upper()],
        batch_bytes=options.number("batch.size", BATCH_BYTES, 1),
        acks=ALL_REPLICAS if waits_for_all else 1,
        is_idempotent=is_idempotent,
        delivery_timeout_ms=options.number("delivery.timeout.ms", DELIVERY_TIMEOUT_MS, 1),
    )


def _check_columns(schema: StructType, topic: str | None) -> None:
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise PipelineError(
            f"A frame that is written needs a column value; it has {', '.join(types) or 'no columns'}. "
            "Make one, for example with to_json(struct(*)) AS value."
        )
    if topic is None and "topic" not in types:
        raise PipelineError("Say where to write: set the option topic, or add a column topic.")
    expected: dict[str, tuple[type[DataType], ...]] = {
        "key": TEXT_OR_BYTES,
        "value": TEXT_OR_BYTES,
        "topic": (StringType,),
        "partition": (IntegerType, LongType, ShortType, NullType),
        "timestamp": (TimestampType, NullType),
    }
    for name, allowed in expected.items():
        if name in types and not isinstance(types[name], allowed):
            words = " or ".join(kind.typeName() for kind in allowed if kind is not NullType)
            raise PipelineError(f"Column {name} is {types[name].simpleString()}; to be written it must be {words}.")
    if "headers" in types and not _is_headers(types["headers"]):
        raise PipelineError(
            f"Column headers is {types['headers'].simpleString()}; it must be array<struct<key:string,value:binary>>."
        )


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return len(fields) == 2 and all(isinstance(field.dataType, TEXT_OR_BYTES) for field in fields)
