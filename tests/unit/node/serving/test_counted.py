"""What is counted of requests: how long they took, also those that wait, their sizes, and the errors of answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.served_node import serving

from penstock.node.metrics.counts import NodeCounts
from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.session import Session
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey

STEP_NS = 1_000


class Ticking:
    """Each look at the clock is a step later than the last one."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += STEP_NS
        return self.now_ns


async def test_a_request_that_waits_is_counted_from_when_it_came() -> None:
    clock, arrived = Ticking(), asyncio.Event()
    answer: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()

    def heartbeat(node: Any, context: RequestContext, request: HeartbeatRequest) -> asyncio.Future[HeartbeatResponse]:
        arrived.set()
        return answer

    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, heartbeat, NOTHING)) as node:
        node.connections.dispatcher.clock_ns = clock
        client = await node.connect()
        client.send(HeartbeatRequest(group_id="g"), 4)
        await arrived.wait()
        counts = node.connections.dispatcher.counts.apis[ApiKey.HEARTBEAT]
        assert (counts.waiting, counts.count) == (1, 0)
        clock.now_ns = 1_000_000
        answer.set_result(HeartbeatResponse())
        await client.receive(ApiKey.HEARTBEAT, 4)
        assert (counts.waiting, counts.count, counts.by_version()) == (0, 1, {4: 1})
        assert counts.total_ns == 999 * STEP_NS, "since it was read"


async def test_requests_are_counted_by_their_sizes_and_versions() -> None:
    clock = Ticking()
    async with serving() as node:
        node.connections.dispatcher.clock_ns = clock
        client = await node.connect()
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        for version in (0, 3, 3):
            client.send(request, version)
            await client.receive(ApiKey.API_VERSIONS, version)
        counts = node.connections.dispatcher.counts.apis[ApiKey.API_VERSIONS]
        assert counts.by_version() == {0: 1, 3: 2}
        assert (sum(counts.sizes), counts.total_ns) == (3, 3 * STEP_NS)
        sizes = [bits for bits, count in enumerate(counts.sizes) if count]
        assert (sizes, counts.total_bytes) == ([4, 5], 54)


CALLED: Any = lambda *_: None  # noqa: E731


@pytest.mark.parametrize(
    ("reply", "raw", "errors", "parts"),
    [
        (None, False, {}, 0),
        (HeartbeatResponse(), False, {}, 1),
        (HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), False, {ErrorCode.ILLEGAL_GENERATION: 1}, 1),
        (b"made already", False, {}, 1),
        ([b"a", b"b"], True, {}, 2),
    ],
)
def test_errors_of_answers_are_counted(reply: Any, raw: bool, errors: dict[int, int], parts: int) -> None:
    counts = NodeCounts().api(ApiKey.HEARTBEAT, 5)
    handler = Handler(ApiKey.HEARTBEAT, 0, 4, CALLED, NOTHING, raw=raw)
    node = SimpleNamespace(authorizer=None, handlers={})
    session = Session("h", 1, "L", 1)
    context = RequestContext(ApiKey.HEARTBEAT, 4, 9, "c", session, cast("Any", None), None, counts)
    assert len(Dispatcher(cast("Any", node)).encode(handler, context, reply)) == parts
    assert counts.errors == errors


@pytest.mark.parametrize(
    ("key", "is_pipelined"), [(ApiKey.HEARTBEAT, True), (ApiKey.JOIN_GROUP, False), (ApiKey.PRODUCE, True)]
)
def test_what_may_be_taken_while_others_wait(key: ApiKey, is_pipelined: bool) -> None:
    handlers = {
        ApiKey.HEARTBEAT: Handler(ApiKey.HEARTBEAT, 0, 4, CALLED, NOTHING, pipelined=True),
        ApiKey.JOIN_GROUP: Handler(ApiKey.JOIN_GROUP, 0, 4, CALLED, NOTHING),
    }
    node = SimpleNamespace(authorizer=None, handlers=handlers)
    frame = memoryview(int(key).to_bytes(2, "big") + bytes(8))
    assert Dispatcher(cast("Any", node)).is_pipelined(frame) is is_pipelined
