"""Connections over real sockets: order of responses, garbage, slow readers, limits."""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import pytest
from tests.unit.node.served_node import RawClient, serving
from tests.unit.node.serving.logged import VERSIONS_REQUEST, refusals

from penstock.log.disk import OpenFile
from penstock.log.log_slice import LogSlice
from penstock.node.serving import versions
from penstock.node.serving.connection import MAX_BACKLOG_BYTES, Connection
from penstock.node.serving.connections import ConnectionLimits
from penstock.node.serving.frames import SHARED_BYTES
from penstock.node.serving.handler import CloseConnection, Handler, RequestContext
from penstock.node.serving.outgoing import CHUNK_BYTES, Outgoing
from penstock.node.serving.rules import NOTHING
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request


async def test_the_table_of_api_versions_is_what_the_handlers_declare() -> None:
    async with serving(Handler(ApiKey.HEARTBEAT, 1, 4, lambda *_: HeartbeatResponse(), NOTHING)) as node:
        client = await node.connect()
        client.send(VERSIONS_REQUEST, 3)
        _, response = await client.receive(ApiKey.API_VERSIONS, 3)
    assert isinstance(response, ApiVersionsResponse)
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4), (12, 1, 4)]


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    async with serving() as node:
        client = await node.connect()
        client.writer.write(struct.pack(">ihhihb", 11, ApiKey.API_VERSIONS, 77, 5, -1, 0))
        correlation_id, response = await client.receive(ApiKey.API_VERSIONS, 0)
        assert await client.lives()
    assert isinstance(response, ApiVersionsResponse)
    assert (correlation_id, response.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "ü"])
async def test_a_software_name_that_is_no_name_is_refused(name: str) -> None:
    async with serving() as node:
        client = await node.connect()
        client.send(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
        _, response = await client.receive(ApiKey.API_VERSIONS, 3)
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST


GARBAGE = {
    "length beyond the limit": struct.pack(">i", 104_857_601),
    "negative length": struct.pack(">i", -5),
    "length of nothing": struct.pack(">i", 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "a frame too short for a header": struct.pack(">ihh", 4, 18, 3),
    "a client id beyond the frame": struct.pack(">ihhih", 10, 18, 0, 1, 500),
    "a client id that is no text": struct.pack(">ihhih", 12, 18, 0, 1, 2) + b"\xff\xfe",
    "an API that nobody knows": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a version that is not served": struct.pack(">ihhih", 10, ApiKey.HEARTBEAT, 9, 1, -1),
    "a body that ends early": struct.pack(">ihhih", 12, ApiKey.HEARTBEAT, 0, 1, -1) + b"\x00\x05",
    "a string beyond the frame": struct.pack(">ihhih", 15, ApiKey.LIST_GROUPS, 5, 1, -1) + b"\x00\x02\xff\xff\x7f",
    "an absurd array length": struct.pack(">ihhih", 17, ApiKey.LIST_GROUPS, 5, 1, -1) + b"\x00\xff\xff\xff\xff\x0f\x00",
}


async def test_a_request_that_repeats_is_decoded_once_and_another_is_not_taken_for_it() -> None:
    asked: list[HeartbeatRequest] = []

    def note(_node: object, _context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        asked.append(request)
        return HeartbeatResponse()

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, note, NOTHING, repeats=True)) as node:
        client = await node.connect()
        for member_id, version in (("a", 4), ("b", 4), ("a", 4), ("a", 3), ("m" * 600, 4), ("m" * 600, 4)):
            client.send(HeartbeatRequest(group_id="g", member_id=member_id), version)
            await client.receive(ApiKey.HEARTBEAT, version)
    assert [request.member_id for request in asked] == ["a", "b", "a", "a", "m" * 600, "m" * 600]
    assert asked[0] is asked[2]
    assert asked[4] is not asked[5]


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_closes_its_connection_with_one_line_and_no_other(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeat = Handler(ApiKey.HEARTBEAT, 0, 4, lambda *_: HeartbeatResponse(), NOTHING)
    list_groups = Handler(ApiKey.LIST_GROUPS, 0, 5, lambda *_: ListGroupsResponse(), NOTHING)
    async with serving(heartbeat, list_groups) as node:
        neighbour = await node.connect()
        assert await neighbour.lives()
        client = await node.connect()
        client.writer.write(garbage)
        assert await client.closed()
        assert await neighbour.lives()
        assert await (await node.connect()).lives()
    (line,) = refusals(caplog)
    assert "closed: " in line


def failing(*_: Any) -> Any:
    raise RuntimeError("a defect")


async def failing_later(*_: Any) -> Any:
    raise RuntimeError("a defect")


def refusing(*_: Any) -> Any:
    raise CloseConnection("not today")


@pytest.mark.parametrize("function", [failing, failing_later, refusing])
async def test_a_handler_that_fails_closes_the_connection_with_one_line(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, function, NOTHING)) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(), 4)
        assert await client.closed()
        assert await (await node.connect()).lives()
    assert len(refusals(caplog)) == 1


