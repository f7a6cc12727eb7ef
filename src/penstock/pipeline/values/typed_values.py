"""Values that are typed by a schema, in Spark: Python reads and writes a column of bytes batch by batch, through Arrow.

Those of Avro and Protobuf become structs (Spark's own functions for it need jars from elsewhere); of those of JSON
Schema the rules are looked at, for Spark reads JSON itself.
"""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark import __version__
from pyspark.sql import Column
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from penstock.pipeline.arrow.plain_arrays import contents
from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.values.kinds import TypedValues
from penstock.pipeline.values.schemas import Reader, Writer, columns_of, reader_of, settled, writer_of
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import UNKNOWN, RegistryError

try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError as error:
    raise PipelineError(
        f"Values of Avro, Protobuf or JSON Schema need Spark 4.1 or newer, and this is {__version__}."
    ) from error

MOST_READERS: Final = 100
Read = tuple[Any, str | None]
"""A value, or why it is bad."""


@lru_cache(MOST_READERS)
def columns_and_schema(typed: TypedValues) -> tuple[str, TypedValues]:
    """The fields as DDL, and `typed` with its schema; PipelineError where it is not available."""
    known = settled(typed)
    try:
        return columns_of(known), known
    except UnfitSchemaError as error:
        raise PipelineError(f"{typed.subject}: {error}") from error


def read_values(values: Column, typed: TypedValues, columns: str) -> Column:
    """A struct for each: the `value` of this type, or `why` it is bad."""
    kind = StructType().add("value", DataType.fromDDL(columns)).add("why", StringType())
    form = kind.json()

    def read(array: pa.Array) -> pa.Array:
        return structs_of(array, typed, form)

    # Otherwise Spark reads each value twice: once to filter, once for its fields.
    return _over_arrow(read, kind, values)


def broken_rules(values: Column, typed: TypedValues) -> Column:
    """Per value; null if it is good or missing."""

    def check(array: pa.Array) -> pa.Array:
        return contents([None if why is None else why.encode() for _, why in _all_read(array, typed)]).cast(pa.string())

    return _over_arrow(check, StringType(), values)


def write_values(values: Column, typed: TypedValues) -> Column:
    """Bytes of structs, or for JSON Schema of texts of JSON; an unfit one fails the query."""

    def write(array: pa.Array) -> pa.Array:
        return written(array, typed)

    return _over_arrow(write, BinaryType(), values)


def _over_arrow(function: Callable[[pa.Array], pa.Array], kind: DataType, values: Column) -> Column:
    from_hints: Any = arrow_udf  # a type of function that is named, as PySpark's stubs want it, makes it warn
    column: Column = from_hints(function, kind).asNondeterministic()(values)
    return column


def written(array: Any, typed: TypedValues) -> Any:
    """PipelineError for a row that is no value of the schema."""
    write = _writer(typed)
    try:
        rows = array.to_pylist(maps_as_pydicts="strict")
        return contents([None if row is None else write(row) for row in rows])
    except (ConversionError, ValueError) as error:
        raise PipelineError(f"A row is no value of the schema of {typed.subject}: {error}.") from error


def structs_of(array: Any, typed: TypedValues, form: str) -> Any:
    """Structs of this form (Spark's JSON); PipelineError if the registry fails."""
    kind = _arrow(form)
    rows = [{"value": value, "why": why} for value, why in _all_read(array, typed)]
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError):  # a number with more digits than its type has
        return pa.array([_fitting(row, kind) for row in rows], kind)


def _all_read(array: Any, typed: TypedValues) -> Iterator[Read]:
    """One at a time: keeping parsed JSON takes more time than reading it."""
    reader = _reader(typed)
    for value in array.to_pylist():
        yield (None, None) if value is None else _read(reader, value)


@lru_cache(MOST_READERS)
def _reader(typed: TypedValues) -> Reader:
    return reader_of(typed)


@lru_cache(MOST_READERS)
def _writer(typed: TypedValues) -> Writer:
    return writer_of(typed)


@lru_cache(MOST_READERS)
def _arrow(form: str) -> Any:
    return to_arrow_type(StructType.fromJson(json.loads(form)), timezone="UTC")


def _read(reader: Reader, value: bytes) -> Read:
    try:
        return reader(value), None
    except RetriableError as error:
        raise PipelineError(str(error)) from error
    except ConversionError as error:
        if isinstance(error, RegistryError) and error.status != UNKNOWN:
            raise PipelineError(str(error)) from error
        return None, str(error) or type(error).__name__


def _fitting(row: dict[str, Any], kind: Any) -> dict[str, Any]:
    try:
        pa.array([row], kind)
    except (pa.ArrowException, OverflowError) as error:
        return {"value": None, "why": str(error)}
    return row
