"""One TCP connection to one broker: requests go out at once, answers are matched to them in the order of the requests.

`connect` opens the connection and asks the broker which versions it serves; from then on each request travels in the
highest version that both sides know. Requests are pipelined: nothing waits for an earlier answer. A request that is not
answered in time closes the connection, as its answer would stand before all later ones. When the connection ends, for
whatever reason, all that wait are told with `ConnectionFailedError`; a connection is never reopened, make a new one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from penstock.client.errors import (
    AnswerTooLargeError,
    ConnectionFailedError,
    ProtocolViolationError,
    RequestTimedOutError,
    UnsupportedByBrokerError,
    WrongNodeError,
    reason,
    unreachable,
)
from penstock.client.frames import FrameReader, staying
from penstock.client.names import hosts_of
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import UNSERVED, AnyApiKey, Api, ApiKey, api_of
from penstock.protocol.requests.framing import Traffic, api_of_request, decode_response, encode_request
from penstock.protocol.requests.own_apis import OWN_SOFTWARE
from penstock.protocol.schema import Message, has_slices
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.client.login import Login

Answer = TypeVar("Answer", bound=Message)
IDLE_CHECKS: Final = 4
"""In a row in which nothing was asked. So no request has to note down when it was."""
_REFUSED: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
SOFTWARE_VERSION = "0.1.0"


class KnownNode(Value):
    """Who should listen at an address, as the cluster said."""

    cluster_id: str
    node_id: int


class Taker(Protocol):
    """Takes the answer to a request of which it has made the bytes itself (`Connection.exchange`)."""

    def take(self, frame: memoryview) -> None:
        """The answer, without its length, good until something else is received. DecodeError ends the connection."""

    def fail(self, error: ConnectionFailedError) -> None: ...


class _Raw(Value):
    """An answer that is still to come, for a `Taker`."""

    correlation_id: int
    api: Api
    taker: Taker

    def take(self, frame: memoryview) -> None:
        _check_correlation(int.from_bytes(frame[:4], "big"), self.correlation_id)
        self.taker.take(frame)

    def fail(self, error: ConnectionFailedError) -> None:
        self.taker.fail(error)


class _Expected(Value):
    """An answer that is still to come, for a caller that waits for the future."""

    correlation_id: int
    api: Api
    version: int
    answer: type[Message]
    future: asyncio.Future[Message]

    def take(self, frame: memoryview) -> None:
        version = self._version_of(frame)
        lasting = staying(frame) if has_slices(self.answer) else frame  # more may come before the caller looks at it
        correlation_id, message = decode_response(self.api.key, version, lasting, self.answer)
        _check_correlation(correlation_id, self.correlation_id)
        if not self.future.done():
            self.future.set_result(message)

    def fail(self, error: ConnectionFailedError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def _version_of(self, frame: memoryview) -> int:
        """The version of the answer: that of the request, but 0 where ApiVersions says that it does not know ours."""
        refused = self.api.key == ApiKey.API_VERSIONS and frame[4:6] == _REFUSED
        return 0 if refused else self.version


def _check_correlation(found: int, expected: int) -> None:
    if found != expected:
        raise ProtocolViolationError(f"the answer to {found} where {expected} was due")


Put = Callable[[bytes, _Expected | _Raw | None], None]


class Connection(asyncio.BufferedProtocol):
    """Make one with `connect`."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self._settings = settings
        self._frames = FrameReader(settings.max_answer_bytes)
        self._expected: deque[_Expected | _Raw] = deque()
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._served: dict[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        """The levels of the cluster's features when the connection was opened."""
        self._failure: ConnectionFailedError | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._idle_check: asyncio.TimerHandle | None = None
        self._login: Login | None = None
        self._numbers_to_begin = 0
        self._bytes_out = self._bytes_in = 0

    @property
    def closed(self) -> bool:
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        return len(self._expected)

    @property
    def traffic(self) -> Traffic:
        """Since it was opened, what it began with included."""
        sent = self._next_correlation_id
        return Traffic(sent, sent - len(self._expected), self._bytes_out, self._bytes_in)

    @property
    def served(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and the highest version of each API that the broker serves."""
        return self._served

    def version_for(self, key: AnyApiKey, newest: int | None = None) -> int:
        """The version in which requests of this API go to this broker; at most `newest`, if the caller sets a bound."""
        api, (lowest, highest) = api_of(key), self._served.get(key, UNSERVED)
        version = api.agreed_version((lowest, highest), newest)
        if version is None:
            ours = api.versions
            theirs = f"{lowest} to {highest}" if highest >= 0 else "none"
            raise UnsupportedByBrokerError(
                f"{self.address} does not serve {key.name} as this client needs it: it serves {theirs}, "
                f"needed is one of {ours[0]} to {ours[-1] if newest is None else newest}"
            )
        return version

    def serves(self, key: AnyApiKey) -> bool:
        """In any version."""
        return key in self._served

    async def request(
        self, message: Message, answer: type[Answer], *, newest: int | None = None, timeout_ms: int | None = None
    ) -> Answer:
        """Send a request and wait for its answer, `request_timeout_ms` if the caller does not say otherwise."""
        await self.writable(timeout_ms)
        return await self.answered(self.submit(message, answer, newest=newest), timeout_ms)

    def submit(self, message: Message, answer: type[Answer], *, newest: int | None = None) -> asyncio.Future[Answer]:
        """Send a request at once, so that the caller's order is the order on the wire; the future has no time-out.

        `answer` is the API's response class or, for Fetch, one that leaves records where they were received.
        """
        api = api_of_request(message)
        version = self.version_for(api.key, newest)
        assert answer.__name__.endswith(f"{api.name}Response")
        return cast("asyncio.Future[Answer]", self._send(message, api, version, answer))

    def send_without_answer(self, message: Message, *, newest: int | None = None) -> None:
        """Send a request that has no response at all: Produce with acks=0."""
        api = api_of_request(message)
        self._write(self._encoded(message, self.version_for(api.key, newest), self._take_number()))

    def exchange(self, api_key: AnyApiKey, encode: Callable[[int], bytes], taker: Taker) -> None:
        """Send a request whose bytes `encode` makes of its correlation id; `taker` gets the answer as it comes."""
        correlation_id = self._take_number()
        self._write(encode(correlation_id), _Raw(correlation_id, api_of(api_key), taker))

    async def answered(self, future: asyncio.Future[Answer], timeout_ms: int | None = None) -> Answer:
        """Wait for what `submit` returned; a time-out closes the connection."""
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = asyncio.get_running_loop().call_later(limit_ms / 1000, self._time_out, future, limit_ms)
        try:
            return await future
        finally:
            timer.cancel()
            del future  # its error has this frame

    def _time_out(self, future: asyncio.Future[Answer], limit_ms: int) -> None:
        if not future.done():
            self._fail(RequestTimedOutError(f"{self.address} did not answer within {limit_ms} ms"))

    async def writable(self, timeout_ms: int | None = None) -> None:
        """Wait while the broker takes requests slower than they are sent; too long a wait ends the connection."""
        if self._writable.is_set():
            return
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._writable.wait()
        except TimeoutError:
            self._fail(RequestTimedOutError(f"{self.address} took no requests for {limit_ms} ms"))
            raise self._failed() from None

    async def negotiate(self, node: KnownNode | None = None) -> None:
        """Learn what the broker serves. One that does not know our newest ApiVersions answers in version 0.

        A broker that is not `node` says so, if it knows version 5 (KIP-1242): WrongNodeError. This belongs to setting
        up the connection: a process that hangs takes connections and never answers.
        """
        api = api_of(ApiKey.API_VERSIONS)
        limit_ms, version = self._settings.setup_limit_ms, api.versions[-1]
        message = ApiVersionsRequest(client_software_name=OWN_SOFTWARE, client_software_version=SOFTWARE_VERSION)
        if node is not None:
            message.cluster_id, message.node_id = node.cluster_id, node.node_id
        while True:
            response = await self.answered(self._send(message, api, version, ApiVersionsResponse), limit_ms)
            assert isinstance(response, ApiVersionsResponse)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            theirs = next((item.max_version for item in response.api_keys if item.api_key == ApiKey.API_VERSIONS), 0)
            version = min(theirs, version - 1)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and node is not None:
            self._fail(
                WrongNodeError(f"{self.address} is not the address of node {node.node_id} of cluster {node.cluster_id}")
            )
        elif response.error_code:
            self._fail(ProtocolViolationError(f"{self.address} does not say what it serves: {response.error_code}"))
        if self._failure is not None:
            raise self._failed()
        self._served = {item.api_key: (item.min_version, item.max_version) for item in response.api_keys}
        self.features = {item.name: item.max_version_level for item in response.finalized_features}
        self._numbers_to_begin = self._next_correlation_id

    async def log_in(self) -> None:
        """Say who the client is, if it has a name. Raises AuthenticationFailedError, and what `request` raises."""
        self._login = self._settings.log_in_on(self)
        if self._login is not None:
            await self._login.log_in()

    async def ask(self, message: Message) -> Message:
        """One of the requests by which a connection begins."""
        api = api_of_request(message)
        future = self._send(message, api, self.version_for(api.key), api.response_class, self.put)
        return await self.answered(future, self._settings.setup_limit_ms)

    def end_when_idle(self) -> None:
        """Close when nothing was asked for connections.max.idle.ms, or a quarter of that longer; never if negative."""
        if self._settings.connections_max_idle_ms >= 0:
            self._check_idle(-1, 0)

    def _check_idle(self, asked: int, checks: int) -> None:
        is_idle = self._next_correlation_id == asked and not self._expected
        if is_idle and checks + 1 >= IDLE_CHECKS:
            limit = f"connections.max.idle.ms={self._settings.connections_max_idle_ms}"
            self._fail(ConnectionFailedError(f"{self.address}: nothing was asked for {limit}"))
            return
        self._idle_check = asyncio.get_running_loop().call_later(
            self._settings.connections_max_idle_ms / IDLE_CHECKS / 1000,
            self._check_idle,
            self._next_correlation_id,
            checks + 1 if is_idle else 0,
        )

    def abort(self, why: str) -> None:
        """End the connection at once; requests that wait fail with `why`."""
        self._fail(ConnectionFailedError(f"{self.address}: {why}"))

    async def close(self) -> None:
        """Requests that wait fail."""
        self._fail(ConnectionFailedError(f"the connection to {self.address} was closed"))
        await self._lost.wait()

    def _send(
        self, message: Message, api: Api, version: int, answer: type[Message], put: Put | None = None
    ) -> asyncio.Future[Message]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        correlation_id = self._take_number()
        expected = _Expected(correlation_id, api, version, answer, future)
        (put or self._write)(self._encoded(message, version, correlation_id), expected)
        return future

    def _take_number(self) -> int:
        """The correlation id of the next request, which is written at once."""
        if self._failure is not None:
            raise self._failed()
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _encoded(self, message: Message, version: int, correlation_id: int) -> bytes:
        return encode_request(message, version, correlation_id, self._settings.client_id)

    def _write(self, request: bytes, expected: _Expected | _Raw | None = None) -> None:
        if self._login is not None and self._login.holds(request, expected):
            return
        self.put(request, expected)

    def put(self, request: bytes, expected: _Expected | _Raw | None) -> None:
        """Send the bytes of a request at once, whether or not others wait."""
        assert self._transport is not None
        self._transport.write(request)
        self._bytes_out += len(request)
        if expected is not None:
            self._expected.append(expected)

    def _failed(self) -> ConnectionFailedError:
        """A fresh exception: one that is raised in several places would gather their tracebacks."""
        assert self._failure is not None
        return type(self._failure)(*self._failure.args)

    def _fail(self, failure: ConnectionFailedError) -> None:
        """Close the connection; requests that wait get `failure`, unless an earlier one has closed it."""
        if self._failure is None:
            self._failure = failure
            if self._idle_check is not None:
                self._idle_check.cancel()
            login, self._login = self._login, None  # it has this connection
            waiting = [*self._expected, *(login.give_up() if login is not None else ())]
            self._expected.clear()
            for expected in waiting:
                expected.fail(self._failed())
            self._writable.set()
        if self._transport is None:
            self._lost.set()
        else:
            self._transport.abort()

    # What the event loop calls:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._bytes_in += nbytes
        try:
            for frame in self._frames.received(nbytes):
                self._take(frame)
        except AnswerTooLargeError as error:
            self._fail(AnswerTooLargeError(f"{self.address}: {error}"))
        except (ProtocolViolationError, DecodeError) as error:
            self._fail(
                ProtocolViolationError(
                    f"{self.address} does not answer as a Kafka broker does ({error}): is another service or a TLS "
                    "listener behind this port?"
                )
            )

    def _take(self, frame: memoryview) -> None:
        if not self._expected:
            raise ProtocolViolationError("an answer to no question")
        expected = self._expected.popleft()
        try:
            expected.take(frame)
        except (ProtocolViolationError, DecodeError):
            self._expected.appendleft(expected)
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        waiting = self._expected[0].api.key.name if self._expected else None
        detail = f" while {waiting} was under way" if waiting else ""
        half = " in the middle of an answer" if self._frames.in_mid_frame else ""
        cause = f" ({reason(exc)})" if exc else ""
        self._fail(ConnectionFailedError(f"{self.address} closed the connection{half}{detail}{cause}{self._hint}"))
        self._frames.end()  # whoever still has the connection needs no room for answers

    @property
    def _hint(self) -> str:
        """A listener with SASL says what it serves, and closes the connection when anything else is asked."""
        if not self._served:
            return ": does it listen for another security.protocol?"
        is_first = self._next_correlation_id - len(self._expected) == self._numbers_to_begin
        if self._login is not None or not self._expected or not is_first:
            return ""
        return "; if clients have to log in there, set security.protocol and sasl.mechanism"

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


async def connect(address: Address, settings: ClientSettings, node: KnownNode | None = None) -> Connection:
    """Open a connection and learn what the broker serves; `ConnectionFailedError` says why it could not be.

    A name may stand for several hosts: they are tried one after the other, each as long as one may take. `node` is who
    should be there, if that is known; a broker of another name or cluster is a WrongNodeError.
    """
    try:
        async with asyncio.timeout(settings.socket_connection_setup_timeout_ms / 1000):
            hosts = await hosts_of(address)
    except OSError as error:
        raise unreachable(address, error, settings.socket_connection_setup_timeout_ms) from None
    for host in hosts[:-1]:
        try:
            return await _connect(address, host, settings, node)
        except ConnectionFailedError:
            continue
    return await _connect(address, hosts[-1], settings, node)


async def _connect(address: Address, host: str, settings: ClientSettings, node: KnownNode | None) -> Connection:
    connection = Connection(address, settings)
    opening = settings.opening(connection, address.host, connection.abort)
    try:
        async with asyncio.timeout(settings.socket_connection_setup_timeout_ms / 1000):
            protocol = connection if opening is None else opening.hand_out_layer()
            await asyncio.get_running_loop().create_connection(lambda: protocol, host, address.port)
            if opening is not None:
                await opening.done.wait()
    except OSError as error:
        connection.abort("it was not opened")
        raise unreachable(address, error, settings.socket_connection_setup_timeout_ms) from None
    except asyncio.CancelledError:
        connection.abort("it was not opened")
        raise
    try:
        await connection.negotiate(node)
        await connection.log_in()
    except (Exception, asyncio.CancelledError) as error:
        await connection.close()
        if opening is not None and (names := await opening.names_instead(host, address.port)):
            raise ConnectionFailedError(f"{error}{names}") from None
        raise
    connection.end_when_idle()
    return connection
