"""Objects of large requests have room of `queued.max.request.bytes`, as long as that keeps nobody out."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from tests.unit.node.served_node import serving
from tests.unit.node.serving.test_request_memory import HEARTBEAT, LARGE, LIMIT

from penstock.node.serving import room
from penstock.node.serving.access import ALLOW_ALL, CLUSTER_ACTION, Authorizer, Right
from penstock.node.serving.frames import READ_BYTES
from penstock.node.serving.handler import CONTROLLER_HANDLERS, Handler, RequestContext, load_handlers
from penstock.node.serving.room import RequestMemory
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import ANSWER_BYTES, SLICED_BYTES, BeforeAnswer, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.requests.api import ApiKey, OwnApiKey
from penstock.protocol.requests.framing import encode_request


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STILL_S", 1000.0)


@pytest.mark.parametrize("more", [{}, {"polls": True}, {"ends_with_client": True}], ids=str)
async def test_objects_of_a_large_request_have_room_until_it_is_answered(patience: None, more: dict[str, bool]) -> None:
    """But what waits for other clients keeps none of them out."""
    goes_on, begun = asyncio.Event(), list[int]()

    async def answers_later(*_: Any) -> HeartbeatResponse:
        begun.append(1)
        await goes_on.wait()
        return HeartbeatResponse()

    later = Handler(ApiKey.HEARTBEAT, 4, 4, answers_later, NOTHING, **more)  # type: ignore[arg-type]
    async with serving(later, settings=LIMIT) as node:
        clients = [await node.connect() for _ in range(3)]
        for client in clients:
            client.writer.write(LARGE)
        most = 3 if {"polls", "ends_with_client"} & set(more) else 1
        while len(begun) < most:
            assert await (await node.connect()).lives()
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert len(begun) == most
        goes_on.set()
        for client in clients:
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7


@pytest.mark.parametrize("more", [{}, {"polls": True}, {"ends_with_client": True}, {"asks_controller": True}], ids=str)
async def test_an_answer_that_may_be_long_has_room_but_while_others_are_waited_for(
    patience: None, more: dict[str, bool]
) -> None:
    """To requests of which some hundred bytes are enough."""
    goes_on, begun = asyncio.Event(), list[int]()

    async def answers_later(*_: Any) -> HeartbeatResponse:
        begun.append(1)
        await goes_on.wait()
        return HeartbeatResponse()

    later = Handler(ApiKey.HEARTBEAT, 4, 4, answers_later, NOTHING, **more)  # type: ignore[arg-type]
    asked = encode_request(HeartbeatRequest(group_id="g" * 600), 4, 7, "c")
    async with serving(later, settings={"queued.max.request.bytes": str(ANSWER_BYTES)}) as node:
        clients = [await node.connect() for _ in range(3)]
        for client in clients:
            client.writer.write(asked)
        for _ in range(50):
            assert await (await node.connect()).lives()
        assert len(begun) == (3 if more else 1)
        goes_on.set()
        for client in clients:
            assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7


class Away:
    """A controller that is away until it `comes`."""

    def __init__(self) -> None:
        self.comes = asyncio.Event()
        self.asked = 0
        self.handler = Handler(ApiKey.HEARTBEAT, 4, 4, self.ask, NOTHING, asks_controller=True)

    async def ask(self, *_: Any) -> HeartbeatResponse:
        self.asked += 1
        await self.comes.wait()
        return HeartbeatResponse()


LEAVE = Handler(ApiKey.LEAVE_GROUP, 0, 0, lambda *_: LeaveGroupResponse(), NOTHING)


async def test_what_waits_for_the_controller_keeps_no_others_out(patience: None) -> None:
    """The first one has room beside the others, and each further one makes way for the next that needs it."""
    away = Away()
    async with serving(away.handler, LEAVE, settings=LIMIT) as node:
        clients = [await node.connect() for _ in range(5)]
        answers = []
        for number, client in enumerate(clients[:4]):
            client.writer.write(LARGE)
            answers.append(asyncio.ensure_future(client.receive(ApiKey.HEARTBEAT, 4)))
            while not away.asked or sum(answer.done() for answer in answers) < number - 1:
                assert await (await node.connect()).lives()
        clients[4].send(LeaveGroupRequest(group_id="g" * 30_000, member_id="m" * 30_000), 0)
        async with asyncio.timeout(10):
            await clients[4].receive(ApiKey.LEAVE_GROUP, 0)
            refused = [message for _, message in await asyncio.gather(*answers[1:])]
        assert refused == [HeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)] * 3
        assert (away.asked, answers[0].done()) == (1, False)
        away.comes.set()
        assert await answers[0] == (7, HeartbeatResponse())


async def test_one_waits_for_the_controller_behind_the_other_where_nobody_else_needs_the_room(patience: None) -> None:
    away = Away()
    async with serving(away.handler, settings=LIMIT) as node:
        clients = [await node.connect() for _ in range(2)]
        for client in clients:
            client.writer.write(LARGE)
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert away.asked == 1
        away.comes.set()
        async with asyncio.timeout(10):
            for client in clients:
                assert await client.receive(ApiKey.HEARTBEAT, 4) == (7, HeartbeatResponse())


def test_what_asks_the_controller_is_known() -> None:
    handlers = load_handlers().values()
    asking = {handler.api_key for handler in handlers if handler.asks_controller}
    assert asking == {handler.api_key for handler in handlers if handler.hands_on} | {ApiKey.INCREMENTAL_ALTER_CONFIGS}


@pytest.mark.parametrize(
    ("client_id", "carries", "waits"),
    [("penstock-2", False, False), ("penstock-2", True, True), ("penstock", False, True), ("n" * 200, False, True)],
)
async def test_what_nodes_ask_for_themselves_waits_for_no_room(
    patience: None, client_id: str, *, carries: bool, waits: bool
) -> None:
    """Neither its frame nor its objects: clients that have all of it may wait for that node."""
    asked = HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000, group_instance_id="i" * 30_000)
    large = encode_request(asked, 4, 7, client_id)
    async with serving(HEARTBEAT.replace(carries=carries), settings=LIMIT) as node:
        memory, client = node.connections.memory, await node.connect()
        memory.charge("clients", READ_BYTES)
        client.writer.write(large[:100])
        assert await (await node.connect()).lives()
        client.writer.write(large[100:])
        answer = asyncio.ensure_future(client.receive(ApiKey.HEARTBEAT, 4))
        while not (answer.done() or memory.is_short):
            assert await (await node.connect()).lives()
        assert memory.is_short == waits
        memory.give("clients")
        assert (await answer)[0] == 7


async def test_a_long_answer_to_a_node_waits_for_no_room(patience: None) -> None:
    def answers(*_: Any) -> Steps[ListGroupsResponse]:
        yield from [None] * 10
        return ListGroupsResponse()

    async with serving(Handler(ApiKey.LIST_GROUPS, 0, 0, answers, NOTHING), settings=LIMIT) as node:
        client = await node.connect()
        node.connections.memory.charge("clients", READ_BYTES)
        client.writer.write(encode_request(ListGroupsRequest(), 0, 7, "penstock-2"))
        async with asyncio.timeout(10):
            assert (await client.receive(ApiKey.LIST_GROUPS, 0))[0] == 7


async def test_what_says_that_it_is_from_a_node_has_twice_the_room_at_most() -> None:
    """Where all is allowed, anybody may say so."""
    memory, came = RequestMemory(10), asyncio.Event()

    def never() -> bool:
        return False

    assert memory.take("clients", 10, came.set)
    assert memory.take("a node", 9, came.set, waits=never)
    assert memory.take("another", 90, came.set, waits=never), "less than twice as much was held"
    assert not memory.take("a third", 1, came.set, waits=never)
    memory.give("another")
    assert memory.is_short, "it waits as all do, until there is room"
    assert memory.take("a fourth", 1, came.set, waits=never)
    for key in ("clients", "a node", "a fourth"):
        memory.give(key)
    await asyncio.wait_for(came.wait(), 10)
    assert RequestMemory().take("a fifth", 1, came.set, waits=never), "there is no limit"


def test_requests_in_which_nodes_carry_what_clients_ask_have_room_as_those_have() -> None:
    handlers = [*load_handlers().values(), *load_handlers(CONTROLLER_HANDLERS).values()]
    carrying = {handler.api_key for handler in handlers if handler.carries}
    assert carrying == {ApiKey.ENVELOPE, OwnApiKey.FORWARD_TO_COORDINATOR}


def test_a_node_has_a_name_and_a_right() -> None:
    class OfOne(Authorizer):
        def has(self, session: Session, right: Right, name: str) -> bool:
            return session.principal.name == "node" and right == CLUSTER_ACTION

    def comes_from_a_node(client_id: str | None, user: str, authorizer: Authorizer = ALLOW_ALL) -> bool:
        session = Session("", 0, "", 0, Principal("User", user))
        return RequestContext(ApiKey.FETCH, 18, 0, client_id, session, authorizer).comes_from_a_node

    assert comes_from_a_node("penstock-2", "node", OfOne())
    assert not comes_from_a_node("penstock-2", "mallory", OfOne())
    assert comes_from_a_node("penstock-2", "ANONYMOUS")
    assert not any(comes_from_a_node(name, "node", OfOne()) for name in (None, "", "penstock", "penstock-x", "test"))


async def test_a_large_request_waits_for_no_work_of_others() -> None:
    ends = threading.Event()

    def works(*_: Any) -> Steps[ListGroupsResponse]:
        yield ends.wait
        return ListGroupsResponse()

    listing = Handler(ApiKey.LIST_GROUPS, 0, 0, works, NOTHING)
    async with serving(HEARTBEAT, listing) as node:
        worker, client = [await node.connect() for _ in range(2)]
        worker.send(ListGroupsRequest(), 0)
        assert await (await node.connect()).lives()
        client.writer.write(LARGE)
        try:
            async with asyncio.timeout(10):
                assert (await client.receive(ApiKey.HEARTBEAT, 4))[0] == 7
        finally:
            ends.set()


async def test_what_only_waits_makes_way_for_others_that_need_its_room() -> None:
    """As many as hold what others lack, the latest first."""
    memory, told = RequestMemory(30), list[str]()
    async with memory.lent(10), memory.lent(10), memory.lent(6):
        with memory.idle(10, partial(told.append, "first")), memory.idle(6, partial(told.append, "second")):
            assert memory.take("fits", 4, lambda: None)
            assert told == []
            assert not memory.take("late", 6, lambda: None)
            assert told == ["second"]
            assert not memory.take("later", 1, lambda: None)
            assert told == ["second", "second", "first"], "7 are lacking"
            with memory.idle(10, partial(told.append, "third")):
                assert told[3:] == ["third"]
            memory._look()
            assert told[4:] == ["second", "first"]
        assert not memory.take("latest", 4, lambda: None)
    assert len(told) == 6
    assert memory._timer is not None
    memory._timer.cancel()


async def test_an_answer_has_no_room_while_others_are_awaited(patience: None) -> None:
    """As that of somebody whose topics are created meanwhile."""
    goes_on, begun = asyncio.Event(), list[int]()

    def steps(*asked: Any) -> Steps[ListGroupsResponse]:
        yield from [None] * 10
        begun.append(1)
        yield BeforeAnswer(goes_on.wait())
        yield lambda: held.append(node.connections.memory._bytes)
        return ListGroupsResponse()

    held = list[int]()
    handler = Handler(ApiKey.LIST_GROUPS, 0, 0, steps, NOTHING)
    async with serving(handler, settings={"queued.max.request.bytes": str(SLICED_BYTES * 4 // 3)}) as node:
        clients = [await node.connect() for _ in range(3)]
        for client in clients:
            client.send(ListGroupsRequest(), 0)
        while len(begun) < 3:
            assert await (await node.connect()).lives()
        assert node.connections.memory._bytes == 0
        goes_on.set()
        for client in clients:
            await client.receive(ApiKey.LIST_GROUPS, 0)
        assert held == [SLICED_BYTES] * 3, "one after the other"
        assert node.connections.memory._bytes == 0


async def test_a_client_that_goes_while_others_are_awaited_leaves_nothing_behind(patience: None) -> None:
    goes_on, begun = asyncio.Event(), list[int]()

    def steps(*asked: Any) -> Steps[ListGroupsResponse]:
        yield from [None] * 10
        begun.append(1)
        yield BeforeAnswer(goes_on.wait())
        return ListGroupsResponse()

    handler = Handler(ApiKey.LIST_GROUPS, 0, 0, steps, NOTHING, ends_with_client=True)
    async with serving(handler, LEAVE, settings={"queued.max.request.bytes": str(ANSWER_BYTES * 4 // 3)}) as node:
        for count in range(6):
            client = await node.connect()
            client.send(ListGroupsRequest(), 0)
            while len(begun) <= count:
                assert await (await node.connect()).lives()
            client.writer.close()
        for _ in range(20):
            assert await (await node.connect()).lives()
        assert node.connections.memory._bytes == 0
        goes_on.set()
        other = await node.connect()
        other.send(ListGroupsRequest(), 0)
        async with asyncio.timeout(10):
            await other.receive(ApiKey.LIST_GROUPS, 0)
