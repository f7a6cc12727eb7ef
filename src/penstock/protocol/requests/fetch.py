"""Fetch requests and responses, versions 4 to 18: a request in a broker's words, a response in parts.

A response comes as parts: bytes, and in their places the objects that the caller passed for records that lie in a file.
The shell writes the parts one after the other, so records go from the file to the socket without being touched; the
length at the start of the first part counts them all.
"""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from penstock.protocol.codec import decode
from penstock.protocol.requests.topic_answers import NodeEndpoint, encode_endpoints_tag, encode_topic
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID, uuid_of
from penstock.protocol.varint import encode_compact

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
SESSIONS_FROM: Final = 7
RACKS_FROM: Final = 11
REPLICA_STATE_FROM: Final = 15
ENDPOINTS_FROM: Final = 16
VERSIONS: Final = range(4, 19)

_INT32: Final = struct.Struct(">i")


class FetchPartition(Message):
    index: int = field("int32", "4+", default=0)
    current_leader_epoch: int = field("int32", "9+", default=-1)
    fetch_offset: int = field("int64", "4+", default=0)
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    max_bytes: int = field("int32", "4+", default=0)


class FetchTopic(Message):
    """By name before version 13, by id from then on."""

    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "4-12", default="")
    partitions: list[FetchPartition] = array(FetchPartition, "4+", default_factory=list)


class ForgottenTopic(Message):
    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "7-12", default="")
    partitions: list[int] = array("int32", "7+", default_factory=list)


class ReplicaState(Message):
    """From version 15 on; -1 is a consumer."""

    replica_id: int = field("int32", "15+", default=-1)
    replica_epoch: int = field("int64", "15+", default=-1)


