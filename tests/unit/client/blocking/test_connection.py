"""A connection without an event loop over a socket that notes what is asked of it and gives what a test says."""

import select
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.client.blocking import connection as module
from penstock.client.blocking.connection import MAX_RESPONSE_BYTES, NEWEST_VERSIONS, BlockingConnection, make_ready
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import encode_response, parse_request_header
from penstock.protocol.sasl.mechanism import SaslError

PLACE = Address("h", 9)
BY_NAME = {
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
"""Later ones name topics by their ids, or are about several groups or transactions, or are for brokers."""


class Socket:
    """What comes from the broker comes in parts of `at_once` bytes."""

    def __init__(self) -> None:
        self.coming, self.at_once = bytearray(), 5
        self.sent: list[Any] = []
        self.log: list[object] = []
        self.has_news = False

    def setsockopt(self, *what: int) -> None:
        self.log.append(what)

    def settimeout(self, limit_s: float) -> None:
        self.log.append(limit_s)

    def sendall(self, request: bytes) -> None:
        assert int.from_bytes(request[:4], "big") == len(request) - 4
        self.sent.append(parse_request_header(request[4:])[0])

    def recv_into(self, room: memoryview) -> int:
        count = min(self.at_once, len(room), len(self.coming))
        room[:count] = self.coming[:count]
        del self.coming[:count]
        return count

    def close(self) -> None:
        self.log.append("closed")


class World:
    """`connect` makes a connection to a broker that serves these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.socket, self.now_s = Socket(), 1_000.0
        self.asked: list[object] = []

        def create(*what: object) -> Socket:
            self.asked.append(what)
            return self.socket

        def poll() -> Any:
            return SimpleNamespace(register=self.registered, poll=lambda wait: self.socket.has_news and wait == 0)

        monkeypatch.setattr(module, "socket", stand_in(socket, create_connection=create))
        monkeypatch.setattr(module, "select", stand_in(select, poll=poll))
        monkeypatch.setattr(module, "time", stand_in(time, monotonic=lambda: self.now_s))

    def registered(self, what: object, events: int) -> None:
        assert (what, events) == (self.socket, select.POLLIN)

    def answer(self, message: Any, key: int, version: int, number: int) -> None:
        self.socket.coming += encode_response(message, key, version, number)

    def connect(self, error_code: int = 0, **more: Any) -> BlockingConnection:
        served = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in SERVED]
        self.answer(ApiVersionsResponse(error_code=error_code, api_keys=served), ApiKey.API_VERSIONS, 0, 1)
        return BlockingConnection(PLACE, client_id="me", connect_timeout_ms=2_500, request_timeout_ms=7_500, **more)


SERVED = [(ApiKey.HEARTBEAT, 0, 4), (ApiKey.METADATA, 1, 9), (ApiKey.FETCH, 4, 17), (ApiKey.CREATE_TOPICS, 6, 7)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def headers(world: World) -> list[tuple[int, int, int, str | None]]:
    return [(one.api_key, one.api_version, one.correlation_id, one.client_id) for one in world.socket.sent]


def test_no_newer_version_is_asked_than_names_topics_and_is_about_one_group() -> None:
    assert NEWEST_VERSIONS == BY_NAME
    assert all(version in api_of(key).versions for key, version in BY_NAME.items())


def test_what_is_made_ready_is_the_version_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(module, "codec", SimpleNamespace(make_ready=lambda *what: made.append(what)))
    make_ready(ApiKey.FETCH, ApiKey.METADATA)
    assert made == [(FetchRequest, FetchResponse, 11), (MetadataRequest, MetadataResponse, 12)]


def test_how_it_begins(world: World) -> None:
    connection = world.connect()
    assert world.asked == [(("h", 9), 2.5)]
    assert world.socket.log == [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20),
        7.5,
    ]
    assert headers(world) == [(ApiKey.API_VERSIONS, 0, 1, "me")]
    assert connection.is_idle
    connection.close()
    assert world.socket.log[-1] == "closed"


def test_a_broker_that_does_not_say_what_it_serves_is_left(world: World) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR: h:9 refuses to say which versions it serves"):
        world.connect(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert world.socket.log[-1] == "closed"


def test_the_newest_version_of_both_is_asked(world: World) -> None:
    connection = world.connect()
    assert connection.version_of(ApiKey.METADATA) == 9
    assert connection.version_of(ApiKey.FETCH) == 11
    assert connection.version_of(ApiKey.FETCH, 16) == 16
    assert connection.version_of(ApiKey.METADATA, 1) == 1
    for key in (ApiKey.CREATE_TOPICS, ApiKey.PRODUCE):
        with pytest.raises(
            KafkaError, match=rf"UNSUPPORTED_VERSION: the broker h:9 speaks no version of {api_of(key).name}"
        ):
            connection.version_of(key)


def test_requests_are_answered_in_their_order(world: World) -> None:
    connection = world.connect()
    for version in (4, 3):
        connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), version)
    connection.send(ApiKey.METADATA, MetadataRequest())
    assert headers(world)[1:] == [
        (ApiKey.HEARTBEAT, 4, 2, "me"),
        (ApiKey.HEARTBEAT, 3, 3, "me"),
        (ApiKey.METADATA, 9, 4, "me"),
    ]
    for number, version in ((2, 4), (3, 3)):
        assert not connection.is_idle
        assert not connection.is_usable
        world.answer(HeartbeatResponse(error_code=number), ApiKey.HEARTBEAT, version, number)
        assert connection.receive(HeartbeatResponse).error_code == number
    world.answer(MetadataResponse(cluster_id="c"), ApiKey.METADATA, 9, 4)
    frame, version = connection.receive_frame()
    assert connection.is_idle
    whole = encode_response(MetadataResponse(cluster_id="c"), ApiKey.METADATA, 9, 4)
    assert (bytes(frame), version) == (whole[9:], 9), "behind length, number and no tagged fields"


def test_of_a_header_without_tagged_fields_less_is_skipped(world: World) -> None:
    connection = world.connect()
    connection.send(ApiKey.FETCH, FetchRequest())
    whole = encode_response(FetchResponse(), ApiKey.FETCH, 11, 2)
    world.socket.coming += whole
    frame, version = connection.receive_frame()
    assert (bytes(frame), version) == (whole[8:], 11)


@pytest.mark.parametrize("number", [1, 3])
def test_an_answer_to_another_request_is_refused(world: World, number: int) -> None:
    connection = world.connect()
    connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), 4)
    world.answer(HeartbeatResponse(), ApiKey.HEARTBEAT, 4, number)
    with pytest.raises(DecodeError, match=f"h:9 answers request {number} where 2 is due"):
        connection.receive(HeartbeatResponse)
    world.answer(HeartbeatResponse(), ApiKey.HEARTBEAT, 4, number)
    with pytest.raises(DecodeError, match="h:9 answers another request than the one that is due"):
        connection.receive_frame()
    assert not connection.is_idle


@pytest.mark.parametrize(("frame", "is_whole"), [(b"\0\0\0\2", False), (b"\0\0\0\2\0", True), (b"", False)])
def test_an_answer_of_its_number_alone_is_none(world: World, frame: bytes, *, is_whole: bool) -> None:
    connection = world.connect()
    connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), 3)
    world.socket.coming += len(frame).to_bytes(4, "big") + frame
    if is_whole:
        assert bytes(connection.receive_frame()[0]) == b"\0"
    else:
        with pytest.raises(DecodeError):
            connection.receive_frame()


@pytest.mark.parametrize(("length", "is_good"), [(-1, False), (0, True), (1, True), (MAX_RESPONSE_BYTES + 1, False)])
def test_a_length_that_cannot_be_is_refused_before_room_is_made(world: World, length: int, *, is_good: bool) -> None:
    connection = world.connect()
    world.socket.coming += length.to_bytes(4, "big", signed=True) + b"x"
    if is_good:
        assert bytes(connection._read_frame()) == b"x" * length
    else:
        with pytest.raises(DecodeError, match=f"h:9 announces a response of {length} bytes: is it a Kafka listener"):
            connection._read_frame()


@pytest.mark.parametrize(("is_sent", "has_news", "is_usable"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_one_is_usable_that_is_quiet_on_both_sides(
    world: World, *, is_sent: bool, has_news: bool, is_usable: bool
) -> None:
    connection = world.connect()
    if is_sent:
        connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), 4)
    world.socket.has_news = has_news
    assert connection.is_usable == is_usable


# -- who it is --------------------------------------------------------------------------------------------------------


def steps(life_ms: int, done: list[object]) -> Any:
    """Asks something, does some work that fails at first, and ends with how long the session lasts."""

    def log_in(address: Address) -> Any:
        assert address == PLACE
        done.append((yield HeartbeatRequest()))
        try:
            yield fails
        except SaslError as error:
            done.append(str(error))
        done.append((yield lambda: "worked"))
        return life_ms

    def fails() -> object:
        raise SaslError("no token")

    return log_in


def test_who_logs_in_does_so_again_before_the_session_ends(world: World) -> None:
    done: list[object] = []
    world.answer(HeartbeatResponse(error_code=3), ApiKey.HEARTBEAT, 4, 2)
    heartbeat = bytes(world.socket.coming)
    world.socket.coming.clear()

    def said() -> list[object]:
        found = [one.error_code if isinstance(one, HeartbeatResponse) else one for one in done]
        done.clear()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NEWEST_VERSIONS", NEWEST_VERSIONS | {ApiKey.HEARTBEAT: 4})
        served = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in SERVED]
        world.answer(ApiVersionsResponse(api_keys=served), ApiKey.API_VERSIONS, 0, 1)
        world.socket.coming += heartbeat
        connection = BlockingConnection(
            PLACE, client_id="me", connect_timeout_ms=1, request_timeout_ms=1, log_in=steps(100_000, done)
        )
        assert said() == [3, "no token", "worked"]
        world.now_s = 1_084.99
        connection.send(ApiKey.METADATA, MetadataRequest())
        world.now_s = 1_085.0
        connection.send(ApiKey.METADATA, MetadataRequest())
        assert said() == [], "something is under way"
        for number in (3, 4):
            world.answer(MetadataResponse(), ApiKey.METADATA, 9, number)
            connection.receive(MetadataResponse)
        world.answer(HeartbeatResponse(error_code=5), ApiKey.HEARTBEAT, 4, 5)
        connection.send(ApiKey.METADATA, MetadataRequest())
        assert said() == [5, "no token", "worked"]
        assert connection._log_in_again_at_s == 1_085.0 + 85.0
    assert [one.api_key for one in world.socket.sent][-2:] == [ApiKey.HEARTBEAT, ApiKey.METADATA]


def no_steps(address: Address) -> Any:
    return 0
    yield


def test_a_session_without_an_end_is_not_renewed(world: World) -> None:
    connection = world.connect(log_in=no_steps)
    assert connection._log_in_again_at_s is None
    world.now_s = 1e12
    connection.send(ApiKey.METADATA, MetadataRequest())
    assert headers(world)[-1][:2] == (ApiKey.METADATA, 9)


# -- why it ends ------------------------------------------------------------------------------------------------------

LOG_IN = "; if clients have to log in there, set security.protocol and sasl.mechanism"
OTHER = ": does it listen for another security.protocol?"


@pytest.mark.parametrize(("before", "logs_in", "hint"), [(0, False, LOG_IN), (1, False, ""), (0, True, "")])
def test_what_a_closed_connection_hints_at(world: World, before: int, hint: str, *, logs_in: bool) -> None:
    connection = world.connect(log_in=no_steps if logs_in else None)
    for number in range(before):
        world.answer(HeartbeatResponse(), ApiKey.HEARTBEAT, 4, number + 2)
        connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse, 4)
    connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), 4)
    world.socket.coming += b"\0\0\0\x09half"
    with pytest.raises(ConnectionResetError) as closed:
        connection.receive(HeartbeatResponse)
    assert str(closed.value) == f"h:9 closed the connection{hint}"


def test_one_that_says_nothing_at_all_may_listen_for_another_protocol(world: World) -> None:
    with pytest.raises(ConnectionResetError) as closed:
        BlockingConnection(PLACE, client_id="me", connect_timeout_ms=1, request_timeout_ms=1)
    assert str(closed.value) == f"h:9 closed the connection{OTHER}"
    assert world.socket.log[-1] == "closed"
