"""Records of Arrow columns row by row in Python: some microseconds for each, and there at once in a new process."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.pipeline.arrow.record_spans import Integers
from penstock.pipeline.arrow.write_columns import EncodedRecords, WriteColumns
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.varint import encode_varint

NULL: Final = encode_varint(-1)


def fill_partitions(keys: pa.Array, partition_count: int, without_key: int, partitions: Integers) -> None:
    """The partition of each row that has none yet (-1): by its key, or the given one for a null key."""
    for row, key in enumerate(keys.to_pylist()):
        if partitions[row] < 0:
            partitions[row] = without_key if key is None else partition_for_key(key, partition_count)


def encode_records(columns: WriteColumns, rows: Integers, max_bytes: int) -> Iterator[EncodedRecords]:
    """The records of the given rows, cut so that no part passes `max_bytes` unless it is a single record."""
    keys, values = columns.key.to_pylist(), columns.value.to_pylist()
    lists = columns.header_lists.to_pylist()
    headers = list(zip(columns.header_keys.to_pylist(), columns.header_values.to_pylist(), strict=True))
    part: list[bytes] = []
    times: list[int] = []
    size = 0
    for row in rows.tolist():
        time_ms, own = int(columns.timestamps_ms[row]), headers[lists[row] : lists[row + 1]]
        record = _record(time_ms - times[0] if times else 0, len(part), keys[row], values[row], own)
        if part and size + len(record) > max_bytes:
            yield _encoded(part, times)
            part, times, size = [], [], 0
            record = _record(0, 0, keys[row], values[row], own)
        part.append(record)
        times.append(time_ms)
        size += len(record)
    if part:
        yield _encoded(part, times)


def _encoded(part: list[bytes], times: list[int]) -> EncodedRecords:
    return EncodedRecords(memoryview(b"".join(part)), len(part), times[0], max(times))


def _record(
    after_ms: int, index: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]]
) -> bytes:
    """`after_ms` is its time after that of the batch's first record."""
    named = b"".join(_field(name) + _field(content) for name, content in headers)
    numbers = encode_varint(after_ms) + encode_varint(index)
    body = b"\x00%b%b%b%b%b" % (numbers, _field(key), _field(value), encode_varint(len(headers)), named)
    return encode_varint(len(body)) + body


def _field(content: bytes | None) -> bytes:
    return NULL if content is None else encode_varint(len(content)) + content
