"""From a frame to its answer: header, request message, the rights of who asks, handler, response bytes.

What cannot be answered raises: DecodeError for garbage, CloseConnection for what Kafka answers by closing (an API or a
version that is not served, but for ApiVersions, which is answered in the layout of version 0).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from inspect import isgeneratorfunction, unwrap
from time import perf_counter_ns
from typing import Any, Final, Protocol, cast

from penstock.node.metrics.counts import NodeCounts
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.frames import kept
from penstock.node.serving.handler import Charge, CloseConnection, Handler, RequestContext
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.parts import LARGE_BYTES as PARTED_BYTES
from penstock.node.serving.parts import asked, let_go, long_arrays
from penstock.node.serving.refusals import LONGEST_CLIENT_ID
from penstock.node.serving.room import RequestMemory, Room
from penstock.node.serving.rules import judged
from penstock.node.serving.session import Session
from penstock.node.serving.slices import (
    ANSWER_BYTES,
    ROOM,
    SLICED_BYTES,
    Slices,
    comes_later,
    now_or_later,
    started,
    to_its_end,
)
from penstock.node.serving.versions import unsupported_version
from penstock.protocol.codec import LARGE_BYTES, decode
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError, TooManyTaggedFieldsError
from penstock.protocol.requests.api import Api, ApiKey, api_of
from penstock.protocol.requests.framing import (
    encode_response,
    encode_response_in_parts,
    frame_response,
    read_request_header,
)
from penstock.protocol.requests.refusals import refusing
from penstock.protocol.schema import Message

request_log: Final = logging.getLogger("kafka.request.logger")
"""Has Kafka's name. At DEBUG it names each request that is answered, with sizes and time, and nothing of what is in it.
"""
REPEATED_BYTES = 512
"""Longer bodies are decoded each time."""
REQUESTS_KEPT = 4096
OBJECTS_PER_BYTE = 10
"""How much more the objects of a request take than its bytes, and its answer with them."""
CROWDED: Final = KafkaError(ErrorCode.NOT_CONTROLLER, "very many large requests wait for the controller already")
"""Nothing was decided: clients try again."""

OnAnswer = Callable[[list[ResponsePart]], None]


Items = list[list[Any]]


def _decoded(cls: type[Message], version: int, frame: bytes | memoryview, position: int, items: Items) -> Message:
    message, _ = decode(cls, version, frame, position)
    items.extend(long_arrays(message))
    return message


@lru_cache(REQUESTS_KEPT)
def _decode_once(cls: type[Message], version: int, body: bytes) -> Message:
    return decode(cls, version, body)[0]


def log_request(frame: memoryview, session: Session, clock_s: Callable[[], float]) -> OnAnswer:
    """To be called with the answer, which completes the line."""
    api_key, version, correlation_id, client_id, _ = read_request_header(frame)
    size, begin_s = len(frame), clock_s()

    def answered(parts: list[ResponsePart]) -> None:
        request_log.debug(
            "%s %d, correlation id %d, client %r at %s: %d bytes, answered with %d after %.1f ms",
            *(api_of(api_key).name, version, correlation_id, client_id, session),
            *(size, sum(map(len, parts)), (clock_s() - begin_s) * 1000),
        )

    return answered


@dataclass(slots=True)
class Waiting:
    """A request whose handler has to wait: `answer` gives what the handler would have returned."""

    handler: Handler
    context: RequestContext
    answer: Awaitable[Any]

    def started(self, answer: Awaitable[Any]) -> asyncio.Future[Any]:
        """The answer, or what it is wrapped in, as a task for the client's host."""
        return started(self.context.asker, answer)


