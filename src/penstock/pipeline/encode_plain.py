"""The encoder in plain Python: what runs where numba is missing, and the oracle for the compiled one."""

from collections.abc import Iterator

import pyarrow as pa

from penstock.pipeline.record_spans import Integers
from penstock.pipeline.write_columns import EncodedRecords, WriteColumns
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.varint import encode_varint

Header = tuple[bytes, bytes | None]


def partitions_of_keys(key: pa.Array, partition_count: int, without_key: int, partitions: Integers) -> None:
    """Fill in the partition of each row that has none yet (-1): by its key, or the given one for a null key."""
    for row, content in enumerate(key.to_pylist()):
        if partitions[row] < 0:
            partitions[row] = without_key if content is None else partition_for_key(content, partition_count)


def encode_records(columns: WriteColumns, rows: Integers, max_bytes: int) -> Iterator[EncodedRecords]:
    """The records of the given rows, cut so that no part passes `max_bytes` unless it is a single record."""
    keys, values = columns.key.to_pylist(), columns.value.to_pylist()
    lists = columns.header_lists.to_pylist()
    headers = list(zip(columns.header_keys.to_pylist(), columns.header_values.to_pylist(), strict=True))
    part, times = bytearray(), list[int]()
    for row, time_ms in zip(rows.tolist(), columns.timestamps_ms[rows].tolist(), strict=True):
        of_row = headers[lists[row] : lists[row + 1]]
        record = _record(len(times), time_ms - (times or [time_ms])[0], keys[row], values[row], of_row)
        if times and len(part) + len(record) > max_bytes:
            yield EncodedRecords(memoryview(part), len(times), times[0], max(times))
            part, times = bytearray(), []
            record = _record(0, 0, keys[row], values[row], of_row)
        part += record
        times.append(time_ms)
    if times:
        yield EncodedRecords(memoryview(part), len(times), times[0], max(times))


def _record(index: int, after_ms: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    body = bytearray(b"\x00") + encode_varint(after_ms) + encode_varint(index) + _field(key) + _field(value)
    body += encode_varint(len(headers))
    for name, content in headers:
        body += _field(name) + _field(content)
    return encode_varint(len(body)) + bytes(body)


def _field(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content
