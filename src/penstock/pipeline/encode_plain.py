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
    part, count = bytearray(), 0
    for row in rows.tolist():
        of_row = headers[lists[row] : lists[row + 1]]
        record = _record(count, keys[row], values[row], of_row)
        if count and len(part) + len(record) > max_bytes:
            yield EncodedRecords(memoryview(part), count)
            part, count = bytearray(), 0
            record = _record(count, keys[row], values[row], of_row)
        part += record
        count += 1
    if count:
        yield EncodedRecords(memoryview(part), count)


def _record(index: int, key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    body = bytearray(b"\x00\x00") + encode_varint(index) + _field(key) + _field(value) + encode_varint(len(headers))
    for name, content in headers:
        body += _field(name) + _field(content)
    return encode_varint(len(body)) + bytes(body)


def _field(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content
