"""The record walker, compiled: fills columns of positions from a chunk's bytes, then gathers the bytes themselves.

Contract: every varint and every length is checked against the end of its record, every record against the end of its
batch, before a byte is read; numba itself checks nothing. A decoder in plain Python, beside the tests, must agree on
every input, also on which inputs are refused. A position of -1 says "refused" inside this file.
"""

import numpy as np

from penstock.pipeline.arrow.compiled import Bytes, Integer, Integers, Offsets, compiled, copy_bytes
from penstock.pipeline.arrow.record_spans import (
    APPEND_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BEGIN,
    END,
    IS_APPEND_TIME,
    LAST_OFFSET_DELTA,
    RECORD_COUNT,
)

LARGEST_MILLISECONDS = 9_223_372_036_854_775
"""A timestamp beyond it does not fit in microseconds; it is read as this one."""
LAST_SHIFT = 63
REFUSED = -1


@compiled
def read_varint(data: Bytes, position: Integer, end: Integer) -> tuple[np.int64, Integer]:
    """(value, next position) of a zigzag varint of at most 64 bits."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while 0 <= position < end:
        byte = np.uint64(data[position])
        position += 1
        if shift == np.uint64(LAST_SHIFT) and byte > np.uint64(1):
            break
        result |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(REFUSED)


@compiled
def read_field(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, np.int64, Integer]:
    """(begin, length, next position) of nullable bytes; begin is -1 and length 0 for null."""
    length, position = read_varint(data, position, end)
    if position < 0 or length > end - position:
        return np.int64(REFUSED), np.int64(0), np.int64(REFUSED)
    if length < 0:
        return np.int64(REFUSED), np.int64(0), position
    return position, length, position + length


@compiled
def to_microseconds(base: Integer, delta: Integer) -> Integer:
    """Their sum (modulo 2^64, as Java adds) in microseconds, within 64 bits."""
    total = np.int64(np.uint64(base) + np.uint64(delta))
    if total > LARGEST_MILLISECONDS:
        return np.int64(LARGEST_MILLISECONDS * 1000)
    if total < -LARGEST_MILLISECONDS:
        return np.int64(-LARGEST_MILLISECONDS * 1000)
    return total * 1000


@compiled
def walk_records(
    data: Bytes,
    spans: Integers,
    first_offset: int,
    end_offset: int,
    numbers: Integers,
    places: Integers,
    key_offsets: Offsets,
    value_offsets: Offsets,
) -> Integer:
    """Fill the columns of all records in [first_offset, end_offset); returns their number or -1.

    numbers: offset, timestamp in µs, timestamp type. places: begin of key, begin of value (-1 for null), begin of
    headers, end of record. The Arrow offsets of keys and values count from 0.
    """
    row = np.int64(0)
    key_offsets[0] = 0
    value_offsets[0] = 0
    for span in range(spans.shape[0]):
        position = spans[span, BEGIN]
        end = spans[span, END]
        base = spans[span, BASE_OFFSET]
        append_time = spans[span, IS_APPEND_TIME]
        for _ in range(spans[span, RECORD_COUNT]):
            length, position = read_varint(data, position, end)
            if position < 0 or length < 1 or length > end - position:
                return REFUSED
            record_end = position + length
            time_delta, position = read_varint(data, position + 1, record_end)
            offset_delta, position = read_varint(data, position, record_end)
            if position < 0 or offset_delta < 0 or offset_delta > spans[span, LAST_OFFSET_DELTA]:
                return REFUSED
            key_begin, key_length, position = read_field(data, position, record_end)
            value_begin, value_length, position = read_field(data, position, record_end)
            if position < 0:
                return REFUSED
            offset = base + offset_delta
            if first_offset <= offset < end_offset:
                if append_time:
                    numbers[1, row] = to_microseconds(spans[span, APPEND_TIMESTAMP], 0)
                else:
                    numbers[1, row] = to_microseconds(spans[span, BASE_TIMESTAMP], time_delta)
                numbers[0, row] = offset
                numbers[2, row] = append_time
                places[0, row] = key_begin
                places[1, row] = value_begin
                places[2, row] = position
                places[3, row] = record_end
                key_offsets[row + 1] = key_offsets[row] + key_length
                value_offsets[row + 1] = value_offsets[row] + value_length
                row += 1
            position = record_end
        if position != end:
            return REFUSED
    return row


@compiled
def count_headers(data: Bytes, begins: Integers, ends: Integers, list_offsets: Offsets) -> Integer:
    """Fill the Arrow offsets of the header lists; returns the number of all headers or -1."""
    list_offsets[0] = 0
    total = np.int64(0)
    for row in range(begins.shape[0]):
        count, position = read_varint(data, begins[row], ends[row])
        if position < 0 or count < 0 or count > (ends[row] - position) // 2:
            return REFUSED
        total += count
        list_offsets[row + 1] = total
    return total


@compiled
def walk_headers(
    data: Bytes, begins: Integers, ends: Integers, places: Integers, key_offsets: Offsets, value_offsets: Offsets
) -> Integer:
    """Fill the columns of all headers (places: begin of key, begin of value or -1); returns their number or -1."""
    index = np.int64(0)
    key_offsets[0] = 0
    value_offsets[0] = 0
    for row in range(begins.shape[0]):
        count, position = read_varint(data, begins[row], ends[row])
        for _ in range(count):
            key_begin, key_length, position = read_field(data, position, ends[row])
            value_begin, value_length, position = read_field(data, position, ends[row])
            if position < 0 or key_begin < 0:
                return REFUSED
            places[0, index] = key_begin
            places[1, index] = value_begin
            key_offsets[index + 1] = key_offsets[index] + key_length
            value_offsets[index + 1] = value_offsets[index] + value_length
            index += 1
        if position != ends[row]:
            return REFUSED
    return index


@compiled
def gather(data: Bytes, begins: Integers, offsets: Offsets, target: Bytes) -> None:
    """Copy each field that is not null to its place in an Arrow data buffer."""
    for row in range(begins.shape[0]):
        if begins[row] >= 0:
            at = np.int64(offsets[row])
            copy_bytes(target, at, data, begins[row], np.int64(offsets[row + 1]) - at)
