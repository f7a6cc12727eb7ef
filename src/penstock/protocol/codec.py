"""Messages to bytes and back, through readers and writers that are compiled at first use for each class and version.

`decode` trusts nothing: each declared length is checked against the bytes that are left before anything is allocated,
and what does not fit is a DecodeError. In a large buffer the items of all arrays are counted, too (decision 0102).
`encode` leaves out the fields that a version lacks; None in a version that cannot carry it is written as empty. Tagged
fields that the declaration does not know are skipped.
"""

import struct
from typing import Final, TypeVar

from penstock.protocol import compile_reader, compile_writer
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, is_request

M = TypeVar("M", bound=Message)

LARGE_BYTES: Final = 16 * 1024
"""Small structures become up to 40 times their bytes in objects: bearable up to here, counted from here on."""
MAX_ITEMS: Final = 1_000_000
"""Items that the arrays, and tagged fields, of one large message may be together."""
MAX_REQUEST_ITEMS: Final = 200_000
"""The same for a request: any client may send one, and each item is work for a node."""

_MALFORMED = (struct.error, IndexError, UnicodeDecodeError)


def make_ready(request: type[Message], response: type[Message], version: int) -> None:
    """Compile what a client needs for such a request, before it has one: that takes some ms."""
    request.__writers__[version] = compile_writer.compile_writer(request, version)
    response.__readers__[version] = compile_reader.compile_reader(response, version, max_items=None)


def encode(message: Message, version: int) -> bytes:
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)


def encode_into(out: bytearray, message: Message, version: int) -> None:
    """ValueError for a version that the message does not have or a value out of range."""
    writer = message.__writers__.get(version)
    if writer is None:
        writer = compile_writer.compile_writer(type(message), version)
        message.__writers__[version] = writer
    try:
        writer(out, message)
    except struct.error as error:
        raise ValueError(f"{type(message).__name__} version {version}: {error}") from error


def decode(
    cls: type[M],
    version: int,
    buffer: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    most: int | None = None,
) -> tuple[M, int]:
    """DecodeError for wrong bytes; ValueError for an unknown version. The result does not refer to the buffer.

    `most` items are read, TooManyItemsError; by default as many as a message of that size may have.
    """
    if most is None and len(buffer) - position > LARGE_BYTES:
        most = MAX_REQUEST_ITEMS if is_request(cls) else MAX_ITEMS
    key = version if most is None else (version, most)
    reader = cls.__readers__.get(key)
    if reader is None:
        reader = cls.__readers__[key] = compile_reader.compile_reader(cls, version, max_items=most)
    try:
        message, end = reader(buffer, position, len(buffer))
    except _MALFORMED as error:
        raise DecodeError(f"{cls.__name__} version {version}: {error}") from error
    return message, end
