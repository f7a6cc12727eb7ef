"""Values of a source as structs, and of bad ones the reason."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipeline.spec.pipeline import SourceSpec
from penstock.pipeline.values.kinds import JSON_SCHEMA
from penstock.pipeline.values.typed_values import broken_rules, columns_and_schema, read_values
from penstock.work.connect.registry import HEAD

RAW: Final = "_penstock_raw"
WHY: Final = "_penstock_why"
"""Why a value is bad, else null: no value at all is a tombstone, and no mistake."""
CORRUPT, READ = "_penstock_corrupt", "_penstock_read"


def judged(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """Adds the value as a struct, null if it is bad; PipelineError where its schema is not available."""
    frame = frame.withColumn(RAW, sf.col("value"))
    if source.typed is None:
        assert source.json is not None
        return _from_json(frame, sf.col(RAW), source.json, f"the value is not of {source.json}")
    columns, typed = columns_and_schema(source.typed)
    if typed.kind == JSON_SCHEMA:
        frame = frame.withColumn(WHY, broken_rules(sf.col(RAW), typed))
        text = sf.col(RAW) if typed.registry is None else sf.substr(sf.col(RAW), sf.lit(HEAD.size + 1))
        good = sf.when(sf.col(WHY).isNull(), text)
        return _from_json(frame, good, columns, f"the value does not fit into {columns}")
    read = frame.withColumn(READ, read_values(sf.col(RAW), typed, columns))
    both = sf.col(READ)
    return read.withColumn("value", both.getField("value")).withColumn(WHY, both.getField("why")).drop(READ)


def _from_json(frame: DataFrame, text: Column, columns: str, said: str) -> DataFrame:
    """Parsed by Spark; `said` is the reason where Spark fails and no earlier one is known."""
    declared = StructType.fromDDL(columns)
    assert isinstance(declared, StructType)
    schema = StructType([*declared.fields, StructField(CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": CORRUPT}
    value = sf.col("value")
    is_none = sf.col(RAW).isNotNull() & (value.isNull() | value.getField(CORRUPT).isNotNull())
    known = [sf.col(WHY)] if WHY in frame.columns else []
    read = frame.withColumn("value", sf.from_json(text.cast("string"), schema, options))
    read = read.withColumn(WHY, sf.coalesce(*known, sf.when(is_none, sf.lit(said))))
    return read.withColumn("value", sf.when(sf.col(WHY).isNull(), value.dropFields(CORRUPT)))