class Gate:
    """Heartbeats that are answered when the test says so, by group id."""

    def __init__(self, *, pipelined: bool) -> None:
        self.waiting: dict[str, asyncio.Future[HeartbeatResponse]] = {}
        self.arrived = asyncio.Event()
        self.handler = Handler(ApiKey.HEARTBEAT, 0, 4, self._heartbeat, NOTHING, pipelined=pipelined)

    def _heartbeat(self, _broker: Any, _context: Any, request: Any) -> asyncio.Future[HeartbeatResponse]:
        self.arrived.set()
        return self.waiting.setdefault(request.group_id, asyncio.get_running_loop().create_future())

    def answer(self, group_id: str) -> None:
        self.waiting[group_id].set_result(HeartbeatResponse(error_code=int(group_id)))


async def test_requests_behind_one_that_waits_are_not_looked_at() -> None:
    gate = Gate(pipelined=False)
    async with serving(gate.handler) as node:
        client = await node.connect()
        first, second, third = (
            client.send(HeartbeatRequest(group_id="1"), 4),
            client.send(HeartbeatRequest(group_id="2"), 4),
            client.send(VERSIONS_REQUEST, 0),
        )
        await gate.arrived.wait()
        assert await (await node.connect()).lives()
        assert list(gate.waiting) == ["1"]
        gate.answer("1")
        assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == first
        assert list(gate.waiting) == ["1", "2"]
        gate.answer("2")
        assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == second
        assert (await client.receive(ApiKey.API_VERSIONS, 0))[0] == third


async def test_responses_keep_the_order_of_pipelined_requests() -> None:
    gate = Gate(pipelined=True)
    async with serving(gate.handler) as node:
        client = await node.connect()
        sent = [
            client.send(HeartbeatRequest(group_id="1"), 4),
            client.send(HeartbeatRequest(group_id="2"), 4),
            client.send(HeartbeatRequest(group_id="3"), 4),
        ]
        await gate.arrived.wait()
        assert await (await node.connect()).lives()
        assert list(gate.waiting) == ["1", "2", "3"]
        for group_id in ("3", "2", "1"):
            gate.answer(group_id)
        received = [(await client.receive(ApiKey.HEARTBEAT, 4))[0] for _ in sent]
    assert received == sent


