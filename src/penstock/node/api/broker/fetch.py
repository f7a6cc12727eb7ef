"""Fetch 4-18: read record batches as they lie on disk; with sessions (KIP-227) and, from version 13, topics by id.

A request that finds less than `min_bytes` waits up to `max_wait_ms`; it is woken by the partitions it asked for and by
one timer, and costs nothing in between. An error or a divergence is told at once.

A request about very many partitions is read in slices, between which the node serves others. Of each partition it is
known when it gets more from the turn on in which it was looked at, so that nothing is missed between two slices.

A consumer that names its rack is sent to a replica there (KIP-392), if `replica.selector.class` is the rack-aware one;
followers answer any request of version 11 or newer, up to the high watermark that they know.

A replica of a storage group fetches the group's own log, or copies one of its partitions: see `storage_group_requests`.

Readers of committed records stop at the first open transaction, and are told what was aborted. They, too, wait for the
high watermark: the last stable offset moves with nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Generator, Sequence
from functools import partial
from typing import Any, Final

from penstock.node.api.fetching import Answer, FetchReader
from penstock.node.api.storage_group_rows import fetched_by_replica
from penstock.node.partitions.fetch_sessions import (
    FetchPlan,
    FetchSessions,
    Key,
    Session,
    Wanted,
    nobody_waits,
    wanted_in,
)
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CLUSTER_ACTION, READ_TOPIC
from penstock.node.serving.frames import kept
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.rules import Within
from penstock.node.serving.slices import Slices, Steps, at_once
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import TOPIC_IDS_FROM, FetchFrame, encode_fetch_response, parse_fetch
from penstock.replication.waits import Wait, Waits

WIDE_BYTES = 16 * 1024
"""A larger request is taken apart in a thread: it names some hundred partitions or more."""
OBJECTS_PER_BYTE = 20
"""How much more than the bytes of such a request its objects take, with what is found of each partition."""
WIDE = 200
"""More partitions than these are read in slices."""
AT_ONCE = 10
"""Partitions that are read in one slice: a few milliseconds, if the log of each has to be read in."""
NOTED_AT_ONCE = 1000
"""Partitions of which a slice notes what was told, or lets go the waits: a millisecond."""


RULE: Final = (Within(READ_TOPIC, "for each"), Within(CLUSTER_ACTION, "instead, between nodes"))


@handles(ApiKey.FETCH, versions=(4, 18), rule=RULE, raw=True)
def fetch(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> list[Any] | Awaitable[list[Any]]:
    if len(frame) > WIDE_BYTES:
        return _fetch_apart(broker, context, kept(frame), position)
    request = parse_fetch(frame, position, context.api_version)
    if request.cluster_id is not None and context.allows(CLUSTER_ACTION):  # only replicas of the core's logs say that
        answer = fetched_by_replica(broker, context, request, frame, position)
        if answer is not None:
            context.counts = context.counts.of_nodes
            if context.charge is not None:
                context.charge.is_of_a_node()
            return answer
    return _fetch(broker, context, request)


def _fetch(broker: Broker, context: RequestContext, request: FetchFrame) -> list[Any] | Awaitable[list[Any]]:
    try:
        plan = at_once(_planned(broker, context, request, None))
    except KafkaError as error:
        return _refused(context, error)
    return _fetched(broker, context, request, plan)


async def _fetch_apart(broker: Broker, context: RequestContext, frame: memoryview | bytes, position: int) -> list[Any]:
    """It has room for its objects until it is answered; one that waits for records makes way for who needs that.

    A follower takes its room at once, and its turn: producers that wait for it may have all there is.
    """
    memory, waits = broker.slices.memory, not context.comes_from_a_node
    size = OBJECTS_PER_BYTE * len(frame)
    taken_apart = partial(_taken_apart, frame, position, context.api_version)
    async with broker.slices.of_frame(len(frame), size, taken_apart, waits=waits) as (request, wanted):
        del frame, taken_apart
        try:
            planned = broker.slices.answer(_planned(broker, context, request, wanted), waits=waits)
            plan = planned if isinstance(planned, FetchPlan) else await planned
        except KafkaError as error:
            return _refused(context, error)
        found = _fetched(broker, context, request, plan)
        if isinstance(found, list):
            return found
        with memory.idle(size, found.cut_short):
            return await found


def _taken_apart(frame: memoryview | bytes, position: int, version: int) -> tuple[FetchFrame, dict[Key, Wanted] | None]:
    """A request that goes on with a session names changes, and they are made where the session is."""
    request = parse_fetch(frame, position, version)
    if request.session_epoch > 0:
        return request, None
    return request, wanted_in(request, uses_topic_ids=version >= TOPIC_IDS_FROM)


def _planned(
    broker: Broker, context: RequestContext, request: FetchFrame, wanted: dict[Key, Wanted] | None
) -> Steps[FetchPlan]:
    sessions, by_id = broker.fetch_sessions, context.api_version >= TOPIC_IDS_FROM
    if request.replica_id >= 0:
        context.counts = context.counts.of_nodes
    try:
        return (yield from sessions.plan(request, wanted, uses_topic_ids=by_id, now_ms=broker.now_ms()))
    finally:
        while sessions.ended:
            ending = _end(broker, sessions.ended.pop())
            sessions.tasks.start(ending, "end of a fetch session")


def _refused(context: RequestContext, error: KafkaError) -> list[Any]:
    return encode_fetch_response([], context.api_version, context.correlation_id, error_code=error.code)


def _fetched(
    broker: Broker, context: RequestContext, request: FetchFrame, plan: FetchPlan
) -> list[Any] | _WideFetch | _WaitingFetch:
    if context.charge is not None:
        owed_ms = _owed_ms(context, request)
        if owed_ms:
            return _throttled(broker.fetch_sessions, context, plan, owed_ms)
    reader = FetchReader(broker, context, request, plan)
    if len(plan.wanted) > WIDE:
        return _WideFetch(reader)
    # A follower polls many times a second: it looks at what can have changed.
    session = plan.session if plan.is_incremental and request.replica_id >= 0 else None
    reader.read(asked := _to_look_at(plan, session))
    if reader.is_enough or request.max_wait_ms <= 0 or not plan.wanted:
        return reader.answer()
    return _WaitingFetch(reader, session, asked)


def _owed_ms(context: RequestContext, request: FetchFrame) -> int:
    """For how long the client gets no records by its quotas. Followers have none; watch mode makes nobody one."""
    assert context.charge is not None
    if request.replica_id >= 0 and context.has(CLUSTER_ACTION):
        context.charge.is_of_a_node()
        return 0
    return context.charge.fetch_owed_ms()


def _throttled(sessions: FetchSessions, context: RequestContext, plan: FetchPlan, throttle_time_ms: int) -> list[Any]:
    """An answer without records (KIP-219). A session goes on; one that would begin does so with a later fetch."""
    if not plan.is_incremental:
        sessions.close(plan.session_id)
    return encode_fetch_response(
        [],
        context.api_version,
        context.correlation_id,
        throttle_time_ms=throttle_time_ms,
        session_id=plan.session_id if plan.is_incremental else 0,
    )


def _to_look_at(plan: FetchPlan, session: Session | None) -> Collection[Wanted]:
    """All that is asked for, or what the marks of a session say."""
    return plan.wanted.values() if session is None else session.to_look_at(asyncio.get_running_loop().time())


async def _end(broker: Broker, session: Session) -> None:
    """Take away the waits of a session that has ended."""

    def cancel(some: Sequence[Wanted]) -> None:
        for wanted in some:
            if wanted.standing is not None:
                wanted.standing.cancel()

    await broker.slices.each(list(session.wanted.values()), NOTED_AT_ONCE, cancel)


def _cancel(waits: Sequence[tuple[Waits, Wait]]) -> None:
    for queue, wait in waits:
        queue.cancel(wait)


class _WideFetch:
    """A request about very many partitions: looks at them in slices, waits, and does so again until there is enough.

    In a session it looks at what that says.
    """

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader
        self._session = reader.plan.session if reader.plan.is_incremental else None
        self._woken = asyncio.Event()
        self._waits: list[tuple[Waits, Wait]] = []
        self._begun_s = asyncio.get_running_loop().time()
        self._ends_s = self._begun_s + reader.request.max_wait_ms / 1000

    def cut_short(self) -> None:
        """Look once more, and answer."""
        self._ends_s = 0.0
        self._woken.set()

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self._answer(self._reader.broker.slices).__await__()

    async def _answer(self, slices: Slices) -> list[Any]:
        loop, reader = asyncio.get_running_loop(), self._reader
        reader.waits(self)
        try:
            while True:
                await self._read(slices, may_wait=loop.time() < self._ends_s)
                self._ends_s = min(self._ends_s, self._begun_s + reader.longest_wait_s)
                if reader.is_enough or not await self._has_more_before(self._ends_s):
                    break
                await self._let_go(slices)
        finally:
            reader.waits_no_longer(self)
            if self._session is not None:
                self._session.woken = nobody_waits
            await self._let_go(slices)
        topics: Answer = {}
        await slices.each(reader.results, NOTED_AT_ONCE, partial(reader.tell, topics))
        return await loop.run_in_executor(None, reader.encode, topics, reader.endpoints())

    async def _read(self, slices: Slices, *, may_wait: bool) -> None:
        self._woken.clear()
        reader, session = self._reader, self._session
        reader.start()

        def read(some: Sequence[Wanted]) -> None:
            reader.read(some)
            if session is not None:
                self._waits += reader.stand(session, some, self._woken.set)
            elif may_wait and not reader.is_enough:
                self._waits += reader.wait(some, self._woken.set)

        if session is None:
            asked = list(reader.plan.wanted.values())
        else:
            session.woken = self._woken.set
            asked = session.to_look_at(asyncio.get_running_loop().time())
        await slices.each(asked, AT_ONCE, read)

    async def _let_go(self, slices: Slices) -> None:
        waits, self._waits = self._waits, []
        await slices.each(waits, NOTED_AT_ONCE, _cancel)

    async def _has_more_before(self, ends_s: float) -> bool:
        """False when the time is up."""
        if asyncio.get_running_loop().time() >= ends_s:
            return False
        try:
            async with asyncio.timeout_at(ends_s):
                return await self._woken.wait()
        except TimeoutError:
            return False


class _WaitingFetch(LateAnswer[list[Any]]):
    """A long poll: waits for enough bytes, or for the time to be up."""

    __slots__ = ("_is_over", "_is_scheduled", "_loop", "_reader", "_session", "_timer", "_waits")

    def __init__(self, reader: FetchReader, session: Session | None, asked: Collection[Wanted]) -> None:
        """`session` is the one whose marks are looked at, if any; `asked` was looked at just now."""
        super().__init__()
        self._reader = reader
        self._session = session
        self._is_scheduled = False
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_later(reader.longest_wait_s, self._finish)
        self._waits = self._wait(asked)
        reader.waits(self)

    def cut_short(self) -> None:
        """Answer in the next turn of the loop."""
        if not self._is_over:
            self._timer.cancel()
            self._timer = self._loop.call_soon(self._finish)

    def _wait(self, asked: Collection[Wanted]) -> list[tuple[Waits, Wait]]:
        if self._session is None:
            return self._reader.wait(asked, self._woken)
        self._session.woken = self._woken
        return self._reader.stand(self._session, asked, self._woken)

    def _woken(self) -> None:
        """Look again, once, when all requests that the node has at hand are done: they may bring more.

        The next turn of the loop begins with what was called for, and only then sees what other clients have sent; a
        client that has several requests under way sends one after the other.
        """
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._loop.call_soon, self._look)

    def _look(self) -> None:
        self._is_scheduled = False
        if not self._is_over:
            self._read(is_last=False)

    def _finish(self) -> None:
        self._read(is_last=True)

    def _read(self, *, is_last: bool) -> None:
        reader = self._reader
        try:
            reader.start()
            reader.read(asked := _to_look_at(reader.plan, self._session))
            if not is_last and not reader.is_enough:
                _cancel(self._waits)
                self._waits = self._wait(asked)
                return
            answer = reader.answer()
        except Exception as error:  # the loop called us: the request that waits must hear of it
            self.call_off()
            self.fail(error)
            return
        self.call_off()
        self.tell(answer)

    def call_off(self) -> None:
        self._is_over = True
        self._timer.cancel()
        self._reader.waits_no_longer(self)
        if self._session is not None:
            self._session.woken = nobody_waits
        waits, self._waits = self._waits, []  # they refer to this object
        _cancel(waits)
