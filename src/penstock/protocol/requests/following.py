"""What a follower asks its leader, and what it is told: Fetch, versions 13 to 18, written and read by hand.

Each record that waits for all replicas pays for one request and one response. Most of a request is the same each time;
most responses hold numbers and records alone. One that holds more, such as where two logs part, is read as any message.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import TOPIC_IDS_FROM
from penstock.protocol.requests.framing import decode_response
from penstock.protocol.requests.lent_records import LentFetchResponse
from penstock.protocol.value import Value
from penstock.protocol.varint import decode_long_uvarint, decode_uvarint, encode_compact

OLDEST: Final = TOPIC_IDS_FROM
"""Older versions name topics, which may be deleted and made again meanwhile."""
REPLICA_STATE_FROM: Final = 15

_START: Final = struct.Struct(">ihhi").pack
_SESSION: Final = struct.Struct(">ii").pack
_PARTITION: Final = struct.Struct(">iiqiqix").pack
_INT32: Final = struct.Struct(">i").pack
_LIMITS: Final = struct.Struct(">iiix").pack
_REPLICA_STATE: Final = struct.Struct(">BBBiqx").pack
_NO_TAGS: Final = b"\x00"
_NO_RACK: Final = b"\x01"
_NO_TOPICS: Final = b"\x01"

_ANSWER: Final = struct.Struct(">4xBihi")
_NUMBERS: Final = struct.Struct(">ihqqqBi")
_read_answer: Final = _ANSWER.unpack_from
_read_numbers: Final = _NUMBERS.unpack_from
_read_id: Final = struct.Struct(">16s").unpack_from

Key = tuple[bytes, int]
"""The 16 bytes of a topic's id, and an index. Each fetch looks some up, and uuids are slow to hash."""


class FollowerRequest(Value):
    """The fields that all requests of a follower share."""

    client_id: str
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class Position(NamedTuple):
    """What a leader must know to go on from there, or to find where their logs part."""

    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int


class Followed(NamedTuple):
    """The records are a slice of the frame, good as long as its buffer is. `diverging` is (epoch, end offset)."""

    key: Key
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | bytes = b""
    diverging: tuple[int, int] | None = None


class FollowerResponse(NamedTuple):
    error_code: int
    session_id: int
    partitions: list[Followed]


def encode_follower_request(
    request: FollowerRequest,
    version: int,
    correlation_id: int,
    session: tuple[int, int],
    positions: Sequence[tuple[Key, Position]],
    forgotten: Sequence[Key],
) -> bytes:
    """A whole request, from its length on; `session` is (id, epoch)."""
    before, behind = _around(
        version,
        request.client_id,
        request.replica_id,
        request.replica_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
    )
    asked: dict[bytes, list[bytes]] = {}
    for (topic_id, index), (fetch_offset, log_start_offset, leader_epoch, last_fetched_epoch) in positions:
        numbers = index, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset
        asked.setdefault(topic_id, []).append(_PARTITION(*numbers, request.partition_max_bytes))
    left: dict[bytes, list[bytes]] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, []).append(_INT32(index))
    body = b"".join((before, _SESSION(*session), _topics(asked), _topics(left), behind))
    return _START(len(body) + 8, ApiKey.FETCH.value, version, correlation_id) + body


def _topics(topics: dict[bytes, list[bytes]]) -> bytes:
    if not topics:
        return _NO_TOPICS
    parts = [encode_compact(len(topics))]
    for topic_id, partitions in topics.items():
        parts += (topic_id, encode_compact(len(partitions)), *partitions, _NO_TAGS)
    return b"".join(parts)


@lru_cache
def _around(
    version: int,
    client_id: str,
    replica_id: int,
    replica_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
) -> tuple[bytes, bytes]:
    """The bytes between the correlation id and the session, and those behind the partitions."""
    client = client_id.encode()
    before = len(client).to_bytes(2, "big") + client + _NO_TAGS
    if version < REPLICA_STATE_FROM:
        before += _INT32(replica_id)
    behind = _NO_RACK
    if version < REPLICA_STATE_FROM:
        behind += _NO_TAGS
    else:
        behind += _REPLICA_STATE(1, 1, 13, replica_id, replica_epoch)  # one tagged field: its tag, its size, itself
    return before + _LIMITS(max_wait_ms, min_bytes, max_bytes), behind


def read_follower_response(frame: memoryview, version: int) -> FollowerResponse:
    """`frame` begins behind the length. Raises DecodeError."""
    try:
        plain = _read_plain(frame)
    except (struct.error, IndexError):
        plain = None  # _read_any says what is wrong
    return _read_any(frame, version) if plain is None else plain


def _read_plain(frame: memoryview) -> FollowerResponse | None:
    """None if the response holds more than numbers and records."""
    tags, _, error_code, session_id = _read_answer(frame, 0)
    topics, position = decode_uvarint(frame, _ANSWER.size)
    if tags or not topics:
        return None
    found: list[Followed] = []
    for _ in range(topics - 1):
        (topic_id,) = _read_id(frame, position)
        partitions, position = decode_uvarint(frame, position + 16)
        for _ in range(partitions - 1):
            index, error, high_watermark, _, start_offset, aborted, _ = _read_numbers(frame, position)
            position += _NUMBERS.size
            size = frame[position]
            position += 1
            if size > 127:
                size, position = decode_long_uvarint(frame, position, size)
            end = position + size - 1 if size else position
            if aborted > 1 or frame[end]:
                return None
            one = (topic_id, index), error, high_watermark, start_offset, frame[position:end], None
            found.append(tuple.__new__(Followed, one))  # as Followed(), in half the time
            position = end + 1
        if frame[position]:
            return None
        position += 1
    if position != len(frame) - 1 or frame[position]:
        return None
    return FollowerResponse(error_code, session_id, found)


def _read_any(frame: memoryview, version: int) -> FollowerResponse:
    _, response = decode_response(ApiKey.FETCH, version, frame, LentFetchResponse)
    assert isinstance(response, LentFetchResponse)
    found = []
    for topic in response.responses:
        for one in topic.partitions:
            parting = one.diverging_epoch
            diverging = None if parting.epoch < 0 else (parting.epoch, parting.end_offset)
            key = topic.topic_id.bytes, one.partition_index
            told = one.error_code, one.high_watermark, one.log_start_offset, one.records or b"", diverging
            found.append(Followed(key, *told))
    return FollowerResponse(response.error_code, response.session_id, found)
