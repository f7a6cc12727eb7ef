"""Fetch 4-18: read record batches as they lie on disk; with sessions (KIP-227) and, from version 13, topics by id.

A request that finds less than `min_bytes` waits up to `max_wait_ms`; it is woken by the partitions it asked for and by
one timer, and costs nothing in between. An error or a divergence is told at once.

A request about very many partitions is read in slices, between which the node serves others. Of each partition it is
known when it gets more from the turn on in which it was looked at, so that nothing is missed between two slices.

A consumer that names its rack is sent to a replica there (KIP-392), if `replica.selector.class` is the rack-aware one;
followers answer whoever asks them in version 11 or newer, up to the high watermark that they know.

Not done: aborted transactions (there are none).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from penstock.node.broker import Broker
from penstock.node.partitions.current_leaders import endpoints_of
from penstock.node.partitions.fetch_sessions import FetchPlan, Key, Session, Wanted, nobody_waits, wanted_in
from penstock.node.partitions.fetching import FetchReader, Reading, read_small
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.fetch import TOPIC_IDS_FROM, FetchFrame, TopicResults, encode_fetch_response, parse_fetch
from penstock.protocol.node_endpoints import NodeEndpoint
from penstock.replication.waits import Wait, Waits

WIDE_BYTES = 16 * 1024
"""A larger request is taken apart in a thread: it names some hundred partitions or more."""
LOOK_AT_ALL_S = 5.0
"""How often a session of very many partitions is looked at as a whole."""
WIDE = 200
"""More partitions than these are read in slices."""
AT_ONCE = 50
"""Partitions that are read in one slice: a millisecond, if each is refused."""
NOTED_AT_ONCE = 1000
"""Partitions of which a slice notes what was told, or lets go the waits: a millisecond."""

T = TypeVar("T")


@handles(ApiKey.FETCH, versions=(4, 18), needs=(Need.READ_TOPIC, Need.CLUSTER_ACTION), raw=True)
def fetch(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> list[Any] | Awaitable[list[Any]]:
    """Read each partition from its offset on."""
    if len(frame) > WIDE_BYTES:
        return _fetch_apart(broker, context, bytes(frame), position)
    return _fetch(broker, context, *_take_apart(frame, position, context.api_version))


async def _fetch_apart(broker: Broker, context: RequestContext, frame: bytes, position: int) -> list[Any]:
    loop = asyncio.get_running_loop()
    asked = await loop.run_in_executor(None, _take_apart, frame, position, context.api_version)
    found = _fetch(broker, context, *asked)
    return found if isinstance(found, list) else await found


def _take_apart(frame: bytes | memoryview, position: int, version: int) -> tuple[FetchFrame, dict[Key, Wanted]]:
    request = parse_fetch(frame, position, version)
    return request, wanted_in(request, uses_topic_ids=version >= TOPIC_IDS_FROM)


def _fetch(
    broker: Broker, context: RequestContext, request: FetchFrame, asked: dict[Key, Wanted]
) -> list[Any] | Awaitable[list[Any]]:
    uses_topic_ids = context.api_version >= TOPIC_IDS_FROM
    try:
        plan = broker.fetch_sessions.plan(request, asked, uses_topic_ids=uses_topic_ids, now_ms=broker.now_ms())
    except KafkaError as error:
        return encode_fetch_response([], context.api_version, context.correlation_id, error_code=error.code)
    finally:
        for session in broker.fetch_sessions.take_ended():
            asyncio.get_running_loop().create_task(_end(broker, session), name="end of a fetch session")
    reader = FetchReader(broker, request, plan, context)
    if len(plan.wanted) > WIDE:
        return _WideFetch(broker, context, request, plan, reader).answer(broker.slices)
    reading = reader.read()
    if _is_enough(reading, request) or request.max_wait_ms <= 0 or not plan.wanted:
        return _response(context, plan, reading.topics(plan), _endpoints(broker, context, reading))
    return _WaitingFetch(broker, context, request, plan, reader).future


def _is_enough(reading: Reading, request: FetchFrame) -> bool:
    return reading.total_bytes >= request.min_bytes or reading.is_urgent


def _endpoints(broker: Broker, context: RequestContext, reading: Reading) -> list[NodeEndpoint]:
    """Where the leaders are that the results name."""
    if not reading.is_urgent:
        return []
    leaders = [result.current_leader for _, result in reading.results if result.current_leader is not None]
    return endpoints_of(broker.image, context.peer.listener, leaders)


def _response(
    context: RequestContext, plan: FetchPlan, topics: TopicResults, endpoints: list[NodeEndpoint]
) -> list[Any]:
    read_small(topics)
    return encode_fetch_response(
        topics, context.api_version, context.correlation_id, session_id=plan.session_id, endpoints=endpoints
    )


async def _end(broker: Broker, session: Session) -> None:
    """Take the waits of a session away that has ended."""

    def cancel(some: list[Wanted]) -> None:
        for wanted in some:
            if wanted.standing is not None:
                wanted.standing.cancel()

    await _in_turns(broker.slices, list(session.wanted.values()), NOTED_AT_ONCE, cancel)


def _cancel(waits: list[tuple[Waits, Wait]]) -> None:
    for queue, wait in waits:
        queue.cancel(wait)


async def _in_turns(slices: asyncio.Lock, items: list[T], at_once: int, do: Callable[[list[T]], None]) -> None:
    """Do something with very many, so many at once; the node serves others in between."""
    for first in range(0, len(items), at_once):
        async with slices:
            await asyncio.sleep(0)
            do(items[first : first + at_once])


class _WideFetch:
    """A request about very many partitions: looks at them in slices, waits, and does so again until there is enough.

    In a session it looks only at those that are marked, and at all of them every `LOOK_AT_ALL_S`.
    """

    def __init__(
        self, broker: Broker, context: RequestContext, request: FetchFrame, plan: FetchPlan, reader: FetchReader
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._plan = plan
        self._reader = reader
        self._session = plan.session if plan.is_incremental else None
        self._woken = asyncio.Event()
        self._waits: list[tuple[Waits, Wait]] = []

    async def answer(self, slices: asyncio.Lock) -> list[Any]:
        """The response; a slice is worked on while `slices` is held."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._request.max_wait_ms / 1000
        try:
            while True:
                reading = await self._read(slices, may_wait=loop.time() < ends_s)
                if _is_enough(reading, self._request) or not await self._has_more_before(ends_s):
                    break
                await self._let_go(slices)
        finally:
            if self._session is not None:
                self._session.woken = nobody_waits
            await self._let_go(slices)
        await _in_turns(slices, reading.results, NOTED_AT_ONCE, partial(reading.tell, self._plan))
        topics, endpoints = reading.told(self._plan), _endpoints(self._broker, self._context, reading)
        return await loop.run_in_executor(None, _response, self._context, self._plan, topics, endpoints)

    async def _read(self, slices: asyncio.Lock, *, may_wait: bool) -> Reading:
        self._woken.clear()
        reading, session = self._reader.start(), self._session

        def read(some: list[Wanted]) -> None:
            self._reader.go_on(reading, some)
            if session is not None:
                self._waits += self._reader.stand(session, some, self._woken.set)
            elif may_wait and not _is_enough(reading, self._request):
                self._waits += self._reader.wait(some, self._woken.set)

        await _in_turns(slices, self._to_look_at(), AT_ONCE, read)
        return reading

    def _to_look_at(self) -> list[Wanted]:
        session, now_s = self._session, asyncio.get_running_loop().time()
        if session is None:
            return list(self._plan.wanted.values())
        session.woken = self._woken.set
        if now_s - session.looked_at_all_s < LOOK_AT_ALL_S:
            return list(session.marked.values())
        session.looked_at_all_s = now_s
        return list(session.wanted.values())

    async def _let_go(self, slices: asyncio.Lock) -> None:
        waits, self._waits = self._waits, []
        await _in_turns(slices, waits, NOTED_AT_ONCE, _cancel)

    async def _has_more_before(self, ends_s: float) -> bool:
        """Wait for a partition to have more; False when the time is up."""
        if asyncio.get_running_loop().time() >= ends_s:
            return False
        try:
            async with asyncio.timeout_at(ends_s):
                return await self._woken.wait()
        except TimeoutError:
            return False


