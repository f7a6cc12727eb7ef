"""Produce requests and responses, versions 3 to 13: each produced batch pays for what is done here.

Records are slices of the frame and never copied. A response is put together from the answers for single partitions,
which are bytes from the beginning: nothing but numbers where records were appended.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from penstock.protocol.batch import ATTRIBUTES_AT, TRANSACTIONAL
from penstock.protocol.codec import decode
from penstock.protocol.requests.topic_answers import (
    NodeEndpoint,
    encode_count,
    encode_endpoints_tag,
    encode_string,
    encode_topic,
)
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID, uuid_of
from penstock.protocol.varint import decode_long_uvarint

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
VERSIONS: Final = range(3, 14)

START_OFFSET_FROM: Final = 5
ERRORS_FROM: Final = 8
LEADER_FROM: Final = 10

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FLAGS_AT: Final = ATTRIBUTES_AT + 1


class ProducePartition(Message):
    """One batch, which is still to be checked."""

    index: int = field("int32", "3+", default=0)
    records: memoryview | None = field("slice", "3+", nullable="3+", default=None)


class ProduceTopic(Message):
    """By name before version 13, by id from then on."""

    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "3-12", default="")
    partitions: list[ProducePartition] = array(ProducePartition, "3+", default_factory=list)


class ProduceFrame(Message, versions="3-13", flexible="9+"):
    transactional_id: str | None = field("string", "3+", nullable="3+", default=None)
    acks: int = field("int16", "3+", default=0)
    timeout_ms: int = field("int32", "3+", default=0)
    topics: list[ProduceTopic] = array(ProduceTopic, "3+", default_factory=list)


class Produced(NamedTuple):
    """`topics`: by name, from version 13 on by id, the partitions with their records. `is_transactional`: one of the
    batches says that it is of a transaction.
    """

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str | UUID, Sequence[tuple[int, memoryview | None]]]]
    is_transactional: bool


def parse_produce(frame: memoryview, position: int, version: int, *, most: int | None = None) -> Produced:
    """DecodeError for a wrong body, TooManyItemsError where it has more than `most` topics and partitions.

    The records are slices of `frame`, good as long as its buffer is.
    """
    if version >= FLEXIBLE_FROM:
        found = _parse_one_batch(frame, position, version)
        if found is not None:
            return found
    request, _ = decode(ProduceFrame, version, frame, position, most=most)
    by_id = version >= TOPIC_IDS_FROM
    topics = [
        (topic.topic_id if by_id else topic.name, [(wanted.index, wanted.records) for wanted in topic.partitions])
        for topic in request.topics
    ]
    is_transactional = any(_is_transactional(batch) for _, asked in topics for _, batch in asked)
    return Produced(request.transactional_id, request.acks, request.timeout_ms, topics, is_transactional)


def _is_transactional(batch: memoryview | None) -> bool:
    return batch is not None and len(batch) > _FLAGS_AT and bool(batch[_FLAGS_AT] & TRANSACTIONAL)


# Most requests have one batch and no transaction. Their start, up to the records, is the same again and again, so it is
# read once: no transactional id, acks, timeout, one topic, (the length of) its name, one partition, its index. The
# codec reads any other request.
_START_HEAD: Final = struct.Struct(">BhiB")
_START_TAIL: Final = struct.Struct(">Bi")
_LENGTH_AT: Final = _START_HEAD.size
_WITHOUT_NAME: Final = _START_HEAD.size + _START_TAIL.size
_WITH_ID: Final = _WITHOUT_NAME + 16
_STARTS_KEPT: Final = 4096


def _parse_one_batch(frame: memoryview, position: int, version: int) -> Produced | None:
    """The request if it has one batch, in the plainest form; None for any other bytes."""
    try:
        # The length of a name is written as one more than it is, which accounts for its own byte.
        at = position + (_WITH_ID if version >= TOPIC_IDS_FROM else _WITHOUT_NAME + frame[position + _LENGTH_AT])
        size = frame[at]
        start = _read_start(bytes(frame[position:at]), version >= TOPIC_IDS_FROM)
        at += 1
        if size > 127:
            size, at = decode_long_uvarint(frame, at, size)
    except (IndexError, struct.error, UnicodeDecodeError):
        return None
    end = at + size - 1
    if start is None or size == 0 or frame[end:] != _NO_TAGS:
        return None
    acks, timeout_ms, topic, index = start
    is_transactional = size - 1 > _FLAGS_AT and frame[at + _FLAGS_AT] & TRANSACTIONAL != 0
    produced = None, acks, timeout_ms, ((topic, ((index, frame[at:end]),)),), is_transactional
    return tuple.__new__(Produced, produced)  # as Produced(), in half the time


_NO_TAGS: Final = memoryview(b"\x00\x00\x00")
"""No tagged fields behind the records: of the partition, its topic and the request."""


@lru_cache(_STARTS_KEPT)
def _read_start(start: bytes, by_id: bool) -> tuple[int, int, str | UUID, int] | None:
    """Acks, timeout, topic and partition; None for bytes that are no start."""
    no_transaction, acks, timeout_ms, topics = _START_HEAD.unpack_from(start)
    partitions, index = _START_TAIL.unpack_from(start, len(start) - _START_TAIL.size)
    topic = start[_START_HEAD.size : len(start) - _START_TAIL.size]
    if no_transaction != 0 or topics != 2 or partitions != 2:
        return None
    if by_id:
        return acks, timeout_ms, uuid_of(topic), index
    if not 0 < topic[0] == len(topic) < 128:
        return None
    return acks, timeout_ms, str(topic[1:], "utf-8"), index


# The answer for one partition by version. Behind the numbers stand no record errors, no message and no tagged fields.
_NUMBERS: Final = struct.Struct(">ihqq")
_NUMBERS_AND_START: Final = struct.Struct(">ihqqq")
_NO_MORE: Final = {
    version: b"\x01\x00\x00" if version >= FLEXIBLE_FROM else b"\x00\x00\x00\x00\xff\xff" if version >= 8 else b""
    for version in VERSIONS
}
_START: Final = struct.Struct(">ii")
_START_FLEXIBLE: Final = struct.Struct(">iix")
_LEADER_TAG: Final = struct.Struct(">BBBiix")
_NOT_THROTTLED: Final = b"\x00\x00\x00\x00"
_NOT_THROTTLED_FLEXIBLE: Final = _NOT_THROTTLED + b"\x00"
LONG_BYTES: Final = 16 * 1024


def encode_appended(
    version: int, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
) -> bytes:
    if version >= START_OFFSET_FROM:
        return _NUMBERS_AND_START.pack(index, 0, base_offset, log_append_time_ms, log_start_offset) + _NO_MORE[version]
    return _NUMBERS.pack(index, 0, base_offset, log_append_time_ms) + _NO_MORE[version]


def encode_appended_elsewhere(
    version: int, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int, leader: tuple[int, int]
) -> bytes:
    """The answer of the new leader, `leader`, (id, epoch), which has appended the records."""
    answer = encode_appended(version, index, base_offset, log_append_time_ms, log_start_offset)
    return answer if version < LEADER_FROM else answer[:-1] + _LEADER_TAG.pack(1, 0, 9, *leader)


def encode_refused(
    version: int,
    index: int,
    error_code: int,
    message: str | None = None,
    record_errors: Sequence[tuple[int, str | None]] = (),
    current_leader: tuple[int, int] | None = None,
) -> bytes:
    """`record_errors` are (index in the batch, message); `current_leader` is (id, epoch). Versions may lack fields."""
    out = bytearray(_NUMBERS.pack(index, error_code, -1, -1))
    if version >= START_OFFSET_FROM:
        out += _INT64.pack(-1)
    if version >= ERRORS_FROM:
        flexible = version >= FLEXIBLE_FROM
        out += encode_count(len(record_errors), flexible)
        for record, text in record_errors:
            out += _INT32.pack(record) + encode_string(text, flexible)
            if flexible:
                out += b"\x00"
        out += encode_string(message, flexible)
        if flexible and (version < LEADER_FROM or current_leader is None):
            out += b"\x00"
        elif flexible and current_leader is not None:
            out += _LEADER_TAG.pack(1, 0, 9, *current_leader)
    return bytes(out)


def encode_produce_response(
    topics: Sequence[tuple[str | UUID, list[bytes]]],
    version: int,
    correlation_id: int,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes]:
    """The response begins with its length. `endpoints` are those of the leaders that the answers name. A long one has
    two parts, the second of which begins with the time for which its client is throttled.
    """
    flexible = version >= FLEXIBLE_FROM
    end = b"\x00" if flexible else b""
    parts = [encode_count(len(topics), flexible)]
    for topic, partitions in topics:
        parts.append(encode_topic(topic, flexible, len(partitions)))
        parts += partitions
        parts.append(end)
    body = b"".join(parts)
    tail = _NOT_THROTTLED_FLEXIBLE if flexible else _NOT_THROTTLED
    if endpoints and version >= LEADER_FROM:
        tail = _NOT_THROTTLED + encode_endpoints_tag(endpoints)
    start = _START_FLEXIBLE if flexible else _START
    head = start.pack(start.size - _INT32.size + len(body) + len(tail), correlation_id) + body
    return [head, tail] if len(body) > LONG_BYTES else [head + tail]
