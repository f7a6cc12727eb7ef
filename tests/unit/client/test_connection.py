"""One connection, against a broker of a few lines on a real socket."""

import asyncio

import pytest
from tests.unit.client.fake_broker import FakeBroker, Reply, fake_broker

from penstock.client.connection import Connection, KnownNode, connect
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
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import KEYS, ApiKey
from penstock.protocol.requests.framing import RequestHeader, encode_response
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(client_id="test", request_timeout_ms=20_000)


def heartbeat_ok(header: RequestHeader, request: Message) -> Reply:
    assert isinstance(request, HeartbeatRequest)
    return HeartbeatResponse(error_code=request.generation_id)


def silence(header: RequestHeader, request: Message) -> Reply:
    return None


async def heartbeat(connection: Connection, generation_id: int = 0) -> HeartbeatResponse:
    return await connection.request(HeartbeatRequest(group_id="g", generation_id=generation_id), HeartbeatResponse)


async def test_requests_go_in_the_highest_version_that_both_know() -> None:
    async with fake_broker(heartbeat_ok, {ApiKey.HEARTBEAT: (0, 2)}) as broker:
        connection = await connect(broker.address, SETTINGS)
        await heartbeat(connection)
        header, _ = broker.requests[-1]
        assert (header.api_key, header.api_version, header.client_id) == (ApiKey.HEARTBEAT, 2, "test")
        assert connection.version_for(ApiKey.HEARTBEAT, 1) == 1
        await connection.close()


async def test_an_api_without_a_common_version_is_refused_before_anything_is_sent() -> None:
    async with fake_broker(heartbeat_ok, {ApiKey.HEARTBEAT: (90, 95)}) as broker:
        connection = await connect(broker.address, SETTINGS)
        with pytest.raises(UnsupportedByBrokerError, match=r"HEARTBEAT.*serves 90 to 95"):
            await heartbeat(connection)
        assert len(broker.requests) == 1
        await connection.close()


async def test_a_broker_that_knows_only_an_older_api_versions_is_asked_again() -> None:
    def refuse(header: RequestHeader, request: Message) -> Reply:
        return ApiVersionsResponse(error_code=35, api_keys=broker.versions_table())

    async with fake_broker(refuse, {ApiKey.API_VERSIONS: (0, 1)}) as broker:
        connection = await connect(broker.address, SETTINGS)
        assert [header.api_version for header, _ in broker.requests] == [5, 1]
        await connection.close()


@pytest.mark.parametrize(("newest", "told"), [(5, ("here", 3)), (4, (None, -1))])
async def test_a_broker_is_told_which_node_is_looked_for_if_it_understands_that(
    newest: int, told: tuple[str | None, int]
) -> None:
    def refuse(header: RequestHeader, request: Message) -> Reply:
        return ApiVersionsResponse(error_code=35, api_keys=broker.versions_table())

    async with fake_broker(refuse, {ApiKey.API_VERSIONS: (0, newest)}) as broker:
        broker.node = ("here", 3)
        connection = await connect(broker.address, SETTINGS, KnownNode("here", 3))
        _, request = broker.requests[-1]
        assert isinstance(request, ApiVersionsRequest)
        assert (request.cluster_id, request.node_id) == told
        await connection.close()


@pytest.mark.parametrize("looked_for", [KnownNode("elsewhere", 3), KnownNode("here", 4)])
async def test_another_node_than_the_one_that_is_looked_for_is_not_talked_to(looked_for: KnownNode) -> None:
    async with fake_broker(silence) as broker:
        broker.node = ("here", 3)
        name = f"{broker.address} is not the address of node {looked_for.node_id} of cluster {looked_for.cluster_id}"
        with pytest.raises(WrongNodeError, match=name):
            await connect(broker.address, SETTINGS, looked_for)


async def test_answers_are_matched_to_pipelined_requests_in_their_order() -> None:
    async with fake_broker(heartbeat_ok) as broker:
        connection = await connect(broker.address, SETTINGS)
        answers = await asyncio.gather(*(heartbeat(connection, number) for number in range(20)))
        assert [answer.error_code for answer in answers] == list(range(20))
        await connection.close()


