"""Where the records of a batch lie, without making objects of what they hold."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import Buffer, decode_varint


class Place(NamedTuple):
    """Lengths are -1 for null."""

    begin: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_begin: int
    key_length: int
    value_length: int


def places(data: Buffer, count: int) -> Iterator[Place]:
    at = 0
    try:
        for _ in range(count):
            begin = at
            length, at = decode_varint(data, at)
            end = at + length
            if length < 1 or end > len(data):
                raise DecodeError(f"a record of {length} bytes with {len(data) - at} left")
            timestamp_delta, at = decode_varint(data, at + 1)
            offset_delta, at = decode_varint(data, at)
            key_length, key_begin = decode_varint(data, at)
            at = key_begin + max(key_length, 0)
            value_length, at = decode_varint(data, at)
            if at + max(value_length, 0) > end or min(key_length, value_length) < -1 or offset_delta < 0:
                raise DecodeError(
                    f"a record of {length} bytes with a key of {key_length} and a value of {value_length}"
                )
            at = end
            yield Place(begin, end, timestamp_delta, offset_delta, key_begin, key_length, value_length)
    except IndexError:
        raise DecodeError("a record that is cut off") from None
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes are left behind the last record of a batch")
