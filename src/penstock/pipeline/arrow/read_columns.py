"""The columns that Spark sees, in Arrow's types and in Spark's: the same names and types as the JVM connector's.

Spark compares the schema of every batch with its own for equality: binary and not large_binary, microseconds in UTC.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.pipeline.arrow import plain_arrays
from penstock.protocol.value import Value

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))
READ_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
READ_SCHEMA_WITH_HEADERS = READ_SCHEMA.append(pa.field("headers", HEADERS_TYPE))


class DecodedRecords(Value):
    """Arrow arrays of one length; `headers` is None when the read leaves them out."""

    key: pa.Array
    value: pa.Array
    offset: pa.Array
    timestamp: pa.Array
    timestamp_type: pa.Array
    headers: pa.Array | None


def header_lists(
    list_offsets: pa.Buffer, has_headers: Sequence[bool] | npt.NDArray[np.bool_], keys: pa.Array, values: pa.Array
) -> pa.Array:
    """The headers column; a record without headers has null there, as the JVM connector gives it."""
    text_keys = pa.Array.from_buffers(pa.string(), len(keys), keys.buffers())
    structs = pa.StructArray.from_arrays([text_keys, values], fields=list(HEADER_TYPE))
    present = np.asarray(has_headers, np.bool_)
    null_count = len(present) - int(np.count_nonzero(present))
    validity = pa.py_buffer(np.packbits(present, bitorder="little")) if null_count else None
    return pa.Array.from_buffers(HEADERS_TYPE, len(present), [validity, list_offsets], null_count, children=[structs])


def record_batch(records: DecodedRecords, topic: str, partition: int) -> pa.RecordBatch:
    """Add the two columns that are the same in every row, and put all in Spark's order."""
    count = len(records.offset)
    columns = [
        records.key,
        records.value,
        plain_arrays.repeated_text(topic, count),
        plain_arrays.numbers(np.full(count, partition, np.int32)),
        records.offset,
        records.timestamp,
        records.timestamp_type,
    ]
    if records.headers is None:
        return pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA)
    return pa.RecordBatch.from_arrays([*columns, records.headers], schema=READ_SCHEMA_WITH_HEADERS)
