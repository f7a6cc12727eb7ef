"""Records of Arrow columns by compiled code: 0.5 s until it is there, and then hardly any time for a row."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.pipeline.arrow import encode_kernels as kernels
from penstock.pipeline.arrow import plain_arrays
from penstock.pipeline.arrow.compiled import Integers, Offsets, read_only_bytes
from penstock.pipeline.arrow.write_columns import EncodedRecords, WriteColumns


def fill_partitions(keys: pa.Array, partition_count: int, without_key: int, partitions: Integers) -> None:
    """The partition of each row that has none yet (-1): by its key, or the given one for a null key."""
    kernels.partitions_of_keys(_column(keys), partition_count, without_key, partitions)


def encode_records(columns: WriteColumns, rows: Integers, max_bytes: int) -> Iterator[EncodedRecords]:
    """The records of the given rows, cut so that no part passes `max_bytes` unless it is a single record."""
    lists = _offsets(columns.header_lists.buffers()[1], len(columns.value))
    headers = _column(columns.header_keys), _column(columns.header_values)
    given = _column(columns.key), _column(columns.value), lists, *headers
    times, first = columns.timestamps_ms, 0
    while first < len(rows):
        end, size = kernels.plan_batch(rows, times, first, max_bytes, given)
        records = np.empty(int(size), np.uint8)
        written = kernels.write_records(records, rows, times, first, end, given)
        assert written == size
        of_part = times[rows[first:end]]
        yield EncodedRecords(records.data, int(end) - first, int(of_part[0]), int(of_part.max()))
        first = int(end)


def _column(array: pa.Array) -> kernels.Column:
    _, offsets, data = array.buffers()
    return read_only_bytes(data or b""), _offsets(offsets, len(array), array.offset), plain_arrays.present(array)


def _offsets(buffer: pa.Buffer | None, count: int, begin: int = 0) -> Offsets:
    if buffer is None or not buffer.size:
        offsets = np.zeros(count + 1, np.int32)
    else:
        offsets = np.frombuffer(buffer, np.int32)[begin : begin + count + 1]
    offsets.flags.writeable = False
    return offsets
