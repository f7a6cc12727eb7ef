"""Values and keys of a sink by schemas: which columns they are made of, and whether these fit, before anything runs."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructType,
)

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.pipeline import SinkSpec
from penstock.pipeline.values.kinds import JSON_SCHEMA, TypedValues
from penstock.pipeline.values.schemas import columns_of, fitting, registered, required_by
from penstock.pipeline.values.typed_values import write_values

WIDTHS: Final = ((ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType))
"""Of each the later ones hold what the earlier ones hold."""


def typed_value(frame: DataFrame, sink: SinkSpec, typed: TypedValues, content: list[str], *, registers: bool) -> Column:
    """Of these columns, by their names; PipelineError for one that the schema does not have, or that does not fit."""
    known = _known(typed, registers=registers)
    wanted = DataType.fromDDL(columns_of(known))
    assert isinstance(wanted, StructType)
    fields = {field.name: field.dataType for field in wanted.fields}
    for column in content:
        if column not in fields:
            raise PipelineError(
                f"Sink {sink.name}: column {column} is no field of its schema, which has {', '.join(fields)}."
            )
        _check(f"Sink {sink.name}: column {column}", frame.schema[column].dataType, fields[column])
    missing = sorted(required_by(known) - set(content))
    if missing:
        raise PipelineError(f"Sink {sink.name}: its schema needs {missing[0]}, and there is no such column.")
    return _written(sf.struct(*(sf.col(one).cast(fields[one]).alias(one) for one in content)), known)


def typed_key(frame: DataFrame, sink: SinkSpec, typed: TypedValues, *, registers: bool) -> Column:
    """Of the column `key`; of a schema that is a record with one field, that field."""
    known = _known(typed, registers=registers)
    wanted, key = DataType.fromDDL(columns_of(known)), sf.col("key")
    if "key" not in frame.columns:
        raise PipelineError(f"Sink {sink.name}: its keys have a schema, so it needs key, the column that they are.")
    given = frame.schema["key"].dataType
    if isinstance(wanted, StructType) and not isinstance(given, StructType) and len(wanted.fields) == 1:
        field = wanted.fields[0]
        key, given = sf.struct(key.alias(field.name)), StructType().add(field.name, given)
    _check(f"Sink {sink.name}: its key", given, wanted)
    return _written(sf.when(sf.col("key").isNotNull(), key.cast(wanted)), known)


def _known(typed: TypedValues, *, registers: bool) -> TypedValues:
    return registered(typed) if registers else fitting(typed)


def _written(value: Column, typed: TypedValues) -> Column:
    return write_values(sf.to_json(value) if typed.kind == JSON_SCHEMA else value, typed)


def _check(what: str, given: DataType, wanted: DataType) -> None:
    if not fits(given, wanted):
        raise PipelineError(
            f"{what} is {given.simpleString()}, and its schema wants {wanted.simpleString()}; cast it, as SQL can."
        )


def fits(given: DataType, wanted: DataType) -> bool:
    """Whether all that one type has is in the other one: fields of structs have the same names in the same order."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            fits(one.dataType, other.dataType) for one, other in zip(given.fields, wanted.fields, strict=True)
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return fits(given.elementType, wanted.elementType)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return fits(given.keyType, wanted.keyType) and fits(given.valueType, wanted.valueType)
    if isinstance(given, DecimalType) and isinstance(wanted, DecimalType):
        return given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale
    if type(given) is type(wanted) or isinstance(given, NullType):
        return True
    return any(
        type(given) in widths and type(wanted) in widths and widths.index(type(given)) < widths.index(type(wanted))
        for widths in WIDTHS
    )