class _Served:
    """A handler with what is known of its API; the request's class is loaded when the first request comes.

    `answer` is its function, behind the judgement of its rule, if that is passed here and not always the same.
    """

    def __init__(self, handler: Handler, api: Api, authorizer: Authorizer, counts: NodeCounts) -> None:
        self.handler = handler
        self.counts = counts.api(handler.api_key, api.versions[-1] + 1, splits=handler.api_key == ApiKey.FETCH)
        self.api = api
        self.apart = handler.replace(raw=True)
        """As it answers where that takes long: in bytes that a thread has made."""
        self.in_order = handler.replace(pipelined=False)
        self.holds_room = not (handler.ends_with_client or handler.polls)
        self.is_sliced = isgeneratorfunction(unwrap(handler.function))
        is_judged_here = not (authorizer is ALLOW_ALL or handler.raw or handler.hands_on)
        small: Callable[..., Any] = partial(asked, handler, is_large=False) if self.is_sliced else handler.function
        large: Callable[..., Any] = partial(asked, handler) if handler.parts else small
        self.answer = partial(self._judged, small) if is_judged_here else small
        self.answer_large = partial(self._judged, large) if is_judged_here else large

    def waits_for_room(self, context: RequestContext) -> bool:
        """Not what nodes ask for themselves: who has room may wait for that, as a producer does for followers."""
        return self.handler.carries or not context.comes_from_a_node

    def _judged(self, function: Callable[..., Any], node: Node, context: RequestContext, request: Message) -> Any:
        return judged(self.handler.rule, partial(function, node, context), node, context, request)

    @cached_property
    def request_class(self) -> type[Message]:
        return self.api.request_class


class Node(Protocol):
    """The first argument of handlers: the `Broker` or the `ControllerNode`."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """What its listeners serve, by API key."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def slices(self) -> Slices: ...

    @property
    def gone(self) -> dict[int, Callable[[], None]]:
        """What is to be done when the connection of that number has gone."""


REFUSED: Final = RequestContext(-1, 0, 0, None, Session("", 0, "", 0))
"""Stands for requests that belong to no handler; nobody is told what is counted of them."""


def _heard(whole: asyncio.Future[Any]) -> None:
    """An error is the client's to hear of, who may have gone."""
    if not whole.cancelled():
        whole.exception()


def _version_not_served(api: Api, version: int, client_id: str | None, session: Session) -> CloseConnection:
    client_id = None if client_id is None else client_id[:LONGEST_CLIENT_ID]
    return CloseConnection(
        f"version {version} of {api.name} is not served (client {client_id})",
        cause=(api.key, version, client_id, session.client_host),
    )


def _settle(turn: asyncio.Future[bool], has_room: bool) -> None:
    if not turn.done():
        turn.set_result(has_room)


