"""Numbers of varying length: seven bits a byte, the lowest first, the top bit says that more follow."""

from typing import Final

from penstock.protocol.errors import DecodeError, TooManyTaggedFieldsError

Buffer = bytes | bytearray | memoryview

MAX_TAGGED_FIELDS: Final = 1_000
"""In one structure; Kafka takes 10,000, and no client is known to send more than a few."""
_MAX_BYTES_OF_UVARINT: Final = 5
_MAX_BYTES_OF_VARLONG: Final = 10


def encode_uvarint(value: int) -> bytes:
    """`value` is at least 0."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_compact(length: int) -> bytes:
    """Flexible versions write lengths plus one."""
    if length < _SHORT:
        return _SHORT_LENGTHS[length]
    length += 1
    return bytes((length & 0x7F | 0x80, length >> 7)) if length < 0x4000 else encode_uvarint(length)


_SHORT: Final = 127
_SHORT_LENGTHS: Final = [bytes((length + 1,)) for length in range(_SHORT)]


def decode_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns the next position, too. DecodeError above five bytes; IndexError if the buffer ends within the number."""
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return decode_long_uvarint(buffer, position + 1, first)


def decode_long_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The first byte, with its top bit set, was read before `position`."""
    value = first & 0x7F
    for shift in range(7, 7 * _MAX_BYTES_OF_UVARINT, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("an unsigned varint of more than five bytes")


def encode_varint(value: int) -> bytes:
    """Zigzag: 0, -1, 1, -2, … become 0, 1, 2, 3, …"""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Errors as in `decode_uvarint`. Up to ten bytes are read: this serves for Kafka's varint and varlong alike."""
    first = buffer[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    byte = buffer[position + 1]
    value = first & 0x7F | (byte & 0x7F) << 7
    position += 2
    shift = 14
    while byte > 0x7F:
        if shift == 7 * _MAX_BYTES_OF_VARLONG:
            raise DecodeError("a varint of more than ten bytes")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def check_tagged_fields(count: int) -> None:
    if count > MAX_TAGGED_FIELDS:
        raise TooManyTaggedFieldsError(f"{count} tagged fields in one structure; {MAX_TAGGED_FIELDS} may come")


def skip_tagged_fields(buffer: Buffer, position: int, count: int, end: int) -> int:
    """The position behind so many unknown tagged fields; DecodeError, or IndexError at the end."""
    check_tagged_fields(count)
    for _ in range(count):
        _, position = decode_uvarint(buffer, position)
        size, position = decode_uvarint(buffer, position)
        position += size
        if position > end:
            raise DecodeError(f"a tagged field declares a length of {size} with {end - position + size} bytes left")
    return position
