"""What clients of the store and its servers say to each other.

Between servers, and for the administrator, it is Kafka's own protocol: Vote, Fetch, AddRaftVoter and their like. Kafka
has no requests that set and get a value, so these are ours, with keys where Kafka will have none, in Kafka's frames:
four bytes of length, a header, a message.
"""

import struct
from dataclasses import dataclass
from typing import Final

from penstock.protocol.codec import decode, encode_into
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.schema import Message, field
from penstock.protocol.schema import struct as structure

VERSION: Final = 0
MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
_REQUEST: Final = struct.Struct(">ihhih")
_RESPONSE: Final = struct.Struct(">ii")
_NO_CLIENT_ID: Final = -1


class Leader(Message):
    """Who leads, as far as the answering server knows; the id is -1 if it does not."""

    id: int = field("int32", "0+", default=-1)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)


class OpenRequest(Message, versions="0"):
    """Begin a session: within it a set that is tried again is applied once."""


class OpenResponse(Message, versions="0"):
    """The session, by its number."""

    error_code: int = field("int16", "0+", default=0)
    leader: Leader = structure(Leader, "0+", default_factory=Leader)
    session: int = field("int64", "0+", default=-1)


class SetRequest(Message, versions="0"):
    """Let the key have this value. Each set of a session has a greater sequence, the same when it is tried again."""

    session: int = field("int64", "0+", default=-1)
    sequence: int = field("int64", "0+", default=0)
    key: bytes = field("bytes", "0+", default=b"")
    value: bytes = field("bytes", "0+", default=b"")


class SetResponse(Message, versions="0"):
    """Done, unless there is an error."""

    error_code: int = field("int16", "0+", default=0)
    leader: Leader = structure(Leader, "0+", default_factory=Leader)


class GetRequest(Message, versions="0"):
    """Which value has the key?"""

    key: bytes = field("bytes", "0+", default=b"")


class GetResponse(Message, versions="0"):
    """The value; None if the key has none."""

    error_code: int = field("int16", "0+", default=0)
    leader: Leader = structure(Leader, "0+", default_factory=Leader)
    value: bytes | None = field("bytes", "0+", nullable="0+", default=None)


Request = OpenRequest | SetRequest | GetRequest
Response = OpenResponse | SetResponse | GetResponse


@dataclass(frozen=True, slots=True)
class KvApi:
    """One kind of request and its answer."""

    key: int
    request: type[Request]
    response: type[Response]


APIS: Final = (
    KvApi(20_000, OpenRequest, OpenResponse),
    KvApi(20_001, SetRequest, SetResponse),
    KvApi(20_002, GetRequest, GetResponse),
)
BY_KEY: Final = {api.key: api for api in APIS}
BY_REQUEST: Final[dict[type[Message], KvApi]] = {api.request: api for api in APIS}

RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The next try, at the same server or another, may fare better."""
UNKNOWN_SESSION: Final = ErrorCode.UNKNOWN_PRODUCER_ID
"""The store has forgotten the session; whether an earlier try of the same set was applied is unknown."""


def encode_request(request: Request, correlation_id: int) -> bytes:
    """A whole request, from its length on."""
    out = bytearray(_REQUEST.pack(0, BY_REQUEST[type(request)].key, VERSION, correlation_id, _NO_CLIENT_ID))
    return _framed(out, request)


def encode_response(response: Response, correlation_id: int) -> bytes:
    """A whole response, from its length on."""
    return _framed(bytearray(_RESPONSE.pack(0, correlation_id)), response)


def decode_response(api: KvApi, frame: bytes) -> tuple[int, Response]:
    """The correlation id and the response in a frame without its length. Raises DecodeError."""
    if len(frame) < 4:
        raise DecodeError(f"a response of {len(frame)} bytes")
    response, end = decode(api.response, VERSION, frame, 4)
    if end != len(frame):
        raise DecodeError(f"{len(frame) - end} bytes are left behind a response")
    return int.from_bytes(frame[:4], "big", signed=True), response


def _framed(out: bytearray, message: Message) -> bytes:
    encode_into(out, message, VERSION)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)
