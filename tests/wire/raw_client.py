"""A client without any cleverness: a blocking socket, requests in the version that a test says, frames as they are."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests import framing
from penstock.protocol.requests.api import AnyApiKey, ApiKey, api_of
from penstock.protocol.requests.framing import decode_response, encode_request
from penstock.protocol.schema import Message

TIMEOUT_S = 30
CLIENT_ID = "raw"
BY_NAME: dict[AnyApiKey, int] = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}
"""The newest versions in which topics go by name."""
GROUP, TRANSACTION = 0, 1
NOT_YET = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
"""What passes by itself while a coordinator begins."""


class Closed(Exception):  # noqa: N818  what the other end did
    """The node closed the connection."""


def api_of_request(request: Message) -> AnyApiKey:
    """The key of the API whose request this is."""
    return framing.api_of_request(request).key


class RawClient:
    """One connection. `send` and `receive` may be apart; answers are decoded in the order of the requests."""

    def __init__(self, bootstrap: str, *, receive_buffer_bytes: int | None = None) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT_S)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.connect((host, int(port)))
        self._correlation_id = 0
        self._asked: deque[tuple[int, AnyApiKey, int]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, request: Message, version: int | None = None, *, is_answered: bool = True) -> int:
        """Send a request, in the API's newest version unless the test says another; its correlation id."""
        key = api_of_request(request)
        if version is None:
            version = BY_NAME.get(key, api_of(key).versions[-1])
        self._correlation_id += 1
        self.send_bytes(encode_request(request, version, self._correlation_id, CLIENT_ID))
        if is_answered:
            self._asked.append((self._correlation_id, key, version))
        return self._correlation_id

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet, decoded to its last byte."""
        expected, key, version = self._asked.popleft()
        correlation_id, response, left = decode_all(key, version, self.receive_frame())
        assert correlation_id == expected, "an answer that is not next in order"
        assert left == 0, f"{left} bytes are left behind {type(response).__name__} version {version}"
        return response

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its answer."""
        self.send(request, version)
        return self.receive()

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        """Send a frame with its length before it."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """The next frame without its length; Closed when there is none."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def end(self) -> None:
        """Send nothing more, and read until the node has closed, too: it has seen all that was sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass

    def is_closed(self) -> bool:
        """Wait for the node to close; whether nothing more came before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def lives(self) -> bool:
        """Whether the node answers here."""
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        return bool(self.ask(request, 3).error_code == 0)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.socket.recv(size - len(parts))
            except ConnectionResetError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    # What most tests need to do

    def create_topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Create a topic; it can be used when this returns."""
        given = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=given)
        response: CreateTopicsResponse = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_S * 1000))
        assert response.topics[0].error_code == 0, response

    def find_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Ask for the coordinator of a group or transactional id until it can be used.

        The first who asks makes its topic, of which a node is told a moment before it begins to coordinate.
        """
        find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while (found := self.ask(find).coordinators[0]).error_code:
            pass
        while found.port == self.socket.getpeername()[1] and self._described(key, kind) in NOT_YET:
            pass

    def _described(self, key: str, kind: int) -> int:
        """The error with which a coordinator describes what has this key."""
        if kind == GROUP:
            return int(self.ask(DescribeGroupsRequest(groups=[key])).groups[0].error_code)
        return int(self.ask(DescribeTransactionsRequest(transactional_ids=[key])).transaction_states[0].error_code)

    def produce(self, topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> PartitionProduceResponse:
        """Produce one batch and return what is said of it."""
        response: ProduceResponse = self.ask(produce_request(topic, batch, acks=acks, partition=partition))
        return response.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, **limits: int) -> PartitionData:
        """Fetch from partition 0 and return what is said of it."""
        response: FetchResponse = self.ask(fetch_request(topic, offset, **limits))
        answer: FetchableTopicResponse = response.responses[0]
        return answer.partitions[0]


def decode_all(key: AnyApiKey, version: int, frame: bytes) -> tuple[int, Message, int]:
    """The correlation id and message of an answer, and how many bytes are left behind it."""
    correlation_id, message = decode_response(key, version, frame)
    header = 4 + api_of(key).response_header_version(version)
    from penstock.protocol.codec import decode

    _, end = decode(api_of(key).response_class, version, frame, header)
    return correlation_id, message, len(frame) - end


def batch_of(*values: bytes, key: bytes | None = b"key", timestamp_ms: int | None = None, **options: Any) -> bytes:
    """A batch with these values, timestamps a millisecond apart, by default of now: retention keeps them."""
    first_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    records = [Record(timestamp_ms=first_ms + i, key=key, value=value) for i, value in enumerate(values)]
    return bytes(encode_batch(records, **options))


def produce_request(topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    """A request with one batch for one partition."""
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=TIMEOUT_S * 1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 1 << 30,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
) -> FetchRequest:
    """A request for one partition, without a session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        session_epoch=-1,
    )