class Dispatcher:
    """Calls the handlers of one node in one of its roles."""

    def __init__(
        self, node: Node, counts: NodeCounts | None = None, clock_ns: Callable[[], int] = perf_counter_ns
    ) -> None:
        self._node = node
        self._authorizer = node.authorizer
        self.counts = counts or NodeCounts()
        self.clock_ns = clock_ns
        self.counting = REFUSED
        """The request that was dispatched last."""
        self._served = {
            key: _Served(handler, api_of(key), self._authorizer, self.counts) for key, handler in node.handlers.items()
        }

    @property
    def gone(self) -> dict[int, Callable[[], None]]:
        return self._node.gone

    @property
    def memory(self) -> RequestMemory:
        return self._node.slices.memory

    def is_pipelined(self, frame: memoryview) -> bool:
        """Whether a request may be taken while others of its connection wait; so may one that is refused anyhow."""
        served = self._served.get(int.from_bytes(frame[:2], "big"))
        return served is None or served.handler.pipelined

    def refusal_of(self, beginning: memoryview, session: Session | None) -> CloseConnection | DecodeError | None:
        """Why `dispatch` will refuse a large frame that begins so, however it ends: the rest need not come. A cut
        header does not say, nor what may be a token, which has none, nor an API that a program may have added.
        """
        if session is None or session.has_to_log_in:
            return None
        try:
            api_key, version, _, client_id, _ = read_request_header(beginning)
        except TooManyTaggedFieldsError as error:
            return error
        except DecodeError:
            return None
        served = self._served.get(api_key)
        if served is None or api_key == ApiKey.API_VERSIONS:
            return None
        if not served.handler.lowest <= version <= served.handler.newest:
            return _version_not_served(served.api, version, client_id, session)
        return None

    def waits_for_room(self, beginning: memoryview, session: Session | None) -> bool:
        """Whether a large frame that begins so waits for others that have room; a cut header does not say who asks."""
        if session is None or session.has_to_log_in:
            return True
        try:
            api_key, version, correlation_id, client_id, _ = read_request_header(beginning)
        except DecodeError:
            return True
        served = self._served.get(api_key)
        context = RequestContext(api_key, version, correlation_id, client_id, session, self._authorizer)
        return served is None or served.waits_for_room(context)

    def dispatch(
        self, frame: memoryview, session: Session, charge: Charge | None = None
    ) -> list[ResponsePart] | Waiting:
        """Answer one frame: the parts of the response (none: there is no response), or the request that waits.

        The frame's memory is used again after the call: a handler keeps no slice of it.
        """
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        served = self._served.get(api_key)
        if served is None:
            raise CloseConnection(f"API key {api_key} is not served")
        self.counting = context = RequestContext(
            api_key, version, correlation_id, client_id, session, self._authorizer, charge, served.counts
        )
        handler, is_large = served.handler, False
        if not handler.lowest <= version <= handler.newest:
            return self._wrong_version(context, served.api)
        if handler.raw:
            reply = handler.function(self._node, context, frame, position)
            if type(reply) is list:
                return reply
            if handler.pipelined and asyncio.iscoroutine(reply):
                # What is done in slices keeps its order: what comes behind it waits. It ends, client or not, and has
                # the frame's memory, or a copy of it, until then.
                whole = started(context.asker, reply)
                self.memory.charge(whole, len(frame))
                whole.add_done_callback(self.memory.give)
                whole.add_done_callback(_heard)
                return Waiting(served.in_order, context, asyncio.shield(whole))
        else:
            size = len(frame) - position
            if handler.repeats and size <= REPEATED_BYTES:
                request = _decode_once(served.request_class, version, bytes(frame[position:]))
            elif size <= LARGE_BYTES:
                request, _ = decode(served.request_class, version, frame, position)
            else:
                answer = self._apart(self._answer_apart, served, context, kept(frame), position)
                return Waiting(served.apart, context, answer)
            is_large = size > PARTED_BYTES
            reply = (served.answer_large if is_large else served.answer)(self._node, context, request)
            if type(reply) is bytes:
                return [frame_response(reply, api_key, version, correlation_id)]
        if comes_later(reply):
            return self._waiting(served, context, reply, may_be_long=is_large and not handler.raw)
        return self.encode(handler, context, reply)

    def _waiting(
        self, served: _Served, context: RequestContext, reply: Awaitable[Any], *, may_be_long: bool
    ) -> Waiting:
        if (may_be_long or served.is_sliced) and not isinstance(reply, LateAnswer):  # of its length it is asked later
            return Waiting(served.apart, context, self._answer_long(served, context, reply))
        return Waiting(served.handler, context, reply)

    async def _apart(self, answer: Callable[..., Awaitable[list[ResponsePart]]], *of: Any) -> list[ResponsePart]:
        """What `answer` puts into its last argument, long arrays of what it made, is freed by a thread."""
        items = list[list[Any]]()
        answered = answer(*of, items)
        del of
        try:
            return await answered
        except GeneratorExit:  # it was never ended, and the event loop may be gone
            items.clear()
            raise
        finally:
            if items:
                asyncio.get_running_loop().run_in_executor(None, let_go, items)

    async def _answer_apart(
        self, served: _Served, context: RequestContext, frame: bytes | memoryview, position: int, items: Items
    ) -> list[ResponsePart]:
        """Answer a large request: a thread makes objects of its bytes, and bytes of the answer.

        The objects have room until it is answered; but what waits for other clients must not keep them out, and what
        waits for the controller has other room for that.
        """
        slices, cls, waits = self._node.slices, served.request_class, served.waits_for_room(context)
        size, turn = OBJECTS_PER_BYTE * len(frame), asyncio.get_running_loop().create_future()
        decoded = partial(_decoded, cls, context.api_version, frame, position, items)
        try:
            async with slices.of_frame(len(frame), size, decoded, waits=waits) as request:
                del decoded, frame
                if served.handler.asks_controller:
                    if not await self._has_turn(turn, size):
                        refusal = slices.answer(refusing(request, CROWDED))
                        return await self.encode_apart(served.handler, context, refusal)
                elif served.holds_room:
                    return await self._answered_apart(served, context, request)
            return await self._answered_apart(served, context, request)
        finally:
            slices.commands.give(turn)

    async def _has_turn(self, turn: asyncio.Future[bool], size: int) -> bool:
        """Whether a request has room to wait for the controller, where that may be away, once others have given theirs
        back. Until then it waits in the room of all requests, and gives up when somebody needs that.
        """
        slices = self._node.slices
        if slices.commands.take(turn, size, partial(_settle, turn, True)):
            return True
        with slices.memory.idle(size, partial(_settle, turn, False)):
            return await turn

    async def _answered_apart(self, served: _Served, context: RequestContext, request: Message) -> list[ResponsePart]:
        return await self.encode_apart(served.handler, context, served.answer_large(self._node, context, request))

    async def _answer_long(self, served: _Served, context: RequestContext, reply: Awaitable[Any]) -> list[ResponsePart]:
        """It has room while it is made; not while its handler waits for other clients, or for a controller.

        What is made in slices has it when these begin.
        """
        handler = served.handler
        answer: Any = reply if served.holds_room and not handler.asks_controller else await reply
        del reply
        size = SLICED_BYTES if served.is_sliced else ANSWER_BYTES
        room = Room(self._node.slices.memory, size, waits=served.waits_for_room(context))
        token = ROOM.set((room, asyncio.current_task()))
        try:
            if not (comes_later(answer) and (served.is_sliced or handler.parts)):
                await room.take()
            return await self.encode_apart(handler, context, answer)
        finally:
            ROOM.reset(token)
            room.give()

    async def encode_apart(self, handler: Handler, context: RequestContext, reply: Any) -> list[ResponsePart]:
        """A thread makes bytes of an answer that is long, or may be."""
        answer = self._apart(self._encode_apart, handler, context, reply)
        del reply
        return await answer

    async def _encode_apart(self, handler: Handler, context: RequestContext, reply: Any, items: Items) -> Any:
        replies = [await now_or_later(reply)]
        del reply
        encoded = partial(self._encoded, handler, context, replies, items)
        return await to_its_end(asyncio.get_running_loop().run_in_executor(None, encoded))

    def _encoded(self, handler: Handler, context: RequestContext, replies: list[Any], items: Items) -> Any:
        reply = replies.pop()
        items.extend(long_arrays(reply))
        return self.encode(handler, context, reply)

    def encode(self, handler: Handler, context: RequestContext, reply: Any) -> list[ResponsePart]:
        if reply is None:
            return []
        if handler.raw:
            return cast("list[ResponsePart]", reply)
        if type(reply) is bytes:
            return [frame_response(reply, context.api_key, context.api_version, context.correlation_id)]
        code = getattr(reply, "error_code", 0)
        if code:
            context.counts.failed(code)
        if handler.has_files:
            parts = encode_response_in_parts(reply, context.api_key, context.api_version, context.correlation_id)
            return cast("list[ResponsePart]", parts)
        return [encode_response(reply, context.api_key, context.api_version, context.correlation_id)]

    def _wrong_version(self, context: RequestContext, api: Api) -> list[ResponsePart]:
        self.counting = REFUSED
        if context.api_key != ApiKey.API_VERSIONS:
            raise _version_not_served(api, context.api_version, context.client_id, context.session)
        return [encode_response(unsupported_version(self._node.handlers), context.api_key, 0, context.correlation_id)]