async def test_answers_that_are_ready_together_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those to all the produce requests whose records one fetch of a follower commits."""
    waiting: list[asyncio.Future[list[bytes]]] = []
    writes: list[int] = []
    flush = Outgoing.flush

    def wait(_broker: Any, context: RequestContext, _frame: memoryview, _position: int) -> asyncio.Future[list[bytes]]:
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return future

    def counted(out: Outgoing, transport: asyncio.Transport) -> None:
        writes.append(out.queued_bytes)
        flush(out, transport)

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, wait, NOTHING, raw=True, pipelined=True)) as node:
        client = await node.connect()
        for number in range(4):
            client.send(HeartbeatRequest(group_id=str(number)), 4)
        while len(waiting) < 4:
            assert await (await node.connect()).lives()
        monkeypatch.setattr(Outgoing, "flush", counted)
        for number in (0, 2, 1):
            waiting[number].set_result([struct.pack(">ii", 4, number)])
        assert [await client.receive_frame() for _ in range(3)] == [struct.pack(">i", n) for n in range(3)]
        waiting[3].set_result([struct.pack(">ii", 4, 3)])
        assert await client.receive_frame() == struct.pack(">i", 3)
    assert writes == [24, 8]


@pytest.mark.parametrize("names", [1, SHARED_BYTES // 1000 + 1], ids=["small", "in a frame of its own"])
async def test_a_request_that_is_not_pipelined_is_not_taken_before_all_those_in_front_are_answered(
    names: int,
) -> None:
    gate, asked = Gate(pipelined=True), list[str]()

    def delete(_broker: Any, _context: Any, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        asked.append("delete")
        return DeleteGroupsResponse()

    async with serving(gate.handler, Handler(ApiKey.DELETE_GROUPS, 0, 0, delete, NOTHING)) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="1"), 4)
        client.send(HeartbeatRequest(group_id="2"), 4)
        client.send(DeleteGroupsRequest(groups_names=["x" * 1000] * names), 0)
        client.send(HeartbeatRequest(group_id="3"), 4)
        await gate.arrived.wait()
        for group_id in ("2", "1"):
            assert await (await node.connect()).lives()
            assert (list(gate.waiting), asked) == (["1", "2"], [])
            gate.answer(group_id)
        for key, version in ((ApiKey.HEARTBEAT, 4), (ApiKey.HEARTBEAT, 4), (ApiKey.DELETE_GROUPS, 0)):
            await client.receive(key, version)
        assert asked == ["delete"]
        gate.answer("3")
        await client.receive(ApiKey.HEARTBEAT, 4)


async def test_a_peer_that_sends_while_it_has_to_wait_is_held_back() -> None:
    gate = Gate(pipelined=False)
    async with serving(gate.handler) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="1"), 4)
        await gate.arrived.wait()
        (connection,) = node.connections.active
        assert isinstance(connection, Connection)
        request = encode_request(VERSIONS_REQUEST, 3, 9, "x" * 100)
        count = 8 * SHARED_BYTES // len(request)
        client.writer.write(request * count)
        while not connection._reading_paused:
            assert await (await node.connect()).lives()
        assert len(connection._backlog) <= MAX_BACKLOG_BYTES + SHARED_BYTES
        gate.answer("1")
        await client.receive(ApiKey.HEARTBEAT, 4)
        for _ in range(count):
            assert (await client.receive(ApiKey.API_VERSIONS, 3))[0] == 9


class EndlessFile(OpenFile):
    """A file whose every byte is its position's last byte."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.most_read = 0

    def read_at(self, length: int, position: int) -> bytes:
        self.most_read = max(self.most_read, position + length)
        return bytes(i & 0xFF for i in range(position, position + length))

    def send_to(self, socket: int, length: int, position: int) -> int:
        sent = os.write(socket, self.read_at(min(length, CHUNK_BYTES), position))
        self.most_read = position + sent
        return sent


