"""The record writer, compiled: from Arrow's buffers to the records of a batch, and the partition of each key.

`Column` stands for the three arrays of an Arrow binary column: its bytes, its offsets (one more than rows) and its
presence (false for null). Rows are named by their indexes, so that rows of one partition need not lie together.
"""

import numpy as np
import numpy.typing as npt

from penstock.pipeline.arrow.compiled import Bytes, Integer, Integers, Offsets, compiled, copy_bytes

Presence = npt.NDArray[np.bool_]
Column = tuple[Bytes, Offsets, Presence]
Columns = tuple[Column, Column, Offsets, Column, Column]
"""Keys, values, and headers: where those of each record begin, their names and contents."""

MURMUR_SEED, MURMUR_FACTOR = 0x9747B28C, 0x5BD1E995
NULL = -1


@compiled
def murmur2(data: Bytes, begin: Integer, length: Integer) -> np.uint32:
    """The hash that Java clients use for keys."""
    factor = np.uint32(MURMUR_FACTOR)
    state = np.uint32(MURMUR_SEED) ^ np.uint32(length)
    position = begin
    for _ in range(length // 4):
        word = (
            np.uint32(data[position])
            | (np.uint32(data[position + 1]) << np.uint32(8))
            | (np.uint32(data[position + 2]) << np.uint32(16))
            | (np.uint32(data[position + 3]) << np.uint32(24))
        )
        word = np.uint32(word * factor)
        word ^= word >> np.uint32(24)
        word = np.uint32(word * factor)
        state = np.uint32(state * factor) ^ word
        position += 4
    left = length % 4
    if left:
        for index in range(left):
            state ^= np.uint32(np.uint32(data[position + index]) << np.uint32(8 * index))
        state = np.uint32(state * factor)
    state ^= state >> np.uint32(13)
    state = np.uint32(state * factor)
    return state ^ (state >> np.uint32(15))


@compiled
def partitions_of_keys(keys: Column, partition_count: int, without_key: int, partitions: Integers) -> None:
    """Fill in the partition of each row that has none yet (-1): by its key, or the given one for a null key."""
    data, offsets, present = keys
    for row in range(partitions.shape[0]):
        if partitions[row] >= 0:
            continue
        if present[row]:
            begin = np.int64(offsets[row])
            positive = murmur2(data, begin, np.int64(offsets[row + 1]) - begin) & np.uint32(0x7FFFFFFF)
            partitions[row] = np.int64(positive) % partition_count
        else:
            partitions[row] = without_key


@compiled
def varint_size(value: Integer) -> np.int64:
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = np.int64(1)
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@compiled
def write_varint(target: Bytes, position: Integer, value: Integer) -> Integer:
    """Returns the position behind it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        target[position] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        position += 1
        rest >>= np.uint64(7)
    target[position] = np.uint8(rest)
    return position + 1


@compiled
def field_length(column: Column, row: Integer) -> np.int64:
    """-1 for null."""
    if not column[2][row]:
        return np.int64(NULL)
    return np.int64(column[1][row + 1]) - np.int64(column[1][row])


@compiled
def field_size(column: Column, row: Integer) -> np.int64:
    """The bytes of a field and of its length."""
    length = field_length(column, row)
    return varint_size(length) + max(length, np.int64(0))


@compiled
def write_field(target: Bytes, position: Integer, column: Column, row: Integer) -> Integer:
    """The field follows its length; returns the position behind it."""
    length = field_length(column, row)
    position = write_varint(target, position, length)
    if length > 0:
        copy_bytes(target, position, column[0], np.int64(column[1][row]), length)
        position += length
    return position


@compiled
def body_size(index: Integer, after_ms: Integer, row: Integer, columns: Columns) -> np.int64:
    """The bytes of a record without its length; `after_ms` is its time after that of the batch's first record."""
    keys, values, lists, names, contents = columns
    size = 1 + varint_size(after_ms) + varint_size(index) + field_size(keys, row) + field_size(values, row)
    size += varint_size(np.int64(lists[row + 1] - lists[row]))
    for header in range(lists[row], lists[row + 1]):
        size += field_size(names, header) + field_size(contents, header)
    return size


@compiled
def plan_batch(
    rows: Integers, times: Integers, first: Integer, max_bytes: int, columns: Columns
) -> tuple[Integer, np.int64]:
    """How far a batch goes that starts at rows[first]: (end, bytes of its records). It holds one record at least."""
    total = np.int64(0)
    at = first
    while at < rows.shape[0]:
        after_ms = times[rows[at]] - times[rows[first]]
        size = body_size(at - first, after_ms, rows[at], columns)
        size += varint_size(size)
        if at > first and total + size > max_bytes:
            break
        total += size
        at += 1
    return at, total


@compiled
def write_records(
    target: Bytes, rows: Integers, times: Integers, first: Integer, end: Integer, columns: Columns
) -> Integer:
    """Write the records of rows[first:end] to a target with the room that `plan_batch` said; returns what it took."""
    keys, values, lists, names, contents = columns
    position: Integer = np.int64(0)
    for at in range(first, end):
        row = rows[at]
        after_ms = times[row] - times[rows[first]]
        size = body_size(at - first, after_ms, row, columns)
        position = write_varint(target, position, size)
        target[position] = 0  # attributes
        position = write_varint(target, position + 1, after_ms)
        position = write_varint(target, position, at - first)
        position = write_field(target, position, keys, row)
        position = write_field(target, position, values, row)
        position = write_varint(target, position, np.int64(lists[row + 1] - lists[row]))
        for header in range(lists[row], lists[row + 1]):
            position = write_field(target, position, names, header)
            position = write_field(target, position, contents, header)
    return position
