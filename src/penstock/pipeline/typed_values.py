"""Values that are typed by Avro or Protobuf, in Spark: a column of bytes becomes one of structs.

Spark's own functions for it need jars from elsewhere; here Python reads them, batch by batch through Arrow.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from penstock.pipeline.errors import BadValueError, PipelineError
from penstock.pipeline.json_schema import SchemaError
from penstock.pipeline.schemas import Reader, columns_of, reader_of, settled
from penstock.pipeline.spec import TypedValues
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import RegistryError

MOST_READERS: Final = 100
UNKNOWN: Final = 404


def as_structs(values: Column, typed: TypedValues) -> Column:
    """The values, read; what cannot be read is null. PipelineError where the schema cannot be had."""
    known, ddl = _known(typed)
    kind = StructType.fromDDL(ddl)
    assert isinstance(kind, StructType)
    columns = kind.json()

    def read(array: pa.Array) -> pa.Array:
        return structs_of(array, known, columns)

    # Otherwise Spark reads each value twice: once to filter, once for its fields.
    return arrow_udf(read, kind, ArrowUDFType.SCALAR).asNondeterministic()(values)


def structs_of(array: Any, typed: TypedValues, columns: str) -> Any:
    """The values of an array as structs with these columns (Spark's JSON); PipelineError if the registry fails."""
    reader, kind = _reader(typed, columns)
    rows = [None if value is None else _read(reader, value) for value in array.to_pylist()]
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError):  # a number with more digits than its type has
        return pa.array([row if _fits(row, kind) else None for row in rows], kind)


@lru_cache(MOST_READERS)
def _known(typed: TypedValues) -> tuple[TypedValues, str]:
    known = settled(typed)
    try:
        return known, columns_of(known)
    except SchemaError as error:
        raise PipelineError(f"{typed.subject}: {error}") from error


@lru_cache(MOST_READERS)
def _reader(typed: TypedValues, columns: str) -> tuple[Reader, Any]:
    return reader_of(typed), to_arrow_type(StructType.fromJson(json.loads(columns)), timezone="UTC")


def _read(reader: Reader, value: bytes) -> Mapping[str, Any] | None:
    try:
        return reader(value)
    except BadValueError:
        return None
    except RetriableError as error:
        raise PipelineError(str(error)) from error
    except ConversionError as error:
        if isinstance(error, RegistryError) and error.status != UNKNOWN:
            raise PipelineError(str(error)) from error
        return None


def _fits(row: Mapping[str, Any] | None, kind: Any) -> bool:
    try:
        pa.array([row], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True
