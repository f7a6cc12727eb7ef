"""One socket to one broker, without an event loop: requests go out, responses come back in the same order.

Made for Spark's executors, which run plain synchronous code (decision 0803). Not safe for threads: one user at a time.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.client.errors import raise_for
from penstock.protocol import codec
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import UNSERVED, ApiKey, api_of
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request, skip_header_fields
from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.schema import Message

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.client.login import Steps, Work

MAX_RESPONSE_BYTES = 1 << 30
RECEIVE_BUFFER_BYTES = 4 << 20
LENGTH = struct.Struct(">i")
_FIRST_ID = 2
"""The correlation id of the first request behind ApiVersions."""
RENEWED_AT = 0.85
"""At which part of a session's life the client logs in again, as Kafka's Java client at the earliest."""

NEWEST_VERSIONS = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.LIST_TRANSACTIONS: 2,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.API_VERSIONS: 0,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 2,
}
"""The newest versions in which requests name topics and one request is about one group: all that this client needs.
Brokers since Kafka 1.0 serve versions up to these, Kafka 4.x still does; Kafka lists transactions since 3.0, and has a
metadata quorum since 3.3."""

Response = TypeVar("Response", bound=Message)


def make_ready(*keys: ApiKey) -> None:
    """For requests of these in their newest version; else that takes some ms with the first of each."""
    for key in keys:
        api = api_of(key)
        codec.make_ready(api.request_class, api.response_class, NEWEST_VERSIONS[key])


class ClusterUnreachable(ConnectionError):  # noqa: N818 - says what is the matter, as ConnectionRefusedError does
    """No broker can be reached; the text names the address and what to check."""


class BlockingConnection:
    """A connection that has asked the broker which versions it serves."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        connect_timeout_ms: int,
        request_timeout_ms: int,
        tls: SSLContext | None = None,
        log_in: Callable[[Address], Steps] | None = None,
    ) -> None:
        """Connects, over TLS if there is a context for that, and says who it is; OSError where no broker answers.

        AuthenticationFailedError where the broker does not let the client in.
        """
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._expected: deque[tuple[int, ApiKey, int]] = deque()
        self._socket = socket.create_connection((address.host, address.port), connect_timeout_ms / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._served: dict[int, tuple[int, int]] = {int(ApiKey.API_VERSIONS): (0, 0)}
        self._log_in = log_in
        self._log_in_again_at_s: float | None = None
        try:
            if tls is not None:
                from penstock.tls.blocking import secured

                self._socket = secured(self._socket, tls, address)
            self._socket.settimeout(request_timeout_ms / 1000)
            self._learn_versions()
            self._say_who()
        except BaseException:
            self.close()
            raise

    def _learn_versions(self) -> None:
        response = self.request(ApiKey.API_VERSIONS, ApiVersionsRequest(), ApiVersionsResponse)
        raise_for(response.error_code, f"{self.address} refuses to say which versions it serves")
        self._served |= {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def _say_who(self) -> None:
        """Again before the session ends, when nothing is under way (KIP-368)."""
        self._log_in_again_at_s = None
        exchange = self._log_in(self.address) if self._log_in is not None else None
        if exchange is None:
            return
        try:
            asked = next(exchange)
            while True:
                try:
                    answer = self._step(asked)
                except SaslError as error:
                    asked = exchange.throw(error)
                else:
                    asked = exchange.send(answer)
        except StopIteration as end:
            if end.value:
                self._log_in_again_at_s = time.monotonic() + RENEWED_AT * end.value / 1000

    def _step(self, asked: Message | Work) -> object:
        if not isinstance(asked, Message):
            return asked()
        api = api_of_request(asked)
        return self.request(ApiKey(api.key), asked, api.response_class)

    @property
    def is_idle(self) -> bool:
        """Whether every response that was asked for has been read: only then may another user take over."""
        return not self._expected

    @property
    def is_usable(self) -> bool:
        """Whether it is idle, and nothing is to be read all the same: the end, where the broker has closed it, as it
        does with those that were quiet for long.
        """
        if not self.is_idle:
            return False
        unasked = select.poll()
        unasked.register(self._socket, select.POLLIN)
        return not unasked.poll(0)

    def version_of(self, api_key: ApiKey, newest: int | None = None) -> int:
        """The newest version that both sides speak; KafkaError UNSUPPORTED_VERSION where there is none."""
        api, served = api_of(api_key), self._served.get(api_key, UNSERVED)
        version = api.agreed_version(served, NEWEST_VERSIONS[api_key] if newest is None else newest)
        if version is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker {self.address} speaks no version of {api.name}"
            )
        return version

    def send(self, api_key: ApiKey, message: Message, version: int | None = None) -> None:
        """Send a request, in the newest version if none is named; its response must be read in its turn."""
        if self._log_in_again_at_s is not None and self.is_idle and time.monotonic() >= self._log_in_again_at_s:
            self._say_who()
        if version is None:
            version = self.version_of(api_key)
        self._correlation_id += 1
        self._socket.sendall(encode_request(message, version, self._correlation_id, self._client_id))
        self._expected.append((self._correlation_id, api_key, version))

    def receive(self, response_class: type[Response]) -> Response:
        correlation_id, api_key, version = self._expected[0]
        frame = self._read_frame()
        answered, message = decode_response(api_key, version, frame)
        if answered != correlation_id:
            raise DecodeError(f"{self.address} answers request {answered} where {correlation_id} is due")
        self._expected.popleft()
        assert isinstance(message, response_class)
        return message

    def receive_frame(self) -> tuple[memoryview, int]:
        """Read the next response without decoding it: (the frame behind its header, the version)."""
        correlation_id, api_key, version = self._expected[0]
        frame = self._read_frame()
        if len(frame) <= LENGTH.size or LENGTH.unpack_from(frame)[0] != correlation_id:
            raise DecodeError(f"{self.address} answers another request than the one that is due")
        self._expected.popleft()
        begin = LENGTH.size
        if api_of(api_key).response_header_version(version):
            begin = skip_header_fields(frame, begin)
        return frame[begin:], version

    def request(
        self, api_key: ApiKey, message: Message, response_class: type[Response], version: int | None = None
    ) -> Response:
        assert self.is_idle
        self.send(api_key, message, version)
        return self.receive(response_class)

    def _read_frame(self) -> memoryview:
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        if not 0 <= length <= MAX_RESPONSE_BYTES:
            raise DecodeError(f"{self.address} announces a response of {length} bytes: is it a Kafka listener?")
        return self._read(length)

    def _read(self, length: int) -> memoryview:
        frame = memoryview(bytearray(length))
        position = 0
        while position < length:
            received = self._socket.recv_into(frame[position:])
            if not received:
                raise ConnectionResetError(f"{self.address} closed the connection{self._hint}")
            position += received
        return frame

    @property
    def _hint(self) -> str:
        """A listener with SASL says what it serves, and closes the connection when anything else is asked."""
        if len(self._served) <= 1:
            return ": does it listen for another security.protocol?"
        is_first = self._correlation_id == _FIRST_ID
        if self._log_in is not None or not is_first:
            return ""
        return "; if clients have to log in there, set security.protocol and sasl.mechanism"

    def close(self) -> None:
        """Responses that were not read are lost."""
        self._socket.close()
