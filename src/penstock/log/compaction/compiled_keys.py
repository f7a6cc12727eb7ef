"""Keys and their last offsets in a table of numbers, with kernels compiled by numba: the twin of `plain_keys`.

A key is known by its SipHash-1-3 of 128 bits, under a secret that is new for each round: no client can choose keys that
are taken for one another. numba checks no bounds, so each varint and each length is checked before a byte is read.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from penstock.log.compaction.keys import Kept
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import Buffer

BYTES_PER_KEY = 24
"""A hash of 16 bytes and an offset, as in Kafka's cleaner."""

REFUSED = -1
FULL = -2

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]
Integer = Any
"""A number of 64 bits; numba and mypy have different names for it."""
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The machine code is kept where that is possible."""
    try:
        return cast("Kernel", numba.njit(cache=True)(function))
    except RuntimeError:
        return cast("Kernel", numba.njit(function))


@compiled
def read_varint(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """(value, next position) of a zigzag varint; the position is -1 for nonsense."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while 0 <= position < end and shift < np.uint64(70):
        byte = np.uint64(data[position])
        position += 1
        result |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(REFUSED)


@compiled
def rotated(value: np.uint64, count: Integer) -> np.uint64:
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))


@compiled
def sip_round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, ...]:
    a += b
    b = rotated(b, 13) ^ a
    a = rotated(a, 32)
    c += d
    d = rotated(d, 16) ^ c
    a += d
    d = rotated(d, 21) ^ a
    c += b
    b = rotated(b, 17) ^ c
    c = rotated(c, 32)
    return a, b, c, d


