"""Fetch requests and responses, versions 4 to 18: a request in a broker's words, a response in parts.

A response comes as parts: bytes, and in their places the objects that the caller passed for records that lie in a file.
The shell writes the parts one after the other, so records go from the file to the socket without being touched; the
length at the start of the first part counts them all.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Final, Protocol
from uuid import UUID

from penstock.protocol.codec import decode
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.varint import encode_uvarint

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
SESSIONS_FROM: Final = 7
VERSIONS: Final = range(4, 19)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class FetchPartition(Message):
    """What is asked of one partition."""

    index: int = field("int32", "4+", default=0)
    current_leader_epoch: int = field("int32", "9+", default=-1)
    fetch_offset: int = field("int64", "4+", default=0)
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    max_bytes: int = field("int32", "4+", default=0)


class FetchTopic(Message):
    """What is asked of one topic: by name before version 13, by id from then on."""

    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "4-12", default="")
    partitions: list[FetchPartition] = array(FetchPartition, "4+", default_factory=list)


class ForgottenTopic(Message):
    """Partitions that leave an incremental session."""

    topic_id: UUID = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "7-12", default="")
    partitions: list[int] = array("int32", "7+", default_factory=list)


class ReplicaState(Message):
    """Which replica fetches, from version 15 on; -1 is a consumer."""

    replica_id: int = field("int32", "15+", default=-1)
    replica_epoch: int = field("int64", "15+", default=-1)


class FetchFrame(Message, versions="4-18", flexible="12+"):
    """A fetch request with what a broker uses of it; consumers have the replica id -1."""

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
    """Return the request whose body starts at a position of its frame; DecodeError if it is not one."""
    request, _ = decode(FetchFrame, version, frame, position)
    if request.replica_state is not None:
        request.replica_id = request.replica_state.replica_id
    return request


class RecordsPlaceholder(Protocol):
    """Records that lie elsewhere, for instance in a file: all that a response must know is how many bytes they are."""

    @property
    def length(self) -> int:
        """How many bytes will be put in this place."""


Part = bytes | bytearray | memoryview | RecordsPlaceholder


@dataclass(slots=True)
class FetchPartitionResult:
    """The answer for one partition.

    `aborted_transactions` are (producer id, first offset), None for readers of uncommitted records; `diverging_epoch`
    is (epoch, end offset), `current_leader` (id, epoch): both travel from version 12 on.
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes | bytearray | memoryview | RecordsPlaceholder | None = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


@dataclass(slots=True)
class FetchTopicResult:
    """The answer for one topic."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: list[FetchPartitionResult] = dataclass_field(default_factory=list)


_RESPONSE_START: Final = struct.Struct(">iii")
_RESPONSE_START_SESSION: Final = struct.Struct(">iiihi")
_RESPONSE_START_FLEXIBLE: Final = struct.Struct(">iixihi")
_NUMBERS: Final = struct.Struct(">ihqq")
_NUMBERS_AND_START: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iqx")
_LEADER: Final = struct.Struct(">iix")


def encode_fetch_response(
    topics: Sequence[FetchTopicResult],
    version: int,
    correlation_id: int,
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
) -> list[Part]:
    """Return the parts of a whole response, from its length on.

    Records given as bytes become part of what surrounds them; any other object is put into the list as it is.
    """
    return _FetchWriter(version).write(topics, correlation_id, throttle_time_ms, error_code, session_id)


class _FetchWriter:
    __slots__ = ("flexible", "out", "parts", "placed", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM
        self.out = bytearray()
        self.parts: list[Part] = [self.out]
        self.placed = 0

    def write(
        self,
        topics: Sequence[FetchTopicResult],
        correlation_id: int,
        throttle_time_ms: int,
        error_code: int,
        session_id: int,
    ) -> list[Part]:
        first = self.out
        if self.flexible:
            first += _RESPONSE_START_FLEXIBLE.pack(0, correlation_id, throttle_time_ms, error_code, session_id)
        elif self.version >= SESSIONS_FROM:
            first += _RESPONSE_START_SESSION.pack(0, correlation_id, throttle_time_ms, error_code, session_id)
        else:
            first += _RESPONSE_START.pack(0, correlation_id, throttle_time_ms)
        self._count(len(topics))
        for topic in topics:
            self._topic(topic)
        if self.flexible:
            self.out += b"\x00"
        if not self.out:
            self.parts.pop()
        total = self.placed + sum(len(part) for part in self.parts if isinstance(part, bytearray))
        _INT32.pack_into(first, 0, total - _INT32.size)
        return self.parts

    def _count(self, count: int) -> None:
        self.out += encode_uvarint(count + 1) if self.flexible else _INT32.pack(count)

    def _topic(self, topic: FetchTopicResult) -> None:
        if self.version >= TOPIC_IDS_FROM:
            self.out += topic.topic_id.bytes
        else:
            name = topic.name.encode()
            self.out += encode_uvarint(len(name) + 1) if self.flexible else _INT16.pack(len(name))
            self.out += name
        self._count(len(topic.partitions))
        for partition in topic.partitions:
            self._partition(partition)
        if self.flexible:
            self.out += b"\x00"

    def _partition(self, p: FetchPartitionResult) -> None:
        out = self.out
        if self.version >= 5:
            out += _NUMBERS_AND_START.pack(
                p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
            )
        else:
            out += _NUMBERS.pack(p.index, p.error_code, p.high_watermark, p.last_stable_offset)
        if p.aborted_transactions is None:
            self._count(-1)
        else:
            self._aborted(p.aborted_transactions)
        if self.version >= 11:
            out += _INT32.pack(p.preferred_read_replica)
        self._records(p.records)
        if self.flexible:
            self.out += b"\x00" if p.diverging_epoch is None and p.current_leader is None else _tags(p)

    def _aborted(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._count(len(transactions))
        for producer_id, first_offset in transactions:
            self.out += _ABORTED.pack(producer_id, first_offset)
            if self.flexible:
                self.out += b"\x00"

    def _records(self, records: Part | None) -> None:
        if records is None:
            self._count(-1)
            return
        if isinstance(records, bytes | bytearray | memoryview):
            self._count(len(records))
            self.out += records
            return
        self._count(records.length)
        if records.length:
            self.placed += records.length
            self.out = bytearray()
            self.parts += (records, self.out)


def _tags(p: FetchPartitionResult) -> bytes:
    tags = []
    if p.diverging_epoch is not None:
        tags.append(bytes((0, _EPOCH_END.size)) + _EPOCH_END.pack(*p.diverging_epoch))
    if p.current_leader is not None:
        tags.append(bytes((1, _LEADER.size)) + _LEADER.pack(*p.current_leader))
    return bytes((len(tags),)) + b"".join(tags)