class _WaitingFetch:
    """A long poll: waits for enough bytes, or for the time to be up."""

    __slots__ = (
        "_broker",
        "_context",
        "_is_scheduled",
        "_loop",
        "_plan",
        "_reader",
        "_request",
        "_timer",
        "_waits",
        "future",
    )

    def __init__(
        self, broker: Broker, context: RequestContext, request: FetchFrame, plan: FetchPlan, reader: FetchReader
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._plan = plan
        self._reader = reader
        self._is_scheduled = False
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[Any]] = self._loop.create_future()
        self.future.add_done_callback(self._clean_up)
        self._timer = self._loop.call_later(request.max_wait_ms / 1000, self._finish)
        self._waits = self._wait()

    def _wait(self) -> list[tuple[Waits, Wait]]:
        """Be woken when any of the partitions has more than what was just looked at."""
        return self._reader.wait(self._plan.wanted.values(), self._woken)

    def _woken(self) -> None:
        """Look again, once, when all requests that the node has at hand are done: they may bring more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_scheduled = False
        if self.future.done():
            return
        self._read(is_last=False)

    def _finish(self) -> None:
        if not self.future.done():
            self._read(is_last=True)

    def _read(self, *, is_last: bool) -> None:
        try:
            reading = self._reader.read()
            if is_last or _is_enough(reading, self._request):
                endpoints = _endpoints(self._broker, self._context, reading)
                self.future.set_result(_response(self._context, self._plan, reading.topics(self._plan), endpoints))
            else:
                _cancel(self._waits)
                self._waits = self._wait()
        except Exception as error:  # the loop called us: whoever waits for the future must hear of it
            self.future.set_exception(error)

    def _clean_up(self, _: object) -> None:
        self._timer.cancel()
        _cancel(self._waits)
