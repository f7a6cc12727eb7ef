"""Values and keys of a source as its schemas say, and of bad ones the reason."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipeline.running.database_changes import Envelope, envelope_of, key_of
from penstock.pipeline.spec.pipeline import SourceSpec
from penstock.pipeline.values.kinds import JSON_SCHEMA, TypedValues
from penstock.pipeline.values.typed_values import broken_rules, columns_and_schema, read_values
from penstock.work.connect.registry import HEAD

RAW: Final = "_penstock_raw"
RAW_KEY: Final = "_penstock_raw_key"
WHY: Final = "_penstock_why"
"""Why a value or a key is bad, else null: no value at all is a tombstone, and no mistake."""
CORRUPT, READ = "_penstock_corrupt", "_penstock_read"


def judged(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """Adds the value as a struct, and a typed key, each null if it is bad; PipelineError where a schema is not
    available.
    """
    frame = frame.withColumn(RAW, sf.col("value")).withColumn(WHY, sf.lit(None).cast("string"))
    if source.typed_key is not None:
        frame = _typed(frame.withColumn(RAW_KEY, sf.col("key")), "key", RAW_KEY, source.typed_key)
    if source.typed is not None:
        frame = _typed(frame, "value", RAW, source.typed)
    elif source.json is not None:
        said = f"the value is not of {source.json}"
        columns = envelope_of(source.json) if source.is_changes else source.json
        frame = _from_json(frame, "value", RAW, sf.col(RAW), columns, said)
    return _changed_rows(frame, source) if source.is_changes else frame


def _changed_rows(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The rows of a database in place of envelopes."""
    declared, key = frame.schema["value"].dataType, frame.schema["key"].dataType
    assert isinstance(declared, StructType)
    if source.json is not None and source.typed_key is None:
        row = StructType.fromDDL(source.json)
        assert isinstance(row, StructType)
        envelope = Envelope(declared, key_of(sf.col("key"), source.json), row.names)
    else:
        envelope = Envelope(declared, sf.col("key"), key.names if isinstance(key, StructType) else ())
    why = sf.when(sf.col(RAW).isNotNull(), envelope.why_not())
    judged_rows = frame.withColumn(WHY, sf.coalesce(sf.col(WHY), why))
    return judged_rows.withColumn("value", sf.when(sf.col(WHY).isNull(), envelope.row()))


def _typed(frame: DataFrame, part: str, raw: str, declared: TypedValues) -> DataFrame:
    columns, typed = columns_and_schema(declared)
    if typed.kind == JSON_SCHEMA:
        frame = frame.withColumn(WHY, sf.coalesce(sf.col(WHY), broken_rules(sf.col(raw), typed)))
        text = sf.col(raw) if typed.registry is None else sf.substr(sf.col(raw), sf.lit(HEAD.size + 1))
        good = sf.when(sf.col(WHY).isNull(), text)
        return _from_json(frame, part, raw, good, columns, f"the {part} does not fit into {columns}")
    read = frame.withColumn(READ, read_values(sf.col(raw), typed, columns))
    both = sf.col(READ)
    why = sf.coalesce(sf.col(WHY), both.getField("why"))
    return read.withColumn(part, both.getField("value")).withColumn(WHY, why).drop(READ)


def _from_json(frame: DataFrame, part: str, raw: str, text: Column, columns: str, said: str) -> DataFrame:
    """Parsed by Spark; `said` is the reason where Spark fails and no earlier one is known."""
    declared = StructType.fromDDL(columns)
    assert isinstance(declared, StructType)
    schema = StructType([*declared.fields, StructField(CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": CORRUPT}
    value = sf.col(part)
    is_none = sf.col(raw).isNotNull() & (value.isNull() | value.getField(CORRUPT).isNotNull())
    read = frame.withColumn(part, sf.from_json(text.cast("string"), schema, options))
    read = read.withColumn(WHY, sf.coalesce(sf.col(WHY), sf.when(is_none, sf.lit(said))))
    return read.withColumn(part, sf.when(sf.col(WHY).isNull(), value.dropFields(CORRUPT)))
