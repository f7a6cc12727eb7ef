"""What a connection counts, which versions it speaks, when it is idle, and what it hints at when it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import connection as module
from penstock.client.connection import IDLE_CHECKS, Connection, KnownNode, connect
from penstock.client.errors import (
    ClusterUnreachableError,
    ConnectionFailedError,
    ProtocolViolationError,
    RequestTimedOutError,
    UnsupportedByBrokerError,
    WrongNodeError,
)
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import Traffic, encode_response, parse_request_header

PLACE = Address("h", 9)
SERVED = [(ApiKey.API_VERSIONS, 0, 4), (ApiKey.HEARTBEAT, 0, 4), (ApiKey.METADATA, 1, 9)]


class Transport:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.count = 0
        self.aborts = 0

    def write(self, request: bytes) -> None:
        self.sent.append(parse_request_header(request[4:])[0])
        self.count += len(request)

    def abort(self) -> None:
        self.aborts += 1


def made(**settings: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(PLACE, ClientSettings(client_id="me", **settings)), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def comes(connection: Connection, content: bytes) -> None:
    connection.get_buffer(-1)[: len(content)] = content
    connection.buffer_updated(len(content))


def versions(code: int = 0, served: Any = SERVED, **more: Any) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in served]
    return ApiVersionsResponse(error_code=code, api_keys=rows, **more)


async def negotiated(*answers: ApiVersionsResponse, node: KnownNode | None = None) -> tuple[Connection, Transport]:
    """Each answer comes to the next request."""
    connection, transport = made()
    negotiating = asyncio.create_task(connection.negotiate(node))
    for number, answer in enumerate(answers):
        await asyncio.sleep(0)
        header = transport.sent[-1]
        assert (header.api_key, header.correlation_id) == (ApiKey.API_VERSIONS, number)
        version = 0 if answer.error_code == ErrorCode.UNSUPPORTED_VERSION else header.api_version
        comes(connection, encode_response(answer, ApiKey.API_VERSIONS, version, number))
        await asyncio.sleep(0)
    await negotiating
    return connection, transport


# -- versions ---------------------------------------------------------------------------------------------------------


REFUSED = ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("refusals", "asked"),
    [
        ([], [5]),
        ([[(ApiKey.API_VERSIONS, 0, 2)]], [5, 2]),
        ([[(ApiKey.API_VERSIONS, 0, 9)]], [5, 4]),
        ([[(ApiKey.METADATA, 0, 9), (ApiKey.API_VERSIONS, 0, 3)]], [5, 3]),
        ([[]], [5, 0]),
        ([[(ApiKey.API_VERSIONS, 0, 9)], [(ApiKey.API_VERSIONS, 0, 9)]], [5, 4, 3]),
    ],
)
async def test_an_older_version_is_asked_until_one_is_understood(refusals: list[Any], asked: list[int]) -> None:
    features = [FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1)]
    answers = [*(versions(REFUSED, served) for served in refusals), versions(finalized_features=features)]
    connection, transport = await negotiated(*answers)
    assert [header.api_version for header in transport.sent] == asked
    assert connection.served == {int(key): (low, high) for key, low, high in SERVED}
    assert connection.features == ({"transaction.version": 2} if asked[-1] >= 3 else {})
    assert (connection.serves(ApiKey.METADATA), connection.serves(ApiKey.PRODUCE)) == (True, False)


async def test_who_does_not_understand_even_the_first_version_is_left() -> None:
    with pytest.raises(ProtocolViolationError, match="h:9 does not say what it serves: 35"):
        await negotiated(versions(REFUSED, []), versions(REFUSED, []))


@pytest.mark.parametrize("is_known", [False, True])
async def test_who_is_another_node_says_so(*, is_known: bool) -> None:
    error, text = (
        (WrongNodeError, "not the address of node 3 of cluster c")
        if is_known
        else (
            ProtocolViolationError,
            "does not say what it serves",
        )
    )
    with pytest.raises(error, match=text) as raised:
        await negotiated(versions(ErrorCode.REBOOTSTRAP_REQUIRED), node=KnownNode("c", 3) if is_known else None)
    assert type(raised.value) is error


async def test_what_both_speak() -> None:
    connection, _ = await negotiated(versions())
    assert (connection.version_for(ApiKey.METADATA), connection.version_for(ApiKey.METADATA, 3)) == (9, 3)
    ours = api_of(ApiKey.PRODUCE).versions
    for key, newest, theirs, needed in (
        (ApiKey.PRODUCE, None, "none", f"{ours[0]} to {ours[-1]}"),
        (ApiKey.METADATA, 0, "1 to 9", "0 to 0"),
    ):
        with pytest.raises(UnsupportedByBrokerError) as raised:
            connection.version_for(key, newest)
        told = f"h:9 does not serve {key.name} as this client needs it: it serves {theirs}, needed is one of {needed}"
        assert str(raised.value) == told


# -- requests ---------------------------------------------------------------------------------------------------------


async def test_what_was_sent_and_came_is_counted() -> None:
    connection, transport = await negotiated(versions())
    begun = transport.count
    came = len(encode_response(versions(), ApiKey.API_VERSIONS, 5, 0))
    assert connection.traffic == Traffic(1, 1, begun, came)
    futures = [connection.submit(HeartbeatRequest(), HeartbeatResponse) for _ in range(3)]
    connection.send_without_answer(HeartbeatRequest(), newest=3)
    assert (connection.in_flight, connection.traffic) == (3, Traffic(5, 2, transport.count, came))
    assert [(header.api_version, header.correlation_id) for header in transport.sent[1:]] == [
        (4, 1),
        (4, 2),
        (4, 3),
        (3, 4),
    ]
    answer = encode_response(HeartbeatResponse(error_code=7), ApiKey.HEARTBEAT, 4, 1)
    comes(connection, answer)
    assert futures[0].result().error_code == 7
    assert connection.traffic == Traffic(5, 3, transport.count, came + len(answer))


async def test_numbers_begin_anew_behind_the_largest() -> None:
    connection, transport = await negotiated(versions())
    connection._next_correlation_id = 0x7FFFFFFF
    for _ in range(2):
        connection.submit(HeartbeatRequest(), HeartbeatResponse)
    assert [header.correlation_id for header in transport.sent[1:]] == [0x7FFFFFFF, 0]


@pytest.mark.parametrize("given_ms", [None, 70])
async def test_how_long_an_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch, given_ms: int | None) -> None:
    connection, _ = made(request_timeout_ms=2_500)
    loop, limits = asyncio.get_running_loop(), list[float]()
    later = loop.call_later

    def call_later(after_s: float, *what: Any) -> Any:
        limits.append(after_s)
        return later(0, *what)

    monkeypatch.setattr(loop, "call_later", call_later)
    future: asyncio.Future[Any] = loop.create_future()
    connection._expected.append(SimpleNamespace(fail=future.set_exception, api=api_of(ApiKey.HEARTBEAT)))  # type: ignore[arg-type]
    with pytest.raises(RequestTimedOutError, match=f"h:9 did not answer within {given_ms or 2_500} ms"):
        await connection.answered(future, given_ms)
    assert limits == [(given_ms or 2_500) / 1000]


# -- idleness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("idle_ms", "first_s"), [(-1, None), (0, 0.0), (8_000, 2.0)])
async def test_it_is_looked_at_four_times_whether_it_is_idle(
    monkeypatch: pytest.MonkeyPatch, idle_ms: int, first_s: float | None
) -> None:
    connection, _ = made(connections_max_idle_ms=idle_ms)
    looks: list[Any] = []
    loop = asyncio.get_running_loop()
    timer = SimpleNamespace(cancel=lambda: looks.append("cancelled"))

    def call_later(after_s: float, _: object, *state: int) -> Any:
        looks.append((after_s, *state))
        return timer

    monkeypatch.setattr(loop, "call_later", call_later)
    connection.end_when_idle()
    assert looks == ([] if first_s is None else [(first_s, 0, 0)])
    if first_s is None:
        return
    for checks in range(1, IDLE_CHECKS):
        connection._check_idle(0, checks - 1)
        assert looks[-1] == (first_s, 0, checks)
    connection._check_idle(1, IDLE_CHECKS - 1)
    assert looks[-1] == (first_s, 0, 0), "something was asked"
    connection._check_idle(0, IDLE_CHECKS - 1)
    assert (connection.closed, looks[-1]) == (True, "cancelled")
    assert IDLE_CHECKS == 4


# -- the end ----------------------------------------------------------------------------------------------------------

LOG_IN = "; if clients have to log in there, set security.protocol and sasl.mechanism"


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        ("new", ": does it listen for another security.protocol?"),
        ("idle", ""),
        ("first", " while HEARTBEAT was under way" + LOG_IN),
        ("first two", " while HEARTBEAT was under way" + LOG_IN),
        ("second", " while HEARTBEAT was under way"),
        ("logged in", " while HEARTBEAT was under way"),
        ("half", " in the middle of an answer while HEARTBEAT was under way" + LOG_IN),
        ("broken", " (broken pipe)"),
    ],
)
async def test_what_a_closed_connection_hints_at(state: str, hint: str) -> None:
    connection, _ = made() if state == "new" else await negotiated(versions())
    waiting = []
    if state in ("first", "first two", "second", "logged in", "half"):
        waiting = [connection.submit(HeartbeatRequest(), HeartbeatResponse) for _ in range(1 + (state == "first two"))]
    if state == "second":
        comes(connection, encode_response(HeartbeatResponse(), ApiKey.HEARTBEAT, 4, 1))
        waiting = [connection.submit(HeartbeatRequest(), HeartbeatResponse)]
    elif state == "logged in":
        connection._login = SimpleNamespace(give_up=list)  # type: ignore[assignment]
    elif state == "half":
        comes(connection, b"\0\0\0\x09ab")
    connection.connection_lost(BrokenPipeError(32, "Broken pipe") if state == "broken" else None)
    assert str(connection._failure) == f"h:9 closed the connection{hint}"
    for future in waiting:
        assert str(future.exception()) == f"h:9 closed the connection{hint}"
    with pytest.raises(ConnectionFailedError):
        connection._take_number()


async def test_the_first_failure_is_told_and_each_has_its_own() -> None:
    connection, transport = await negotiated(versions())
    waiting = [connection.submit(HeartbeatRequest(), HeartbeatResponse) for _ in range(2)]
    connection.pause_writing()
    connection.abort("first")
    connection.abort("second")
    errors = [future.exception() for future in waiting]
    assert [str(error) for error in errors] == ["h:9: first"] * 2
    assert errors[0] is not errors[1]
    assert (transport.aborts, connection.in_flight, connection._writable.is_set()) == (2, 0, True)
    assert connection.closed


async def test_an_answer_of_another_kind_stays_expected() -> None:
    connection, _ = await negotiated(versions())
    future = connection.submit(HeartbeatRequest(), HeartbeatResponse)
    comes(connection, encode_response(MetadataResponse(), ApiKey.METADATA, 9, 77))
    assert isinstance(future.exception(), ProtocolViolationError)
    assert connection.closed


@pytest.mark.parametrize(
    ("reached", "tried"), [("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"]), ("none", ["a", "b", "c"])]
)
async def test_the_hosts_behind_a_name_are_tried_in_turn(
    monkeypatch: pytest.MonkeyPatch, reached: str, tried: list[str]
) -> None:
    seen: list[Any] = []

    async def hosts_of(address: Address) -> list[str]:
        return ["a", "b", "c"]

    async def one(address: Address, host: str, settings: object, node: object) -> Any:
        seen.append((address, host, node))
        if host != reached:
            raise ClusterUnreachableError(f"cannot reach {host}")
        return host

    monkeypatch.setattr(module, "hosts_of", hosts_of)
    monkeypatch.setattr(module, "_connect", one)
    node = KnownNode("c", 3)
    if reached == "none":
        with pytest.raises(ClusterUnreachableError, match="cannot reach c"):
            await connect(PLACE, ClientSettings(), node)
    else:
        found: Any = await connect(PLACE, ClientSettings(), node)
        assert found == reached
    assert seen == [(PLACE, host, node) for host in tried]