class FetchFrame(Message, versions="4-18", flexible="12+"):
    """The fields of a fetch request that a broker uses; consumers have the replica id -1."""

    cluster_id: str | None = field("string", "12+", nullable="12+", tag=0, default=None)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1, default=None)
    replica_id: int = field("int32", "4-14", default=-1)
    max_wait_ms: int = field("int32", "4+", default=0)
    min_bytes: int = field("int32", "4+", default=0)
    max_bytes: int = field("int32", "4+", default=0)
    isolation_level: int = field("int8", "4+", default=0)
    session_id: int = field("int32", "7+", default=0)
    session_epoch: int = field("int32", "7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic, "4+", default_factory=list)
    forgotten_topics: list[ForgottenTopic] = array(ForgottenTopic, "7+", default_factory=list)
    rack_id: str = field("string", "11+", default="")

    @property
    def replica_epoch(self) -> int:
        """The epoch of the broker that asks, -1 for consumers and old brokers."""
        return -1 if self.replica_state is None else self.replica_state.replica_epoch


def parse_fetch(frame: bytes | bytearray | memoryview, position: int, version: int) -> FetchFrame:
    """DecodeError if the body at `position` is not a fetch request."""
    if version >= REPLICA_STATE_FROM:
        is_one = len(frame) - position == _ONE_PARTITION.size
        found = _parse_one_partition(frame, position) if is_one else _parse_followed(frame, position)
        if found is not None:
            return found
    request, _ = decode(FetchFrame, version, frame, position)
    if request.replica_state is not None:
        request.replica_id = request.replica_state.replica_id
    return request


# Consumers that have more of one partition say so in a request of one layout: one topic, one partition, no forgotten
# topics, no rack, no tagged fields. That takes a third of the time. Followers name some partitions of some topics, and
# their own id. The codec reads any other request.
_ONE_PARTITION: Final = struct.Struct(">iiibiiB16sBiiqiqiBBBBB")
_OF_ONE_PARTITION: Final = (2, 2, 0, 0, 1, 1, 0)
"""The lengths of arrays and of the rack, each plus one, and the number of tagged fields."""


def _parse_one_partition(frame: bytes | bytearray | memoryview, position: int) -> FetchFrame | None:
    """None for bytes of any other layout."""
    asked, topic, request = _new(FetchPartition), _new(FetchTopic), _new(FetchFrame)
    try:
        (
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
            topics,
            topic_id,
            partitions,
            asked.index,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start_offset,
            asked.max_bytes,
            *behind,
        ) = _ONE_PARTITION.unpack_from(frame, position)
    except struct.error:
        return None
    if (topics, partitions, *behind) != _OF_ONE_PARTITION:
        return None
    topic.name, topic.topic_id, topic.partitions = "", uuid_of(topic_id), [asked]
    request.topics, request.forgotten_topics = [topic], []
    request.rack_id, request.cluster_id, request.replica_state, request.replica_id = "", None, None, -1
    return request


_FOLLOWED_HEAD: Final = struct.Struct(">iiibiiB")
_FOLLOWED_TOPIC: Final = struct.Struct(">16sB")
_FOLLOWED_PARTITION: Final = struct.Struct(">iiqiqiB")
_FOLLOWED_TAIL: Final = struct.Struct(">BBBBBiqB")
_read_followed_partition: Final = _FOLLOWED_PARTITION.unpack_from
_BEFORE_REPLICA: Final = (1, 1, 1, 1, 13)
"""No forgotten topics, no rack; one tagged field: its tag, its size, and (replica, its epoch)."""
_LONG: Final = 128


def _parse_followed(frame: bytes | bytearray | memoryview, position: int) -> FetchFrame | None:
    """A follower's request of the plainest form; None for any other bytes."""
    request, replica = _new(FetchFrame), _new(ReplicaState)
    try:
        (
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
            topics,
        ) = _FOLLOWED_HEAD.unpack_from(frame, position)
        position += _FOLLOWED_HEAD.size
        request.topics = []
        for _ in range(topics - 1):
            topic_id, count = _FOLLOWED_TOPIC.unpack_from(frame, position)
            partitions, position = _parse_partitions(frame, position + _FOLLOWED_TOPIC.size, count)
            topic = _new(FetchTopic)
            topic.name, topic.topic_id, topic.partitions = "", uuid_of(topic_id), partitions
            request.topics.append(topic)
        *before, replica.replica_id, replica.replica_epoch, tags = _FOLLOWED_TAIL.unpack_from(frame, position)
    except (struct.error, _NotPlainError):
        return None
    if tags or not 0 < topics < _LONG or tuple(before) != _BEFORE_REPLICA:
        return None
    request.forgotten_topics, request.rack_id, request.cluster_id = [], "", None
    request.replica_state, request.replica_id = replica, replica.replica_id
    return request


class _NotPlainError(Exception):
    """The codec has to read these bytes."""


def _parse_partitions(
    frame: bytes | bytearray | memoryview, position: int, count: int
) -> tuple[list[FetchPartition], int]:
    """Returns the position of the next topic, too."""
    found = []
    for _ in range(count - 1):
        asked = _new(FetchPartition)
        (
            asked.index,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start_offset,
            asked.max_bytes,
            tags,
        ) = _read_followed_partition(frame, position)
        if tags:
            raise _NotPlainError
        position += _FOLLOWED_PARTITION.size
        found.append(asked)
    if not 0 < count < _LONG or position >= len(frame) or frame[position]:
        raise _NotPlainError
    return found, position + 1


_new: Final = object.__new__


class RecordsPlaceholder(Protocol):
    """Records that lie elsewhere, for instance in a file."""

    def __len__(self) -> int: ...

    def read(self) -> bytes:
        """OSError, or fewer bytes, where they cannot be read."""
        ...


Part = bytes | RecordsPlaceholder


@dataclass(slots=True, eq=False)
class FetchPartitionResult:
    """`aborted`: (producer id, first offset, …) of aborted transactions, for readers of committed records; None for
    others. `diverging_epoch` is (epoch, end offset), `current_leader` is (id, epoch); both travel from version
    12 on. `preferred_replica` is the broker to read from instead, -1 for this one; it travels from version 11 on.
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Part = b""
    aborted: Sequence[tuple[int, ...]] | None = None
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    preferred_replica: int = -1


TopicResults = Collection[tuple[str | UUID, Sequence[FetchPartitionResult]]]
"""By topic: its name before version 13, its id from then on."""

_RESPONSE_START: Final = struct.Struct(">iii")
_RESPONSE_START_SESSION: Final = struct.Struct(">iiihi")
_RESPONSE_START_FLEXIBLE: Final = struct.Struct(">iixihi")
# What stands before the records: numbers, aborted transactions, from version 11 on the preferred replica.
_NUMBERS_4: Final = struct.Struct(">ihqqi").pack
_NUMBERS_5: Final = struct.Struct(">ihqqqi").pack
_NUMBERS_11: Final = struct.Struct(">ihqqqii").pack
_NUMBERS_FLEXIBLE: Final = struct.Struct(">ihqqqBi").pack
_NUMBERS_ALONE: Final = struct.Struct(">ihqqq").pack
_ABORTED: Final = struct.Struct(">qq").pack
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqx").pack
_DIVERGING: Final = struct.Struct(">BBiqx")
_DIVERGING_TAG: Final = 0
_DIVERGING_BYTES: Final = 13
_LEADER: Final = struct.Struct(">BBiix")
_LEADER_TAG: Final = 1
_LEADER_BYTES: Final = 9
SMALL_BYTES: Final = 4096
"""Records up to this size are read into the response: a part of their own would cost more."""
MAX_SMALL_BYTES: Final = 64 * 1024
"""At most so many bytes of small records in one response; more stay in the file, as large ones do."""


def encode_fetch_response(
    topics: TopicResults,
    version: int,
    correlation_id: int,
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """The parts of a whole response, from its length on. Small records become part of the bytes around them; others are
    put into the list as they are, and so are those that cannot be read: the sender fails then. `endpoints` are those of
    the leaders that the results name, from version 16 on.
    """
    flexible = version >= FLEXIBLE_FROM
    end, count = (b"\x00", encode_compact) if flexible else (b"", _INT32.pack)
    parts: list[Part] = []
    size, room = 0, MAX_SMALL_BYTES
    run = [count(len(topics))]
    for topic, results in topics:
        run.append(encode_topic(topic, flexible, len(results)))
        for result in results:
            records, length = result.records, len(result.records)
            run += (_numbers(result, version), count(length))
            if 0 < length <= SMALL_BYTES and length <= room:
                room -= length
                records = _in_memory(records)
            if isinstance(records, bytes):
                run.append(records)
            elif length:
                parts += (before := b"".join(run), records)
                size += len(before) + length
                run = []
            if flexible:
                is_plain = result.diverging_epoch is None and result.current_leader is None
                run.append(end if is_plain else _tags(result))
        run.append(end)
    run.append(encode_endpoints_tag(endpoints) if endpoints and version >= ENDPOINTS_FROM else end)
    last = b"".join(run)
    start = _start(size + len(last), version, correlation_id, throttle_time_ms, error_code, session_id)
    if not parts:
        return [start + last]
    first, *others = parts
    assert isinstance(first, bytes)
    return [start + first, *others, last] if last else [start + first, *others]


def _in_memory(records: Part) -> Part:
    """Small records as bytes, if they can be read."""
    if isinstance(records, bytes):
        return records
    try:
        data = records.read()
    except OSError:
        return records
    return data if len(data) == len(records) else records


def _start(
    length: int, version: int, correlation_id: int, throttle_time_ms: int, error_code: int, session_id: int
) -> bytes:
    """The bytes before the count of topics; `length` more follow them."""
    if version < SESSIONS_FROM:
        return _RESPONSE_START.pack(length + _RESPONSE_START.size - 4, correlation_id, throttle_time_ms)
    layout = _RESPONSE_START_FLEXIBLE if version >= FLEXIBLE_FROM else _RESPONSE_START_SESSION
    return layout.pack(length + layout.size - 4, correlation_id, throttle_time_ms, error_code, session_id)


def _numbers(p: FetchPartitionResult, version: int) -> bytes:
    if p.aborted:
        return _numbers_with_aborted(p, p.aborted, version)
    aborted = -1 if p.aborted is None else 0
    if version >= FLEXIBLE_FROM:
        return _NUMBERS_FLEXIBLE(
            p.index,
            p.error_code,
            p.high_watermark,
            p.last_stable_offset,
            p.log_start_offset,
            aborted + 1,
            p.preferred_replica,
        )
    if version >= 5:
        numbers = p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset, aborted
        return _NUMBERS_11(*numbers, p.preferred_replica) if version >= 11 else _NUMBERS_5(*numbers)
    return _NUMBERS_4(p.index, p.error_code, p.high_watermark, p.last_stable_offset, aborted)


def _numbers_with_aborted(p: FetchPartitionResult, aborted: Sequence[tuple[int, ...]], version: int) -> bytes:
    """Only transactions that a Kafka broker has left in its files are aborted, so this is seldom asked for."""
    numbers = _NUMBERS_ALONE(p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset)
    if version < 5:
        numbers = numbers[:-8]
    flexible = version >= FLEXIBLE_FROM
    pack, count = (_ABORTED_FLEXIBLE, encode_compact) if flexible else (_ABORTED, _INT32.pack)
    items = b"".join(pack(producer_id, first_offset) for producer_id, first_offset, *_ in aborted)
    return numbers + count(len(aborted)) + items + (_INT32.pack(p.preferred_replica) if version >= 11 else b"")


def _tags(result: FetchPartitionResult) -> bytes:
    """The fields behind the records, which most results do not have."""
    diverging, leader = result.diverging_epoch, result.current_leader
    fields = b""
    if diverging is not None:
        fields += _DIVERGING.pack(_DIVERGING_TAG, _DIVERGING_BYTES, *diverging)
    if leader is not None:
        fields += _LEADER.pack(_LEADER_TAG, _LEADER_BYTES, *leader)
    return bytes([(diverging is not None) + (leader is not None)]) + fields