@pytest.mark.parametrize(
    ("sent", "error", "text"),
    [
        (b"", ConnectionFailedError, "closed the connection while HEARTBEAT was under way"),
        (b"\0\0\0\x20half", ConnectionFailedError, "closed the connection in the middle of an answer"),
        (b"HTTP/1.1 400 Bad Request\r\n", ProtocolViolationError, "does not answer as a Kafka broker does"),
        (b"\0\0\0\0", ProtocolViolationError, "a frame that claims 0 bytes"),
        (b"\xff\xff\xff\xff", ProtocolViolationError, "a frame that claims -1 bytes"),
        (b"\0\0\0\4\0\0\0\x63", ProtocolViolationError, "does not answer as a Kafka broker does"),
        (b"\0\0\0\2hi", ProtocolViolationError, "does not answer as a Kafka broker does"),
    ],
)
async def test_what_a_broken_broker_sends(sent: bytes, error: type[ConnectionFailedError], text: str) -> None:
    async with fake_broker(lambda header, request: sent) as broker:
        connection = await connect(broker.address, SETTINGS)
        with pytest.raises(error, match=text) as caught:
            await heartbeat(connection)
        assert type(caught.value) is error
        assert str(broker.address) in str(caught.value)
        assert connection.closed
        with pytest.raises(error):
            await heartbeat(connection)


async def test_an_answer_to_another_request_is_a_violation() -> None:
    async with fake_broker(silence) as broker:
        broker.answering = lambda header, request: encode_response(HeartbeatResponse(), ApiKey.HEARTBEAT, 4, 77)
        connection = await connect(broker.address, SETTINGS)
        with pytest.raises(ProtocolViolationError, match="the answer to 77 where 1 was due"):
            await heartbeat(connection)


async def test_an_answer_to_no_question_is_a_violation() -> None:
    async with fake_broker(silence) as broker:
        connection = await connect(broker.address, SETTINGS)
        connection.get_buffer(-1)[:8] = b"\0\0\0\4\0\0\0\0"
        connection.buffer_updated(8)
        assert connection.closed


async def test_a_request_that_is_not_answered_in_time_closes_the_connection() -> None:
    async with fake_broker(silence) as broker:
        connection = await connect(broker.address, SETTINGS)
        other = asyncio.ensure_future(heartbeat(connection))
        with pytest.raises(RequestTimedOutError, match="did not answer within 5 ms"):
            await connection.request(HeartbeatRequest(), HeartbeatResponse, timeout_ms=5)
        with pytest.raises(ConnectionFailedError):
            await other
        assert connection.closed


async def test_a_broker_that_takes_no_requests_in_time_loses_the_connection() -> None:
    async with fake_broker(heartbeat_ok) as broker:
        one, other = [await connect(broker.address, SETTINGS) for _ in range(2)]
        for connection in (one, other):
            connection.pause_writing()
        for waits in (one.writable(5), other.request(HeartbeatRequest(), HeartbeatResponse, timeout_ms=5)):
            with pytest.raises(RequestTimedOutError, match="took no requests for 5 ms"):
                await waits
        assert one.closed
        assert other.closed


async def test_a_cancelled_request_leaves_the_connection_in_step() -> None:
    async with fake_broker(heartbeat_ok) as broker:
        connection = await connect(broker.address, SETTINGS)
        cancelled = connection.submit(HeartbeatRequest(generation_id=1), HeartbeatResponse)
        cancelled.cancel()
        assert (await heartbeat(connection, 2)).error_code == 2
        await connection.close()


async def test_a_connection_that_has_ended_holds_no_room_for_answers() -> None:
    async with fake_broker(silence) as broker:
        connection = await connect(broker.address, SETTINGS)
        assert len(connection._frames._buffer)
        await connection.close()
        assert not connection._frames._buffer


async def test_close_tells_those_who_wait() -> None:
    async with fake_broker(silence) as broker:
        connection = await connect(broker.address, SETTINGS)
        waiting = connection.submit(HeartbeatRequest(), HeartbeatResponse)
        await connection.close()
        with pytest.raises(ConnectionFailedError, match="was closed"):
            await waiting


async def test_nobody_listens() -> None:
    with pytest.raises(ClusterUnreachableError, match=r"cannot reach 127.0.0.1:1 \(connection refused\)"):
        await connect(Address("127.0.0.1", 1), SETTINGS)


async def test_a_listener_that_says_nothing_is_given_up() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    for impatient in (ClientSettings(request_timeout_ms=5), ClientSettings(socket_connection_setup_timeout_ms=5)):
        with pytest.raises(RequestTimedOutError, match="within 5 ms"):
            await connect(address, impatient)
    server.close()


def test_the_fake_broker_names_every_api() -> None:
    assert FakeBroker(silence).api_versions.keys() == set(KEYS)
