"""What a DataFrame must look like to be written, and its columns in the form that an encoder takes.

Columns by name, as the JVM connector has them: `value` (needed), `key`, `headers`, `topic`, `partition`, `timestamp`.
Others are ignored. `key` and `value` are strings or binary.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.arrow import plain_arrays
from penstock.pipeline.arrow.record_spans import Integers
from penstock.pipeline.errors import PipelineError
from penstock.protocol.value import Value


class WriteColumns(Value):
    """`header_lists` are Arrow offsets into the two header columns."""

    key: pa.Array
    value: pa.Array
    timestamps_ms: Integers
    header_lists: pa.Array
    header_keys: pa.Array
    header_values: pa.Array


class EncodedRecords(Value):
    """Of one batch, uncompressed and without its header."""

    records: memoryview
    count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


def write_columns(batch: pa.RecordBatch, now_ms: int) -> WriteColumns:
    """Pick the columns of a record; what is missing is null in every row. A record without a timestamp is of now."""
    names = set(batch.schema.names)
    count = batch.num_rows
    lists, keys, values = _headers(batch.column("headers") if "headers" in names else None, count)
    return WriteColumns(
        key=as_binary(batch.column("key")) if "key" in names else pa.nulls(count, pa.binary()),
        value=as_binary(batch.column("value")),
        timestamps_ms=_timestamps(batch.column("timestamp") if "timestamp" in names else None, count, now_ms),
        header_lists=lists,
        header_keys=keys,
        header_values=values,
    )


def as_binary(array: pa.Array) -> pa.Array:
    """Strings become their UTF-8 bytes."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary())
    return array if array.type == pa.binary() else array.cast(pa.binary())


def partition_numbers(batch: pa.RecordBatch) -> Integers:
    """-1 where the column `partition` is null or missing: the writer chooses."""
    if "partition" not in batch.schema.names:
        return np.full(batch.num_rows, -1, np.int64)
    column = batch.column("partition")
    _check_none_negative("partition", column)
    return np.array(plain_arrays.filled(column, -1))


def _timestamps(column: pa.Array | None, count: int, now_ms: int) -> Integers:
    if column is None or column.null_count == count:
        return np.full(count, now_ms, np.int64)
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    _check_none_negative("timestamp", micros)
    return plain_arrays.filled(micros, now_ms * 1000) // 1000


def _check_none_negative(name: str, numbers: pa.Array) -> None:
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise PipelineError(f"Column {name} is {least} in some row; it must be null or at least 0.")


def _headers(column: pa.Array | None, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    if column is None:
        empty = pa.nulls(0, pa.binary())
        return plain_arrays.numbers(np.zeros(count + 1, np.int32)), empty, empty
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(plain_arrays.filled(pc.list_value_length(column), 0), out=offsets[1:])
    structs = column.flatten()  # leaves out what lies behind null lists
    keys, values = structs.flatten()
    if keys.null_count:
        raise PipelineError("Column headers has a header without a key in some row.")
    return plain_arrays.numbers(offsets), as_binary(keys), as_binary(values)