@compiled
def key_hash(data: Bytes, begin: Integer, length: Integer, secret: Hashes) -> tuple[np.uint64, np.uint64]:
    a = secret[0] ^ np.uint64(0x736F6D6570736575)
    b = secret[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    c = secret[0] ^ np.uint64(0x6C7967656E657261)
    d = secret[1] ^ np.uint64(0x7465646279746573)
    for word_begin in range(begin, begin + length // 8 * 8, 8):
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[word_begin + i]) << np.uint64(8 * i)
        d ^= word
        a, b, c, d = sip_round(a, b, c, d)
        a ^= word
    word = np.uint64(length & 0xFF) << np.uint64(56)
    for i in range(length % 8):
        word |= np.uint64(data[begin + length // 8 * 8 + i]) << np.uint64(8 * i)
    d ^= word
    a, b, c, d = sip_round(a, b, c, d)
    a ^= word
    c ^= np.uint64(0xEE)
    for _ in range(3):
        a, b, c, d = sip_round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= np.uint64(0xDD)
    for _ in range(3):
        a, b, c, d = sip_round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@compiled
def slot_of(hashes: Hashes, offsets: Offsets, first: np.uint64, second: np.uint64) -> Integer:
    slot = np.int64(first % np.uint64(offsets.shape[0]))
    while offsets[slot] != 0 and (hashes[slot, 0] != first or hashes[slot, 1] != second):
        slot += 1
        if slot == offsets.shape[0]:
            slot = np.int64(0)
    return slot


@compiled
def read_place(
    data: Bytes, position: Integer, total: Integer
) -> tuple[Integer, Integer, Integer, Integer, Integer, Integer]:
    """(end, timestamp delta, offset delta, begin of key, its length, length of value); the end is -1 for nonsense."""
    refused = np.int64(REFUSED)
    length, at = read_varint(data, position, total)
    if at < 0 or length < 1 or length > total - at:
        return refused, refused, refused, refused, refused, refused
    end = at + length
    timestamp_delta, at = read_varint(data, at + 1, end)
    offset_delta, at = read_varint(data, at, end)
    key_length, key_begin = read_varint(data, at, end)
    if key_begin < 0 or offset_delta < 0 or key_length < -1 or key_length > end - key_begin:
        return refused, refused, refused, refused, refused, refused
    value_length, at = read_varint(data, key_begin + max(key_length, 0), end)
    if at < 0 or value_length < -1 or value_length > end - at:
        return refused, refused, refused, refused, refused, refused
    return end, timestamp_delta, offset_delta, key_begin, key_length, value_length


@compiled
def index_records(
    data: Bytes,
    numbers: tuple[Integer, Integer, Integer],
    secret: Hashes,
    hashes: Hashes,
    offsets: Offsets,
    used: Integer,
    capacity: Integer,
) -> Integer:
    """Returns how many slots are used, FULL or REFUSED. `numbers`: records, base and first offset. Offsets are kept
    plus one: 0 stands for a free slot.
    """
    count, base_offset, first_offset = numbers
    at = np.int64(0)
    for _ in range(count):
        end, _, offset_delta, key_begin, key_length, _ = read_place(data, at, data.shape[0])
        if end < 0:
            return np.int64(REFUSED)
        at = end
        offset = base_offset + offset_delta
        if key_length < 0 or offset < first_offset:
            continue
        if used >= capacity:
            return np.int64(FULL)
        first, second = key_hash(data, key_begin, key_length, secret)
        slot = slot_of(hashes, offsets, first, second)
        if offsets[slot] == 0:
            used += 1
            hashes[slot, 0] = first
            hashes[slot, 1] = second
        offsets[slot] = offset + 1
    return used if at == data.shape[0] else np.int64(REFUSED)


@compiled
def keep_records(
    data: Bytes,
    numbers: tuple[Integer, Integer, Integer],
    drops_tombstones: bool,
    secret: Hashes,
    hashes: Hashes,
    offsets: Offsets,
    out: Bytes,
) -> tuple[Integer, Integer, Integer, Integer]:
    """(records that stay or REFUSED, their bytes in `out`, tombstones, the latest timestamp delta)."""
    count, base_offset, latest_offset = numbers
    at = size = kept = tombstones = latest_delta = np.int64(0)
    for _ in range(count):
        begin = at
        end, timestamp_delta, offset_delta, key_begin, key_length, value_length = read_place(data, at, data.shape[0])
        if end < 0:
            return np.int64(REFUSED), size, tombstones, latest_delta
        at = end
        offset = base_offset + offset_delta
        if offset <= latest_offset:
            if key_length < 0:
                continue
            first, second = key_hash(data, key_begin, key_length, secret)
            if offsets[slot_of(hashes, offsets, first, second)] > offset + 1:
                continue
            if drops_tombstones and value_length < 0:
                continue
        out[size : size + end - begin] = data[begin:end]
        size += end - begin
        latest_delta = timestamp_delta if kept == 0 else max(latest_delta, timestamp_delta)
        kept += 1
        tombstones += value_length < 0
    return (kept if at == data.shape[0] else np.int64(REFUSED)), size, tombstones, latest_delta


class CompiledKeys:
    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        slots = max(2, buffer_bytes // BYTES_PER_KEY)
        self.capacity = max(1, min(int(slots * load_factor), slots - 1))
        self._used = 0
        self._hashes = np.zeros((slots, 2), np.uint64)
        self._offsets = np.zeros(slots, np.int64)
        self._secret = np.frombuffer(os.urandom(16), np.uint64)
        self._out = np.zeros(1 << 16, np.uint8)

    def __len__(self) -> int:
        return self._used

    def index(self, data: Buffer, header: BatchHeader, first_offset: int) -> bool:
        numbers = header.record_count, header.base_offset, first_offset
        used = index_records(
            _array(data), numbers, self._secret, self._hashes, self._offsets, self._used, self.capacity
        )
        if used == FULL:
            self._used = self.capacity
            return False
        if used == REFUSED:
            raise DecodeError(f"the records of the batch at offset {header.base_offset} make no sense")
        self._used = int(used)
        return True

    def keep(self, data: Buffer, header: BatchHeader, latest_offset: int, drops_tombstones: bool) -> Kept:
        if len(data) > len(self._out):
            self._out = np.zeros(2 * len(data), np.uint8)
        numbers = header.record_count, header.base_offset, latest_offset
        kept, size, tombstones, latest_delta = keep_records(
            _array(data), numbers, drops_tombstones, self._secret, self._hashes, self._offsets, self._out
        )
        if kept < 0:
            raise DecodeError(f"the records of the batch at offset {header.base_offset} make no sense")
        return Kept(
            data if kept == header.record_count else self._out[:size].tobytes(),
            int(kept),
            bool(tombstones),
            header.base_timestamp + int(latest_delta),
        )


def _array(data: Buffer) -> Bytes:
    array = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
    array.flags.writeable = False
    return array
