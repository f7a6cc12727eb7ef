"""Fetching one partition: the response's records stay where the socket put them, as a slice of the frame.

Versions 4 to 11 name the topic, and those from 13 on have its id, so that a later topic of that name is not taken for
it. From 16 on a refusal may say who leads instead, and where (KIP-951).
"""

from collections.abc import Sequence
from uuid import UUID

from penstock.client.blocking.connection import BlockingConnection
from penstock.client.values import IsolationLevel
from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.lent_records import LentFetchResponse
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

ANSWER_BYTES_LIMIT = 64 << 20
"""What a response may hold in all; the broker's first batch passes it, as Kafka's protocol says."""
IDS_SINCE, LEADER_SINCE = 13, 16


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
    response, _ = decode(LentFetchResponse, version, frame)
    if response.error_code:
        return FetchedRecords(ErrorCode(response.error_code), -1, -1, -1, (), frame[:0])
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise DecodeError("a Fetch response about another number of partitions than one")
    row = response.responses[0].partitions[0]
    is_led_elsewhere = row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADER_SINCE
    return FetchedRecords(
        ErrorCode(row.error_code),
        row.high_watermark,
        row.last_stable_offset,
        row.log_start_offset,
        [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()],
        frame[:0] if row.records is None else row.records,
        row.current_leader if is_led_elsewhere else None,
        response.node_endpoints,
    )
