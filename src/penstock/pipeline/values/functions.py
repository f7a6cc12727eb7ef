"""Values of Avro, Protobuf and JSON Schema in frames of one's own, as pipelines read and write them.

    orders = spark.readStream.format("penstock")….load()
    orders.select(from_values("value", avro="latest", subject="orders-value", registry="http://…").alias("order"))

A name of a schema is the file that has it, or `latest` of the subject; Avro and JSON Schema may be given as text.
"""

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.schemas import REGISTRY, USER_INFO, registered, typed_values
from penstock.pipeline.values.typed_values import broken_rules, columns_and_schema, read_values, write_values
from penstock.work.connect.registry import HEAD


def from_values(
    values: Column | str,
    *,
    avro: str | None = None,
    protobuf: str | None = None,
    json_schema: str | None = None,
    message: str = "",
    registry: str = "",
    subject: str = "",
    user_info: str = "",
) -> Column:
    """Bytes as what their schema says; null for what is no such value. PipelineError where the schema is not there."""
    declared = _declared(avro, protobuf, json_schema, message, registry, subject, user_info)
    columns, typed = columns_and_schema(declared)
    column = _column(values)
    if typed.kind != JSON_SCHEMA:
        return read_values(column, typed, columns).getField("value")
    text = column if typed.registry is None else sf.substr(column, sf.lit(HEAD.size + 1))
    return sf.when(broken_rules(column, typed).isNull(), sf.from_json(text.cast("string"), columns))


def to_values(
    values: Column | str,
    *,
    avro: str | None = None,
    protobuf: str | None = None,
    json_schema: str | None = None,
    message: str = "",
    registry: str = "",
    subject: str = "",
    user_info: str = "",
) -> Column:
    """Structs as bytes; their schema is registered now. A row that is no such value fails the query. PipelineError."""
    typed = registered(_declared(avro, protobuf, json_schema, message, registry, subject, user_info))
    column = _column(values)
    return write_values(sf.to_json(column) if typed.kind == JSON_SCHEMA else column, typed)


def _column(values: Column | str) -> Column:
    return sf.col(values) if isinstance(values, str) else values


def _declared(
    avro: str | None,
    protobuf: str | None,
    json_schema: str | None,
    message: str,
    registry: str,
    subject: str,
    user_info: str,
) -> TypedValues:
    given = {AVRO: avro, PROTOBUF: protobuf, JSON_SCHEMA: json_schema}
    kinds = {kind: schema for kind, schema in given.items() if schema is not None}
    if len(kinds) != 1:
        raise PipelineError("Give one of avro, protobuf and json_schema: what are the values?")
    if registry and not subject:
        raise PipelineError("A registry knows schemas by their subjects: give the subject, for example orders-value.")
    options = {"message": message, "subject": subject, REGISTRY: registry, USER_INFO: user_info}
    try:
        return typed_values(next(iter(kinds)), kinds | {name: value for name, value in options.items() if value})
    except UnfitSchemaError as error:
        raise PipelineError(f"{next(iter(kinds))}: {error}") from error