async def test_a_slow_reader_costs_a_chunk_not_what_it_asked_for() -> None:
    file = EndlessFile()
    size = 64 * CHUNK_BYTES

    def fetch(*_: Any) -> list[bytes | LogSlice]:
        return [struct.pack(">ii", size + 4, 1), LogSlice(file, 0, size, 0)]

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, fetch, NOTHING, raw=True)) as node:
        client = await node.connect()
        transport = cast("asyncio.Transport", client.writer.transport)
        transport.pause_reading()
        client.send(HeartbeatRequest(), 4)
        while not file.most_read:
            assert await (await node.connect()).lives()
        (connection, *_) = node.connections.active
        assert isinstance(connection, Connection)
        assert file.most_read < size
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() <= CHUNK_BYTES
        transport.resume_reading()
        frame = await client.receive_frame()
    assert frame[4:] == bytes(range(256)) * (size // 256)


async def test_frames_are_found_wherever_the_bytes_are_cut() -> None:
    requests = b"".join(encode_request(VERSIONS_REQUEST, 3, i, "client") for i in range(3))
    async with serving() as node:
        for cut in range(1, len(requests)):
            client = await node.connect()
            client.writer.write(requests[:cut])
            # Another connection's answer means that the first part was taken in.
            assert await (await node.connect()).lives()
            client.writer.write(requests[cut:])
            assert [(await client.receive(ApiKey.API_VERSIONS, 3))[0] for _ in range(3)] == [0, 1, 2]
            client.writer.close()


async def test_a_frame_larger_than_the_shared_buffer_arrives_whole() -> None:
    seen: list[int] = []

    def sync_group(_broker: Any, _context: Any, request: SyncGroupRequest) -> SyncGroupResponse:
        seen.append(len(request.assignments[0].assignment))
        return SyncGroupResponse()

    async with serving(Handler(ApiKey.SYNC_GROUP, 0, 5, sync_group, NOTHING)) as node:
        client = await node.connect()
        for size in (SHARED_BYTES, 3 * SHARED_BYTES, 20 * SHARED_BYTES, 3 * SHARED_BYTES):
            client.send(SyncGroupRequest(assignments=[SyncGroupRequestAssignment(assignment=bytes(size))]), 5)
            await client.receive(ApiKey.SYNC_GROUP, 5)
        assert await client.lives()
    assert seen == [SHARED_BYTES, 3 * SHARED_BYTES, 20 * SHARED_BYTES, 3 * SHARED_BYTES]


async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    gate = Gate(pipelined=False)
    async with serving(gate.handler, limits=ConnectionLimits(max_idle_ms=1)) as node:
        dispatcher = node.connections.dispatcher
        clock_ns = dispatcher.clock_ns
        begun_ns = clock_ns()
        dispatcher.clock_ns = lambda: begun_ns  # nobody is idle before the request has come
        waiting = await node.connect()
        waiting.send(HeartbeatRequest(group_id="1"), 4)
        await gate.arrived.wait()
        dispatcher.clock_ns = clock_ns
        idle = await node.connect()
        assert await idle.closed()
        gate.answer("1")
        await waiting.receive(ApiKey.HEARTBEAT, 4)
        assert await waiting.closed()


@pytest.mark.parametrize(
    "limits",
    [
        ConnectionLimits(max_connections=2),
        ConnectionLimits(max_connections_per_ip=2),
        ConnectionLimits(max_connections_per_ip=99, max_connections_per_ip_overrides={"127.0.0.1": 2}),
    ],
)
async def test_one_connection_too_many_is_refused(limits: ConnectionLimits, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(limits=limits) as node:
        first, second = await node.connect(), await node.connect()
        assert await first.lives()
        assert await second.lives()
        assert await (await node.connect()).closed()
        assert len(refusals(caplog)) == 1
        second.writer.close()
        while len(node.connections.active) > 1:
            assert await first.lives()
        third: RawClient = await node.connect()
        assert await third.lives()


async def test_a_stop_answers_what_waits_and_closes_the_rest() -> None:
    gate = Gate(pipelined=False)
    async with serving(gate.handler) as node:
        waiting, idle = await node.connect(), await node.connect()
        waiting.send(HeartbeatRequest(group_id="1"), 4)
        await gate.arrived.wait()
        assert await idle.lives()
        stopping = asyncio.ensure_future(node.connections.stop(60))
        assert await idle.closed()
        gate.answer("1")
        await waiting.receive(ApiKey.HEARTBEAT, 4)
        assert await waiting.closed()
        await stopping


class Groups(list[ListedGroup]):
    """Knows who has read them."""

    readers: ClassVar[set[int]] = set()

    def __iter__(self) -> Iterator[ListedGroup]:
        self.readers.add(threading.get_ident())
        return super().__iter__()


@pytest.mark.parametrize("count", [1, 1000])
async def test_bytes_of_a_long_answer_that_was_waited_for_are_made_in_a_thread(count: int) -> None:
    async def answers(*_: Any) -> ListGroupsResponse:
        return ListGroupsResponse(groups=Groups(ListedGroup(group_id=f"g-{number}") for number in range(count)))

    Groups.readers.clear()
    async with serving(Handler(ApiKey.LIST_GROUPS, 0, 5, answers, NOTHING)) as node:
        client = await node.connect()
        client.send(ListGroupsRequest(), 5)
        _, response = await client.receive(ApiKey.LIST_GROUPS, 5)
    assert isinstance(response, ListGroupsResponse)
    assert len(response.groups) == count
    assert (threading.get_ident() in Groups.readers) == (count == 1)


@pytest.mark.parametrize(
    ("version", "names", "cluster", "makes_sense"),
    [
        (5, ("lib", "1.0"), (None, -1), True),
        (5, ("lib", "1.0"), ("c", 1), True),
        (5, ("lib", "1.0"), ("c", -1), False),
        (5, ("lib", "1.0"), (None, 1), False),
        (5, ("lib", "-"), (None, -1), False),
        (3, ("", "1.0"), (None, -1), False),
        (2, ("", ""), (None, -1), True),
    ],
)
def test_names_of_software_and_who_is_looked_for_make_sense(
    version: int, names: tuple[str, str], cluster: tuple[str | None, int], makes_sense: bool
) -> None:
    request = ApiVersionsRequest(
        client_software_name=names[0],
        client_software_version=names[1],
        cluster_id=cluster[0],
        node_id=cluster[1],
    )
    assert versions._makes_sense(request, version) is makes_sense
