"""Requests and responses as they travel: four bytes of length, a header, a message.

The header of a response says which request it answers and nothing else, so a reader must remember what it asked.
"""

import struct
from operator import add
from typing import Any, Final, NamedTuple, Self

from penstock.protocol.codec import decode, encode_into
from penstock.protocol.errors import DecodeError
from penstock.protocol.requests.api import FLEXIBLE_FROM, KEYS, NEVER, Api, ApiKey, api_of
from penstock.protocol.requests.fetch import Part, RecordsPlaceholder
from penstock.protocol.schema import Message
from penstock.protocol.varint import Buffer, decode_uvarint, skip_tagged_fields

_LENGTH: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">hhih")
_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_RESPONSE_PREFIX: Final = struct.Struct(">ii")
_RESPONSE_PREFIX_FLEXIBLE: Final = struct.Struct(">iix")
_START_BYTES: Final = _REQUEST_START.size


_unpack_request_start: Final = _REQUEST_START.unpack_from
_flexible_from: Final = FLEXIBLE_FROM.get


class Traffic(NamedTuple):
    """What went over a connection."""

    requests: int = 0
    answers: int = 0
    bytes_out: int = 0
    bytes_in: int = 0

    def plus(self, other: "Traffic") -> "Traffic":
        return Traffic(*map(add, self, other))


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """For any key and version; returns the position of the body, too. DecodeError."""
    *header, position = read_request_header(frame, position)
    return RequestHeader._make(header), position


def read_request_header(frame: Buffer, position: int = 0) -> tuple[int, int, int, str | None, int]:
    """As `parse_request_header`, without names for the fields: in half the time."""
    try:
        api_key, version, correlation_id, length = _unpack_request_start(frame, position)
        position += _START_BYTES
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise DecodeError(f"a client id of {length} bytes with {len(frame) - position} left")
            client_id = str(frame[position:end], "utf-8")
            position = end
        if version >= _flexible_from(api_key, NEVER):
            position = skip_header_fields(frame, position) if frame[position] else position + 1
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return api_key, version, correlation_id, client_id, position


def skip_header_fields(frame: Buffer, position: int) -> int:
    """The position behind the tagged fields of a header, none of which is known; DecodeError, IndexError at the end."""
    count, position = decode_uvarint(frame, position)
    return skip_tagged_fields(frame, position, count, len(frame))


def api_of_request(message: Message) -> Api:
    name = type(message).__name__.removesuffix("Request")
    api = _APIS_BY_NAME.get(name)
    assert api is not None, f"{type(message).__name__} is not a request"
    return api


_APIS_BY_NAME: Final = {api.name: api for api in map(api_of, KEYS)}


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The request begins with its length."""
    api = api_of_request(message)
    client = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(client)
    out = bytearray(_REQUEST_PREFIX.pack(0, api.key, version, correlation_id, length))
    out += client
    if version >= api.flexible_from:
        out += b"\x00"
    encode_into(out, message, version)
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return bytes(out)


def encode_response(message: Message, api_key: int, version: int, correlation_id: int) -> bytes:
    """The response begins with its length."""
    is_flexible = version >= _FLEXIBLE_RESPONSE_FROM.get(api_key, NEVER)
    out = bytearray((_RESPONSE_PREFIX_FLEXIBLE if is_flexible else _RESPONSE_PREFIX).pack(0, correlation_id))
    encode_into(out, message, version)
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return bytes(out)


def encode_response_in_parts(message: Message, api_key: int, version: int, correlation_id: int) -> list[Part]:
    """The same, where a field for records may have some that lie elsewhere: they are parts of their own."""
    is_flexible = version >= _FLEXIBLE_RESPONSE_FROM.get(api_key, NEVER)
    out = _Parted((_RESPONSE_PREFIX_FLEXIBLE if is_flexible else _RESPONSE_PREFIX).pack(0, correlation_id))
    encode_into(out, message, version)
    size = len(out) + sum(len(records) for _, records in out.elsewhere)
    _LENGTH.pack_into(out, 0, size - _LENGTH.size)
    parts, begin = list[Part](), 0
    for end, records in out.elsewhere:
        parts += (bytes(out[begin:end]), records)
        begin = end
    return [*parts, bytes(out[begin:])]


class _Parted(bytearray):
    """Has the places of what lies elsewhere, where that was to be appended."""

    __slots__ = ("elsewhere",)

    def __init__(self, beginning: bytes) -> None:
        super().__init__(beginning)
        self.elsewhere: list[tuple[int, RecordsPlaceholder]] = []

    def __iadd__(self, more: Any) -> Self:  # type: ignore[misc]  # more may be added to it than to others
        if isinstance(more, bytes | bytearray):
            return super().__iadd__(more)
        self.elsewhere.append((len(self), more))
        return self


def frame_response(body: bytes, api_key: int, version: int, correlation_id: int) -> bytes:
    """The response begins with its length; `body` is an encoded message."""
    if version >= _FLEXIBLE_RESPONSE_FROM.get(api_key, NEVER):
        return _RESPONSE_PREFIX_FLEXIBLE.pack(len(body) + 5, correlation_id) + body
    return _RESPONSE_PREFIX.pack(len(body) + 4, correlation_id) + body


_FLEXIBLE_RESPONSE_FROM: Final = FLEXIBLE_FROM | {ApiKey.API_VERSIONS: NEVER}
"""The header before a response of ApiVersions is always the old one: its reader does not know the versions yet."""


def decode_response(api_key: int, version: int, frame: Buffer, cls: type[Message] | None = None) -> tuple[int, Message]:
    """`frame` begins behind the length; `cls` replaces the API's response class. Raises DecodeError."""
    api = api_of(api_key)
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame, 0)
        position = _LENGTH.size
        if api.response_header_version(version) == 1:
            position = skip_header_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    message, _ = decode(cls or api.response_class, version, frame, position)
    return correlation_id, message
