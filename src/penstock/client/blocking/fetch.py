"""Fetching one partition: the response's records stay where the socket put them, as a slice of the frame.

The response is read by hand, as the layout for one partition is a few fields: in versions 4 to 11, which name the
topic, and from 13 on, which have its id, so that a later topic of that name is not taken for it. From 16 on a refusal
may name the leader and its address (KIP-951).
"""

import struct
from collections.abc import Sequence
from uuid import UUID

from penstock.client.blocking.connection import BlockingConnection
from penstock.client.errors import error_code
from penstock.client.values import IsolationLevel
from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import skip_tagged_fields
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value
from penstock.protocol.varint import decode_uvarint

ANSWER_BYTES_LIMIT = 64 << 20
"""The limit of a whole response; the broker's first batch passes it, as Kafka's protocol says."""
LOG_START_SINCE, SESSIONS_SINCE, READ_REPLICA_SINCE, IDS_SINCE, LEADER_SINCE = 5, 7, 11, 13, 16
UUID_BYTES = 16


class FetchedRecords(Value):
    """One partition's part of a Fetch response. `aborted` holds (producer id, first offset) of aborted transactions;
    `current_leader` and `node_endpoints` name the leader where the broker says so.
    """

    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    records: memoryview
    current_leader: LeaderIdAndEpoch | None = None
    node_endpoints: Sequence[NodeEndpoint] = ()


def send_fetch(
    connection: BlockingConnection,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
    isolation: IsolationLevel,
    topic_id: UUID | None = None,
) -> None:
    """Ask for records from an offset on; read the answer with `receive_fetch`.

    With `topic_id` a topic that has another one now is refused, by brokers since Kafka 3.1.
    """
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max(max_bytes, ANSWER_BYTES_LIMIT),
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, topic_id=topic_id or ZERO_UUID, partitions=[wanted])],
    )
    version = None if topic_id is None else connection.version_of(ApiKey.FETCH, LEADER_SINCE)
    connection.send(ApiKey.FETCH, request, version if version is not None and version >= IDS_SINCE else None)


def receive_fetch(connection: BlockingConnection) -> FetchedRecords:
    """DecodeError if it is no answer to `send_fetch`."""
    return parse_fetch_response(*connection.receive_frame())


def parse_fetch_response(frame: memoryview, version: int) -> FetchedRecords:
    """Read the body of a response about one partition; its records stay a slice of the frame."""
    try:
        found = _parse(frame, version)
        is_led_elsewhere = found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADER_SINCE
        return _with_leader(found, frame, version) if is_led_elsewhere else found
    except (struct.error, ValueError, IndexError) as error:
        raise DecodeError(f"not a Fetch response about one partition: {error}") from error


def _with_leader(found: FetchedRecords, frame: memoryview, version: int) -> FetchedRecords:
    response, _ = decode(FetchResponse, version, frame)
    leader = response.responses[0].partitions[0].current_leader
    return found.replace(current_leader=leader, node_endpoints=response.node_endpoints)


def _parse(frame: memoryview, version: int) -> FetchedRecords:
    reader = _Reader(frame, is_flexible=version >= IDS_SINCE)
    reader.skip(4)  # throttle time
    if version >= SESSIONS_SINCE:
        code = error_code(reader.int16())
        reader.skip(4)  # session id
        if code:
            return FetchedRecords(code, -1, -1, -1, (), frame[:0])
    if reader.count() != 1:
        raise DecodeError("a Fetch response about another number of topics than one")
    reader.skip(UUID_BYTES if version >= IDS_SINCE else reader.int16())
    if reader.count() != 1:
        raise DecodeError("a Fetch response about another number of partitions than one")
    reader.skip(4)  # partition
    code = error_code(reader.int16())
    high_watermark, last_stable_offset = reader.int64(), reader.int64()
    log_start_offset = reader.int64() if version >= LOG_START_SINCE else -1
    aborted = [reader.aborted() for _ in range(reader.count())]
    if version >= READ_REPLICA_SINCE:
        reader.skip(4)
    records = reader.slice(max(reader.count(), 0))
    return FetchedRecords(code, high_watermark, last_stable_offset, log_start_offset, aborted, records)


class _Reader:
    """Takes fields off the front of a frame; struct.error where it ends."""

    def __init__(self, frame: memoryview, *, is_flexible: bool) -> None:
        self._frame, self._position = frame, 0
        self._is_flexible = is_flexible

    def _fixed(self, layout: struct.Struct) -> int:
        (value,) = layout.unpack_from(self._frame, self._position)
        self._position += layout.size
        assert isinstance(value, int)
        return value

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def count(self) -> int:
        """How many items or bytes follow; -1 is null."""
        if not self._is_flexible:
            return self.int32()
        number, self._position = decode_uvarint(self._frame, self._position)
        return number - 1

    def aborted(self) -> tuple[int, int]:
        """An aborted transaction: producer id, first offset."""
        found = self.int64(), self.int64()
        if self._is_flexible:
            self._position = skip_tagged_fields(self._frame, self._position)
        return found

    def slice(self, length: int) -> memoryview:
        begin = self._position
        self.skip(length)
        return self._frame[begin : self._position]

    def skip(self, length: int) -> None:
        if not 0 <= length <= len(self._frame) - self._position:
            raise DecodeError(f"a Fetch response declares {length} bytes where fewer are left")
        self._position += length


_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
