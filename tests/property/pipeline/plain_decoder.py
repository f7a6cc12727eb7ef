"""The decoder in plain Python, the oracle for the compiled one.

Both take a `Chunk` and yield the same `DecodedRecords`, or both raise DecodeError.
"""

import pyarrow as pa

from penstock.pipeline.arrow.read_columns import DecodedRecords, header_lists
from penstock.pipeline.arrow.record_spans import Chunk
from penstock.protocol.errors import DecodeError

LARGEST_MILLISECONDS = 9_223_372_036_854_775
Header = tuple[bytes, bytes | None]


class _Reader:
    """Reads varints and fields from a range of a buffer; raises DecodeError where the range ends too early."""

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.data, self.position, self.end = data, position, end

    def varint(self) -> int:
        result = shift = 0
        while self.position < self.end:
            byte = self.data[self.position]
            self.position += 1
            if shift == 63 and byte > 1:
                break
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7
        raise DecodeError("a number that does not end within its record")

    def sub_reader(self) -> "_Reader":
        length = self.varint()
        if not 1 <= length <= self.end - self.position:
            raise DecodeError("a record that passes the end of its batch")
        begin, self.position = self.position, self.position + length
        return _Reader(self.data, begin, self.position)

    def field(self) -> bytes | None:
        length = self.varint()
        if length > self.end - self.position:
            raise DecodeError("a field that passes the end of its record")
        if length < 0:
            return None
        begin, self.position = self.position, self.position + length
        return bytes(self.data[begin : self.position])

    def headers(self) -> list[Header]:
        count = self.varint()
        if not 0 <= count <= (self.end - self.position) // 2:
            raise DecodeError("more headers than the record can hold")
        headers: list[Header] = []
        for _ in range(count):
            key = self.field()
            value = self.field()
            if key is None:
                raise DecodeError("a header without a key")
            headers.append((key, value))
        if self.position != self.end:
            raise DecodeError("a record that is longer than its content")
        return headers


def _microseconds(base: int, delta: int) -> int:
    total = (base + delta + (1 << 63)) % (1 << 64) - (1 << 63)
    return min(max(total, -LARGEST_MILLISECONDS), LARGEST_MILLISECONDS) * 1000


def decode_chunk(chunk: Chunk, first_offset: int, end_offset: int, include_headers: bool) -> DecodedRecords:
    """The records of a chunk whose offsets are in [first_offset, end_offset)."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    numbers: list[tuple[int, int, int]] = []
    headers: list[list[Header]] = []
    for begin, end, base, last_delta, base_timestamp, append_timestamp, is_append_time, count in chunk.spans.tolist():
        batch = _Reader(chunk.buffer, begin, end)
        for _ in range(count):
            record = batch.sub_reader()
            record.position += 1
            time_delta, offset_delta = record.varint(), record.varint()
            if not 0 <= offset_delta <= last_delta:
                raise DecodeError("an offset outside of its batch")
            key, value = record.field(), record.field()
            if not first_offset <= base + offset_delta < end_offset:
                continue
            timestamp = (
                _microseconds(append_timestamp, 0) if is_append_time else _microseconds(base_timestamp, time_delta)
            )
            keys.append(key)
            values.append(value)
            numbers.append((base + offset_delta, timestamp, is_append_time))
            if include_headers:
                headers.append(record.headers())
        if batch.position != end:
            raise DecodeError("a batch that is longer than its records")
    return DecodedRecords(
        key=pa.array(keys, pa.binary()),
        value=pa.array(values, pa.binary()),
        offset=pa.array([number[0] for number in numbers], pa.int64()),
        timestamp=pa.array([number[1] for number in numbers], pa.timestamp("us", tz="UTC")),
        timestamp_type=pa.array([number[2] for number in numbers], pa.int32()),
        headers=_header_lists(headers) if include_headers else None,
    )


def _header_lists(headers: list[list[Header]]) -> pa.Array:
    offsets = [0]
    for row in headers:
        offsets.append(offsets[-1] + len(row))
    keys = pa.array([key for row in headers for key, _ in row], pa.binary())
    values = pa.array([value for row in headers for _, value in row], pa.binary())
    return header_lists(pa.array(offsets, pa.int32()).buffers()[1], [len(row) > 0 for row in headers], keys, values)
