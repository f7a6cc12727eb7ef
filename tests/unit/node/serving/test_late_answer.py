"""Answers that come later, and who is told of them, over real sockets."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from tests.unit.node.served_node import Serving, serving

from penstock.node.serving.connection import Connection
from penstock.node.serving.frames import SHARED_BYTES
from penstock.node.serving.handler import Handler, RequestContext, load_handlers
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.outgoing import Outgoing
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey, OwnApiKey, api_of
from penstock.protocol.schema import Message

HOUR_NS = 3_600_000_000_000


class Late(LateAnswer[Any]):
    """What a test answers, or sees called off."""

    def __init__(self) -> None:
        super().__init__()
        self.is_called_off = False
        self.cuts = 0

    def call_off(self) -> None:
        self.is_called_off = True

    def cut_short(self) -> None:
        self.cuts += 1


class LateHandler:
    """Lets every request wait for what the test tells."""

    def __init__(self, api_key: ApiKey = ApiKey.HEARTBEAT, *, raw: bool = True, pipelined: bool = True) -> None:
        self.waiting: list[Late] = []
        self.handler = Handler(api_key, 0, 17 if raw else 4, self._wait, NOTHING, raw=raw, pipelined=pipelined)

    def _wait(self, _broker: Any, _context: RequestContext, *_request: object) -> Late:
        self.waiting.append(Late())
        return self.waiting[-1]

    async def asked(self, node: Serving, count: int) -> None:
        while len(self.waiting) < count:
            assert await (await node.connect()).lives()


async def test_who_waits_is_counted_until_then_though_it_turns_out_later_whose_request_it_is() -> None:
    async def answer(_: object, context: RequestContext, *frame: object) -> list[bytes]:
        context.counts = context.counts.of_nodes
        return [struct.pack(">ii", 4, context.correlation_id)]

    async with serving(Handler(ApiKey.FETCH, 4, 17, answer, NOTHING, raw=True)) as node:
        client = await node.connect()
        client.send(FetchRequest(), 17)
        await client.reader.readexactly(8)
        of_clients = node.connections.counts.apis[ApiKey.FETCH]
        of_nodes = of_clients.of_nodes
        assert (of_clients.waiting, of_nodes.waiting) == (0, 0)
        assert (of_clients.count, of_nodes.count) == (0, 1)


async def test_a_late_answer_is_written_within_the_call_that_tells_it_or_with_those_told_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, writes = LateHandler(), list[int]()
    flush = Outgoing.flush

    def counted(out: Outgoing, transport: asyncio.Transport) -> None:
        writes.append(out.queued_bytes)
        flush(out, transport)

    async with serving(late.handler) as node:
        client = await node.connect()
        for number in range(4):
            client.send(HeartbeatRequest(group_id=str(number)), 4)
        await late.asked(node, 4)
        monkeypatch.setattr(Outgoing, "flush", counted)
        late.waiting[0].tell([struct.pack(">ii", 4, 0)])
        late.waiting[1].tell([struct.pack(">ii", 4, 1)])
        assert not writes, "others wait, and may be told as well"
        assert [await client.receive_frame() for _ in range(2)] == [struct.pack(">i", n) for n in range(2)]
        late.waiting[3].tell([struct.pack(">ii", 4, 3)])
        late.waiting[2].tell([struct.pack(">ii", 4, 2)])
        assert writes == [16, 16]
        assert [await client.receive_frame() for _ in range(2)] == [struct.pack(">i", n) for n in (2, 3)]
        client.send(HeartbeatRequest(group_id="again"), 4)
        await late.asked(node, 5)
        late.waiting[4].tell([struct.pack(">ii", 4, 4)])
        assert writes[-1] == 8
        assert await client.receive_frame() == struct.pack(">i", 4)


@pytest.mark.parametrize("groups", [1, 20_000])
async def test_a_late_answer_is_encoded_in_a_thread_where_it_is_long(groups: int) -> None:
    late = LateHandler(ApiKey.LIST_GROUPS, raw=False)
    async with serving(late.handler) as node:
        client = await node.connect()
        client.send(ListGroupsRequest(), 4)
        await late.asked(node, 1)
        answer = ListGroupsResponse(groups=[ListedGroup(group_id=f"g{number}") for number in range(groups)])
        late.waiting[0].tell(answer)
        assert (await client.receive(ApiKey.LIST_GROUPS, 4))[1] == answer


async def test_who_waits_with_a_long_request_is_no_task_either() -> None:
    late = LateHandler(raw=False)
    async with serving(late.handler) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="g" * 5_000), 4)
        await late.asked(node, 1)
        assert not [task for task in asyncio.all_tasks() if "Dispatcher" in repr(task)]
        late.waiting[0].tell(HeartbeatResponse())
        assert (await client.receive(ApiKey.HEARTBEAT, 4))[1] == HeartbeatResponse()


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_late_answer_that_is_none_closes_its_connection(
    caplog: pytest.LogCaptureFixture, *, is_gone: bool
) -> None:
    late = LateHandler(raw=False)
    async with serving(late.handler) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="g"), 4)
        await late.asked(node, 1)
        if is_gone:
            client.writer.close()
            while not late.waiting[0].is_called_off:
                assert await (await node.connect()).lives()
        late.waiting[0].tell("no response")
        assert await client.closed()
    assert [record.levelname for record in caplog.records] == ([] if is_gone else ["ERROR"])


async def test_a_fetch_is_cut_short_once_by_another_request_behind_it_and_not_by_another_fetch() -> None:
    late, others = LateHandler(ApiKey.FETCH, pipelined=False), LateHandler()
    async with serving(late.handler, others.handler) as node:
        client = await node.connect()
        for request in (FetchRequest(), FetchRequest(), HeartbeatRequest(group_id="g"), HeartbeatRequest()):
            client.send(request, 4)
        await late.asked(node, 1)
        late.waiting[0].tell([struct.pack(">ii", 4, 0)])
        await late.asked(node, 2)
        while not late.waiting[1].cuts:
            assert await (await node.connect()).lives()
        client.send(HeartbeatRequest(), 4)
        assert await (await node.connect()).lives()
        late.waiting[1].tell([struct.pack(">ii", 4, 1)])
        await others.asked(node, 3)
    assert [waiting.cuts for waiting in late.waiting + others.waiting] == [0, 1, 0, 0, 0]


async def test_a_late_answer_is_called_off_when_the_peer_has_gone_and_one_that_fails_closes_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = LateHandler()
    async with serving(late.handler) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="g"), 4)
        await late.asked(node, 1)
        client.writer.close()
        while not late.waiting[0].is_called_off:
            assert await (await node.connect()).lives()
        late.waiting[0].tell([b"nobody gets this"])
        other = await node.connect()
        other.send(HeartbeatRequest(group_id="g"), 4)
        await late.asked(node, 2)
        late.waiting[1].fail(ZeroDivisionError())
        assert await other.closed()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("ends_with_client", [True, False])
async def test_who_waits_for_others_is_forgotten_with_its_client_and_what_is_being_done_goes_on(
    ends_with_client: bool,
) -> None:
    waiting: list[asyncio.Future[HeartbeatResponse]] = []

    def wait(_broker: Any, _context: RequestContext, _request: Message) -> asyncio.Future[HeartbeatResponse]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    handler = Handler(ApiKey.HEARTBEAT, 0, 4, wait, NOTHING, ends_with_client=ends_with_client)
    async with serving(handler) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="g"), 4)
        while not waiting:
            assert await (await node.connect()).lives()
        (served,) = [one for one in node.connections.active if one.is_waiting]
        client.writer.close()
        while served in node.connections.active:
            assert await (await node.connect()).lives()
        assert await (await node.connect()).lives()
        assert waiting[0].cancelled() is ends_with_client


WITH_CLIENTS = {ApiKey.SYNC_GROUP, ApiKey.JOIN_GROUP, ApiKey.DELETE_RECORDS, ApiKey.SHARE_FETCH}
"""They wait for members, followers or records, for weeks if their clients say so."""
NOT_AS_LONG = {
    ApiKey.LIST_OFFSETS: "it waits for nobody",
    ApiKey.INIT_PRODUCER_ID: "it tells of transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "it tells of rebalances",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "it tells of rebalances",
}
"""Requests that name a time, and are not held for that."""


def test_who_waits_as_long_as_its_client_says_ends_with_it_or_with_the_patience_of_the_node() -> None:
    """What the controller is asked ends in time (`clients_deadline`), and what peers ask (`MAX_WAIT_MS`)."""
    handlers = load_handlers()
    assert {key for key, handler in handlers.items() if handler.ends_with_client} == WITH_CLIENTS
    left = {
        key
        for key, handler in handlers.items()
        if any("timeout" in name or "wait" in name for name in api_of(key).request_class.__annotations__)
        and not (handler.raw or handler.ends_with_client or handler.asks_controller)
    }
    assert left == set(NOT_AS_LONG)


def test_what_waits_as_long_as_its_client_says_or_creates_topics_is_known() -> None:
    """A raw fetch makes way by itself, and Metadata waits before its answer is made."""
    polling = {key for key, handler in load_handlers().items() if handler.polls}
    waiting = {ApiKey.SHARE_FETCH, ApiKey.DELETE_RECORDS, ApiKey.STREAMS_GROUP_HEARTBEAT}
    assert polling == waiting | {OwnApiKey.FORWARD_TO_COORDINATOR}


async def test_a_late_answer_can_be_awaited_before_it_is_told_and_afterwards() -> None:
    early, late, failed = Late(), Late(), Late()
    waiting = asyncio.ensure_future(early)
    await asyncio.sleep(0)
    for each in (early, late):
        each.tell([b"answer"])
    failed.fail(ZeroDivisionError())
    assert await waiting == await late == [b"answer"]
    with pytest.raises(ZeroDivisionError):
        await failed


async def test_a_frame_that_stood_behind_another_request_took_no_time_before_its_turn() -> None:
    late = LateHandler()
    groups = Handler(ApiKey.LIST_GROUPS, 0, 5, lambda *_: ListGroupsResponse(), NOTHING)
    async with serving(late.handler, groups) as node:
        client, now_ns = await node.connect(), [0]
        node.connections.dispatcher.clock_ns = lambda: now_ns[0]
        client.send(HeartbeatRequest(), 4)
        await late.asked(node, 1)
        client.send(ListGroupsRequest(states_filter=["n" * 1_000] * (SHARED_BYTES // 1_000)), 5)
        (held,) = [one for one in node.connections.active if isinstance(one, Connection) and one._waiting]
        while held._frame is None or held._filled < held._frame_size:
            assert await (await node.connect()).lives()
        now_ns[0] = HOUR_NS
        late.waiting[0].tell([struct.pack(">ii", 4, 1)])
        await client.receive_frame()
        await client.receive(ApiKey.LIST_GROUPS, 5)
        assert node.connections.dispatcher.counts.api(ApiKey.LIST_GROUPS, 0).total_ns == 0
