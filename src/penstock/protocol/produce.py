"""Produce requests and responses, versions 3 to 13: each produced batch pays for what is done here.

Records are slices of the frame and never copied. The usual response, in which no partition has more to say than
numbers, is packed by hand; any other goes through the codec.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Final
from uuid import UUID

from penstock.protocol.api import ApiKey
from penstock.protocol.codec import decode
from penstock.protocol.framing import encode_response
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.varint import encode_uvarint

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
VERSIONS: Final = range(3, 14)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class ProducePartition(Message):
    """The records for one partition: one batch, which is still to be checked."""

    index: int = field("int32", "3+", default=0)
    records: memoryview | None = field("slice", "3+", nullable="3+", default=None)


class ProduceTopic(Message):
    """What a request holds for one topic: by name before version 13, by id from then on."""

    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "3-12", default="")
    partitions: list[ProducePartition] = array(ProducePartition, "3+", default_factory=list)


class ProduceFrame(Message, versions="3-13", flexible="9+"):
    """A produce request whose records still lie in its frame."""

    transactional_id: str | None = field("string", "3+", nullable="3+", default=None)
    acks: int = field("int16", "3+", default=0)
    timeout_ms: int = field("int32", "3+", default=0)
    topics: list[ProduceTopic] = array(ProduceTopic, "3+", default_factory=list)


@dataclass(slots=True)
class PartitionResult:
    """The answer for one partition. `record_errors` are (index of the record in its batch, message)."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


@dataclass(slots=True)
class ProduceTopicResult:
    """The answer for one topic."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = dataclass_field(default_factory=list)


def parse_produce(frame: memoryview, position: int, version: int) -> ProduceFrame:
    """Return the request whose body starts at a position of its frame; DecodeError if it is not one.

    The records are slices of `frame`: they are good as long as its buffer is.
    """
    request, _ = decode(ProduceFrame, version, frame, position)
    return request


_LENGTH_CORRELATION: Final = struct.Struct(">ii")
_NUMBERS: Final = struct.Struct(">ihqq")
_NUMBERS_AND_START: Final = struct.Struct(">ihqqq")
# Behind the numbers: no record errors, no error message, and in flexible form no tagged fields.
_NO_MORE: Final = dict.fromkeys(range(3, 8), b"") | {8: b"\x00\x00\x00\x00\xff\xff"}
_NO_MORE_FLEXIBLE: Final = b"\x01\x00\x00"


def encode_produce_response(
    results: Sequence[ProduceTopicResult], version: int, correlation_id: int, throttle_time_ms: int = 0
) -> bytes:
    """Return a whole response, from its length on."""
    if any(p.record_errors or p.error_message or p.current_leader for topic in results for p in topic.partitions):
        return _encode_by_codec(results, version, correlation_id, throttle_time_ms)
    flexible = version >= FLEXIBLE_FROM
    no_more = _NO_MORE_FLEXIBLE if flexible else _NO_MORE[version]
    out = bytearray(_LENGTH_CORRELATION.pack(0, correlation_id))
    if flexible:
        out += b"\x00"
    out += _count(len(results), flexible)
    for topic in results:
        out += _topic(topic, version)
        out += _count(len(topic.partitions), flexible)
        for p in topic.partitions:
            if version >= 5:
                out += _NUMBERS_AND_START.pack(
                    p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset
                )
            else:
                out += _NUMBERS.pack(p.index, p.error_code, p.base_offset, p.log_append_time_ms)
            out += no_more
        if flexible:
            out += b"\x00"
    out += _INT32.pack(throttle_time_ms)
    if flexible:
        out += b"\x00"
    _INT32.pack_into(out, 0, len(out) - _INT32.size)
    return bytes(out)


def _count(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)


def _topic(topic: ProduceTopicResult, version: int) -> bytes:
    if version >= TOPIC_IDS_FROM:
        return topic.topic_id.bytes
    name = topic.name.encode()
    length = encode_uvarint(len(name) + 1) if version >= FLEXIBLE_FROM else _INT16.pack(len(name))
    return length + name


def _encode_by_codec(
    results: Sequence[ProduceTopicResult], version: int, correlation_id: int, throttle_time_ms: int
) -> bytes:
    from penstock.protocol.messages import produce

    def partition(result: PartitionResult) -> produce.PartitionProduceResponse:
        errors = [
            produce.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        ]
        leader_id, leader_epoch = result.current_leader or (-1, -1)
        return produce.PartitionProduceResponse(
            index=result.index,
            error_code=result.error_code,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
            record_errors=errors,
            error_message=result.error_message,
            current_leader=produce.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        )

    responses = [
        produce.TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[partition(result) for result in topic.partitions],
        )
        for topic in results
    ]
    message = produce.ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)
    return encode_response(message, ApiKey.PRODUCE, version, correlation_id)
